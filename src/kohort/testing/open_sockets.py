"""Which open file descriptors can receive data from outside of this process.

| descriptor                                              | data from outside?                                        |
|---------------------------------------------------------|-----------------------------------------------------------|
| listening socket                                        | no: there is no connection yet                            |
| TCP connection whose other end is ours too              | no, once every byte that was sent has arrived             |
| TCP connection to another process, or just being made   | yes                                                       |
| pipe, terminal, anything else                           | yes                                                       |
"""

import fcntl
import socket
import struct
from collections.abc import Iterable

_SIOCOUTQNSD = 0x894B
"""Linux: bytes not sent yet. On loopback, what is sent has arrived, although its receipt may be confirmed later."""


def may_receive_from_outside(descriptors: Iterable[int]) -> bool:
    ends = [_End(descriptor) for descriptor in descriptors]
    ours = {end.name for end in ends}
    return any(not end.listens and (end.peer not in ours or end.unsent) for end in ends)


class _End:
    """One end of a connection."""

    def __init__(self, descriptor: int) -> None:
        self.name: object = None
        self.peer: object = descriptor
        self.listens = False
        self.unsent = 0
        try:
            sock = socket.socket(fileno=descriptor)
        except OSError:
            return
        try:
            self._inspect(sock)
        except OSError:
            pass
        finally:
            sock.detach()

    def _inspect(self, sock: socket.socket) -> None:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        self.name = sock.getsockname()
        self.listens = bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        if not self.listens:
            self.peer = sock.getpeername()
            (self.unsent,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, bytes(4)))
