"""One process with what goes in and what comes out of it."""

import asyncio
import contextlib
import os
from typing import Final

from kohort.node.runtimes.interface import STDERR, Instance, Launch
from kohort.node.runtimes.log_files import LogWriter
from kohort.node.runtimes.process.supervisor_protocol import frame

DRAIN_SECONDS: Final = 0.5
CHUNK: Final = 65536


class SupervisedProcess:
    """`listeners` get what it writes and, at the end, its exit code."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.instance: Instance | None = None
        self.listeners: set[asyncio.StreamWriter] = set()
        self.input: int | None = None
        self.sources: dict[int, int] = {}
        self.drained = asyncio.Event()
        self.log = LogWriter(launch.log) if launch.log else None

    def send(self, channel: int, data: bytes) -> None:
        for listener in self.listeners:
            listener.write(frame(channel, data))

    def follow(self, source: int, channel: int) -> None:
        """Take what comes out of a descriptor."""
        os.set_blocking(source, False)
        self.sources[source] = channel
        asyncio.get_running_loop().add_reader(source, self._take, source)

    def _take(self, source: int) -> None:
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            channel = self.sources[source]
            if self.log is not None:
                self.log.write("stderr" if channel == STDERR else "stdout", data)
            self.send(channel, data)
        else:
            self.unfollow(source)

    def unfollow(self, source: int) -> None:
        if self.sources.pop(source, None) is not None:
            asyncio.get_running_loop().remove_reader(source)
            if source != self.input:
                os.close(source)
        if not self.sources:
            self.drained.set()

    def close_input(self) -> None:
        if self.input is not None and not self.launch.tty:
            os.close(self.input)
            self.input = None

    async def drain(self) -> None:
        """Wait for the rest of the output, for a limited time: another process may hold the other end open."""
        if self.sources:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.drained.wait(), DRAIN_SECONDS)
        for source in list(self.sources):
            self._take(source)
            self.unfollow(source)
        if self.log is not None:
            self.log.close()
        if self.input is not None:
            with contextlib.suppress(OSError):
                os.close(self.input)
            self.input = None
