"""Running a script of a user in a child process, within limits.

| limit  | how                                                                                         |
|--------|---------------------------------------------------------------------------------------------|
| reach  | no os, io, debug, package, load; no object of ours inside; no files, no environment         |
| time   | 1 s, then the kernel ends the child                                                         |
| memory | 32 MiB for the script (the child survives that), and a limit for the whole child beyond it  |
| answer | must be JSON text of bounded size                                                           |

The child is started by the first script, kept warm for the next ones (a script then takes about a millisecond), and
ended after a minute of rest. Each script has a fresh Lua state, so none can leave anything for another. A child that
dies is replaced.
"""

import asyncio
import contextlib
import signal
import struct
import sys
from pathlib import Path
from typing import Final

import msgspec

from kohort.objects.json_types import Json, JsonObject

SECONDS: Final = 1.0
_CHILD: Final = str(Path(__file__).with_name("child.py"))
_START_SECONDS: Final = 600.0
_BACKSTOP_SECONDS: Final = 600.0
"""The child's own alarm is what stops a script. This one only guards against a child that is stopped altogether, and is
long because on virtual time it passes fifty times as fast."""
_REST_SECONDS: Final = 60.0
_LARGEST: Final = 4 << 20


class ScriptProblem(Exception):
    """Why a script gave no result."""


class _ScriptOutput(msgspec.Struct):
    result: str = ""
    problem: str = ""


class Sandbox:
    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._rest: asyncio.TimerHandle | None = None
        self.started = 0
        """Children so far."""

    async def run(self, script: str, given: JsonObject) -> Json:
        """What the script returns when `obj` is `given`."""
        async with self._turn:
            self._cancel_rest()
            try:
                output = await self._exchange(script, given)
            finally:
                self._rest = asyncio.get_running_loop().call_later(_REST_SECONDS, self._end_child)
        if output.problem:
            raise ScriptProblem(output.problem)
        return msgspec.json.decode(output.result)

    async def close(self) -> None:
        self._cancel_rest()
        child = self._child
        self._end_child()
        if child is not None:
            await child.wait()

    async def _exchange(self, script: str, given: JsonObject) -> _ScriptOutput:
        order = {"script": script, "input": msgspec.json.encode(given).decode(), "seconds": SECONDS}
        data = msgspec.json.encode(order)
        child = await self._running_child()
        assert child.stdin is not None and child.stdout is not None
        try:
            async with asyncio.timeout(_BACKSTOP_SECONDS):
                child.stdin.write(struct.pack(">I", len(data)) + data)
                await child.stdin.drain()
                return msgspec.json.decode(await _frame(child.stdout), type=_ScriptOutput)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await child.wait()
            self._child = None
            raise ScriptProblem(_exit_reason(code)) from None
        except BaseException:
            # Half an exchange is on the pipe: this child cannot be used again.
            self._end_child()
            raise

    async def _running_child(self) -> asyncio.subprocess.Process:
        if self._child is not None and self._child.returncode is None:
            return self._child
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            _CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
        self._child = child
        self.started += 1
        assert child.stdout is not None
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _frame(child.stdout)
        except asyncio.IncompleteReadError:
            code = await child.wait()
            self._child = None
            raise ScriptProblem(
                f"the process for scripts did not start (exit code {code}); is lupa installed?"
            ) from None
        except BaseException:
            self._end_child()
            raise
        return child

    def _cancel_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


async def _frame(stream: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">I", await stream.readexactly(4))
    if length > _LARGEST:
        raise ScriptProblem(f"its result has {length} bytes; {_LARGEST} are allowed")
    return await stream.readexactly(length)


def _exit_reason(code: int) -> str:
    if code == -signal.SIGALRM:
        return f"did not finish within {SECONDS:g} s"
    return f"its process died ({signal.Signals(-code).name if code < 0 else f'exit code {code}'}), probably for memory"
