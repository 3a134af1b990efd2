"""A client that sends requests without end: completions, streamed through the gateway, counted by answering version.

A request counts as answered only if its stream reached the end mark of the protocol with all requested words. Any other
request is a failure and is recorded with its reason.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import aiohttp

from kohort.objects.json_types import JsonObject

PROMPTS: Final = ("a group is", "the leader takes", "requests are answered", "when one worker", "a canary takes")
CLIENTS: Final = 5
PAUSE_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 20.0
WORDS: Final = 14


@dataclass(frozen=True, slots=True)
class Answer:
    begun: float
    first_word: float
    """Seconds to the first word."""
    version: str
    text: str


class IncompleteAnswer(Exception):
    """An error status, or a stream that ended early."""


class LoadClient:
    """Sends requests inside `async with`; those under way at its end are still answered."""

    def __init__(self, url: str) -> None:
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self._url = f"{url}/v1/completions"
        self._numbers = itertools.count()
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None
        self._answered = asyncio.Condition()

    async def __aenter__(self) -> "LoadClient":
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS))
        self._tasks = [asyncio.create_task(self._send_requests(self._session)) for _ in range(CLIENTS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if problem is not None:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._session is not None
        await self._session.close()

    async def sample(self, count: int) -> Counter[str]:
        """How many of the next `count` requests each version answers; requests already under way do not count."""
        now = time.monotonic()
        async with self._answered:
            await self._answered.wait_for(lambda: sum(1 for _ in self._since(now)) >= count)
        return Counter(one.version for one in self._since(now))

    def _since(self, begun: float) -> Iterator[Answer]:
        return (one for one in self.answers if one.begun >= begun)

    @property
    def versions(self) -> Counter[str]:
        return Counter(one.version for one in self.answers)

    def recent(self, seconds: float) -> list[Answer]:
        return list(self._since(time.monotonic() - seconds))

    async def _send_requests(self, session: aiohttp.ClientSession) -> None:
        while not self._ended.is_set():
            number = next(self._numbers)
            try:
                self.answers.append(await self._send(session, number))
            except (aiohttp.ClientError, TimeoutError, IncompleteAnswer, ValueError) as problem:
                self.failures.append(f"request {number}: {type(problem).__name__}: {problem}")
            async with self._answered:
                self._answered.notify_all()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), PAUSE_SECONDS)

    async def _send(self, session: aiohttp.ClientSession, number: int) -> Answer:
        body = {"prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": WORDS, "temperature": 0.6, "seed": number}
        begun, first = time.monotonic(), 0.0
        words: list[str] = []
        version, complete = "", False
        async with session.post(self._url, json={**body, "stream": True}) as response:
            if response.status != 200:
                raise IncompleteAnswer(f"{response.status} {(await response.text())[:200]}")
            async for line in response.content:
                data = line.decode().removeprefix("data: ").strip()
                if data == "[DONE]":
                    complete = True
                elif data:
                    event: JsonObject = json.loads(data)
                    first = first or time.monotonic() - begun
                    version = event["model"].partition("-")[2]
                    words += event["choices"][0]["text"].split()
        if not complete or len(words) != WORDS:
            raise IncompleteAnswer(f"the stream of {version} ended after {len(words)} of {WORDS} words")
        return Answer(begun, first, version, f"{body['prompt']} {' '.join(words)}")
