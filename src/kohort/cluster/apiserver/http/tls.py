"""TLS between the socket and a protocol, in as few steps as it takes.

asyncio's own TLS keeps a state machine, queues and copies between the two, for connections that are upgraded midway,
closed in halves or renegotiated. None of that happens here, and it is half the price of a small request. What is left:
bytes from the socket go into the TLS engine and what it makes of them to the protocol; what the protocol writes goes
into the engine and from there to the socket. The socket itself, with everything that waits to be written to it, stays
with asyncio.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterable
from typing import Final

HANDSHAKE_SECONDS: Final = 30.0
"""In which a client has to say who it is."""
READ_SIZE: Final = 256 * 1024
"""Bytes that are taken from a socket at once."""
RECORD_SIZE: Final = 16 * 1024
"""Bytes that the engine returns at most, and makes room for in advance."""
HANDSHAKE_RECORD: Final = 22
"""What every TLS connection begins with."""
NOT_TLS: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class TlsProtocolFactory:
    """Makes TLS connections with protocols of one kind on top of them."""

    def __init__(self, context: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol]) -> None:
        self.context = context
        self.protocol = protocol
        self.buffer = memoryview(bytearray(READ_SIZE))
        """What the socket delivers is taken from here before anything else is read, so one is enough for all."""

    def __call__(self) -> "TlsConnection":
        return TlsConnection(self)


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a socket, and the transport of the protocol above."""

    def __init__(self, secured: TlsProtocolFactory) -> None:
        super().__init__()
        self._secured = secured
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = secured.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport
        self._above: asyncio.BaseProtocol | None = None
        """There once both sides have shaken hands."""
        self._timer: asyncio.TimerHandle | None = None
        self._fresh = True
        """Nothing has been received."""
        self._ended = False
        """The client said that nothing more will come."""
        self._closing = False

    # --- called by the socket --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self.abort)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._secured.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._fresh and self._secured.buffer[0] != HANDSHAKE_RECORD:
            self._closing = True
            self._socket.write(NOT_TLS)
            self._socket.close()
            return
        self._fresh = False
        self._incoming.write(self._secured.buffer[:nbytes])
        try:
            if self._above is None and not self._continue_handshake():
                return
            data = self._decrypted()
        except ssl.SSLError:
            self._give_up()
            return
        if data and isinstance(self._above, asyncio.Protocol):
            self._above.data_received(data)
        if self._ended:
            self.close()

    def eof_received(self) -> None:
        if isinstance(self._above, asyncio.Protocol):
            self._above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._cancel_timer()
        if self._above is not None:
            self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    # --- the engine ---------------------------------------------------------------------------------------------------

    def _continue_handshake(self) -> bool:
        """Go on with the handshake; whether it is over."""
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()
        self._cancel_timer()
        self._above = self._secured.protocol()
        self._above.connection_made(self)
        return True

    def _decrypted(self) -> bytes:
        """All that can be read now."""
        parts: list[bytes] = []
        while self._incoming.pending or self._engine.pending():
            try:
                part = self._engine.read(RECORD_SIZE)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                self._ended = True
                break
            parts.append(part)
        self._flush()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        written = self._engine.write(data)
        if written < len(data):
            rest = memoryview(data)
            while written < len(rest):
                written += self._engine.write(rest[written:])

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def _give_up(self) -> None:
        """The handshake failed or the client broke the protocol: send the alert, if there is one, and close."""
        self._closing = True
        self._flush()
        self._socket.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- above: what the protocol wants -------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._closing:
            return
        try:
            for data in list_of_data:
                if data:
                    self._encrypt(data)
        except ssl.SSLError:
            self._give_up()
            return
        self._socket.write(self._outgoing.read())

    def close(self) -> None:
        """Say goodbye, send what is left, close. What the client still has to say is not waited for."""
        if self._closing:
            return
        self._closing = True
        if self._above is not None:
            with contextlib.suppress(ssl.SSLError):  # It would like to hear goodbye as well.
                self._engine.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def is_reading(self) -> bool:
        return self._socket.is_reading()

    def can_write_eof(self) -> bool:
        return False

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._above is not None
        return self._above

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._above = protocol

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peercert":
            return self._engine.getpeercert()
        if name == "ssl_object":
            return self._engine
        if name == "sslcontext":
            return self._secured.context
        return self._socket.get_extra_info(name, default)
