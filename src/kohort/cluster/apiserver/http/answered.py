"""What aiohttp is told when an answer has been written without it."""

from aiohttp import web


class AlreadyWritten(web.StreamResponse):
    def __init__(self, *, lasting: bool) -> None:
        """`lasting`: whether another request may follow on the same connection."""
        super().__init__()
        self._lasting = lasting

    @property
    def keep_alive(self) -> bool:
        return self._lasting

    async def prepare(self, request: web.BaseRequest) -> None:
        """It is written."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""
