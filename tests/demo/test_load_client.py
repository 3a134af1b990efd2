"""What the demo's client takes for an answer, and what for a failure."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kohort.demo.load_client import WORDS, LoadClient

Serve = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Serve) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def streamed(request: web.Request, words: int, version: str = "v1", *, done: bool = True) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    event = f'data: {{"model": "tiny-{version}", "choices": [{{"text": "word "}}]}}\n\n'
    await response.write((event * words + ("data: [DONE]\n\n" if done else "")).encode())
    return response


async def test_answers_are_counted_by_version() -> None:
    count = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        return await streamed(request, WORDS, "v2" if count % 4 == 0 else "v1")

    async with serving(handler) as url, LoadClient(url) as traffic:
        seen = await traffic.sample(20)
    assert traffic.failures == []
    assert seen.total() >= 20
    assert 0 < seen["v2"] < seen["v1"]
    assert traffic.versions.total() == len(traffic.answers) == count


async def refused(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="no shard")


async def cut(request: web.Request) -> web.StreamResponse:
    return await streamed(request, 3, done=False)


async def too_few(request: web.Request) -> web.StreamResponse:
    return await streamed(request, 3)


async def no_protocol(request: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (refused, "503 no shard"),
        (cut, "ended after 3 of"),
        (too_few, "ended after 3 of"),
        (no_protocol, "JSONDecodeError"),
    ],
)
async def test_everything_else_is_a_failure(handler: Serve, reason: str) -> None:
    asked = asyncio.Event()

    async def noted(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await handler(request)

    async with serving(noted) as url, LoadClient(url) as traffic:
        await asked.wait()
    assert traffic.answers == []
    assert reason in traffic.failures[0]
