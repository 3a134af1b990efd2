"""The response object that aiohttp gets when the answer was already written to the connection.

This is apart from `response_writer.py` because that is loaded at the start, and aiohttp is not.
"""

from aiohttp import web


class AlreadyWritten(web.StreamResponse):
    def __init__(self, *, keep_alive: bool) -> None:
        """`keep_alive`: whether another request may follow on the same connection."""
        super().__init__()
        self._stays_open = keep_alive

    @property
    def keep_alive(self) -> bool:
        return self._stays_open

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing to do: the answer is written."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing to do: the answer is written."""
