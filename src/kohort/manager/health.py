"""Liveness and readiness over plain HTTP.

Alive means that the event loop turns. Ready means that this replica does its share: its caches are complete and its
webhooks answer with a valid certificate; a replica that waits for leadership is ready all the same.
"""

from collections.abc import Callable, Mapping

from aiohttp import web

from kohort.manager.web_server import Address, listen

Check = Callable[[], str]
"""Why not, or nothing."""


class HealthServer:
    def __init__(self, address: Address, *, liveness: str, readiness: str, checks: Mapping[str, Check]) -> None:
        self._address = address
        self._paths = {liveness: False, readiness: True}
        self._checks = checks
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        application = web.Application()
        for path in self._paths:
            application.router.add_get(path, self._answer)
        self._runner, port = await listen(application, self._address)
        return port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        checked = self._checks if self._paths[request.path] else {}
        problems = {name: reason for name, check in checked.items() if (reason := check())}
        if not problems:
            return web.Response(text="ok")
        text = "".join(f"[-] {name}: {reason}\n" for name, reason in problems.items())
        return web.Response(status=503, text=text)
