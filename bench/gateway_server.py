"""A server behind a gateway, as small as can be: what is measured is the gateway.

    python bench/gateway_server.py ADDRESS PORT NAME

`/` answers with NAME, every time in the same bytes; `/numbered` with NAME and a head of its own for each answer.
`/stream` sends a part every 20 ms, 50 of them; `/long` one every 100 ms for 20 s.
"""

import asyncio
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
NUMBERED = (
    b"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: bench\r\nContent-Type: application/json\r\n"
    b"X-Request-Id: %d\r\nContent-Length: %d\r\n\r\n%b"
)
STREAMS = {b"/stream": (50, 0.02), b"/long": (200, 0.1)}


class Connection(asyncio.Protocol):
    def __init__(self, name: bytes) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (
            len(name),
            name,
        )
        self._name = name
        self._held = b""
        self._answered = 0
        self._streaming: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while b"\r\n\r\n" in self._held:
            head, _, self._held = self._held.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            if path == b"/numbered":
                self._answered += 1
                self._transport.write(NUMBERED % (self._answered, len(self._name), self._name))
            elif path in STREAMS:
                self._streaming = asyncio.ensure_future(self._stream(*STREAMS[path]))
            else:
                self._transport.write(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    async def _stream(self, parts: int, pause: float) -> None:
        self._transport.write(HEAD + _chunk(self._name + b"\n"))
        for number in range(parts):
            await asyncio.sleep(pause)
            self._transport.write(_chunk(b"data: %d\n\n" % number))
        self._transport.write(b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def main(address: str, port: str, name: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(name.encode()), address, int(port), backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
