"""A client that never stops asking: completions, streamed through the gateway, counted by the version that answered.

A request counts as answered only if its stream came to the end that the protocol promises, with every word that was
asked for. Anything else is a failure, and is remembered with its reason.
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


class Broken(Exception):
    """An answer that is not one."""


class Traffic:
    """Runs from `async with` to its end; whoever waits for an answer then still gets it."""

    def __init__(self, url: str) -> None:
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self._url = f"{url}/v1/completions"
        self._numbers = itertools.count()
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None
        self._more = asyncio.Condition()

    async def __aenter__(self) -> "Traffic":
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS))
        self._tasks = [asyncio.create_task(self._ask_on(self._session)) for _ in range(CLIENTS)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if problem is not None:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._session is not None
        await self._session.close()

    async def sample(self, count: int) -> Counter[str]:
        """Of the next `count` requests that are begun from now on: how many each version answered."""
        now = time.monotonic()
        async with self._more:
            await self._more.wait_for(lambda: sum(1 for _ in self._since(now)) >= count)
        return Counter(one.version for one in self._since(now))

    def _since(self, begun: float) -> Iterator[Answer]:
        return (one for one in self.answers if one.begun >= begun)

    @property
    def versions(self) -> Counter[str]:
        return Counter(one.version for one in self.answers)

    def recent(self, seconds: float) -> list[Answer]:
        return list(self._since(time.monotonic() - seconds))

    async def _ask_on(self, session: aiohttp.ClientSession) -> None:
        while not self._over.is_set():
            number = next(self._numbers)
            try:
                self.answers.append(await self._ask(session, number))
            except (aiohttp.ClientError, TimeoutError, Broken, ValueError) as problem:
                self.failures.append(f"request {number}: {type(problem).__name__}: {problem}")
            async with self._more:
                self._more.notify_all()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), PAUSE_SECONDS)

    async def _ask(self, session: aiohttp.ClientSession, number: int) -> Answer:
        body = {"prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": WORDS, "temperature": 0.6, "seed": number}
        begun, first = time.monotonic(), 0.0
        words: list[str] = []
        version, complete = "", False
        async with session.post(self._url, json={**body, "stream": True}) as response:
            if response.status != 200:
                raise Broken(f"{response.status} {(await response.text())[:200]}")
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
            raise Broken(f"the stream of {version} ended after {len(words)} of {WORDS} words")
        return Answer(begun, first, version, f"{body['prompt']} {' '.join(words)}")
