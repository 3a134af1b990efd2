"""What the event loop complains of is told, and not for ever."""

import asyncio
import errno
import os

import msgspec
import pytest

from kohort.objects.json_types import JsonObject
from kohort.testing import virtual_time
from kohort.up.loop_errors import LoopErrorLog


def told(capsys: pytest.CaptureFixture[str]) -> list[JsonObject]:
    return [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]


def test_the_same_complaint_is_told_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(LoopErrorLog())
        problem = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        for _ in range(1000):
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": problem})
            await asyncio.sleep(0.1)

    virtual_time.run(story())
    assert [line["event"].partition(";")[0] for line in told(capsys)] == [
        "no more connections: too many open files"
    ] * 2


async def test_a_callback_that_fails_is_told_with_its_stack(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrorLog())
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(lambda: int("x"))
    await asyncio.sleep(0.01)
    first, second = told(capsys)
    assert ("ZeroDivisionError" in first["exception"], "ValueError" in second["exception"]) == (True, True)
    assert first["event"].startswith("Exception in callback")
