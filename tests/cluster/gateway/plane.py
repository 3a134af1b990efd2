"""A cluster with a data plane and real HTTP servers behind it, on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession, TCPConnector, web
from tests.builders import service

from kohort.cluster.gateway.data_plane import DataPlane
from kohort.cluster.gateway.registration import register
from kohort.kube.manager import Manager
from kohort.kube.resources import ENDPOINT_SLICES, HTTP_ROUTES, INGRESSES, SERVICES
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

GATEWAY = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "front", "namespace": "default"},
    "spec": {"gatewayClassName": "kohort", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
}
NGINX = "nginx.ingress.kubernetes.io/"


class Server:
    """A pod: says its name, echoes, streams, and can be slow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0
        self.requests = 0
        self.paths: list[str] = []
        """Of requests that have no meaning of their own, as they came."""
        self.release = asyncio.Event()
        self.entered = asyncio.Event()
        self.first_part = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/slow", self.slow)
        app.router.add_get("/events", self.events)
        app.router.add_get("/broken", self.broken)
        app.router.add_get("/socket", self.socket)
        app.router.add_route("*", "/headers", self.headers)
        app.router.add_route("*", "/{rest:.*}", self.hello)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def hello(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.paths.append(request.raw_path)
        body = await request.content.readany()
        self.first_part.set()
        body += await request.read()
        return web.Response(body=body or self.name.encode(), headers={"x-server": self.name})

    async def headers(self, request: web.Request) -> web.Response:
        return web.json_response([[name.lower(), value] for name, value in request.headers.items()])

    async def slow(self, _: web.Request) -> web.Response:
        self.entered.set()
        await self.release.wait()
        return web.Response(text=self.name)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """One event at once, the next only when the test has seen the first."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await self.release.wait()
        await response.write(b"data: second\n\n")
        return response

    async def broken(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("tokens",))
        await socket.prepare(request)
        async for message in socket:
            if message.type == web.WSMsgType.TEXT:
                await socket.send_str(f"{self.name}: {message.data}")
            elif message.type == web.WSMsgType.BINARY:
                await socket.send_bytes(message.data[::-1])
        return socket


class Stage:
    def __init__(self, cluster: Cluster, servers: dict[str, Server]) -> None:
        self.cluster = cluster
        self.servers = servers
        self.plane: DataPlane
        self.http: ClientSession

    def dial(self, address: str, _: int) -> tuple[str, int]:
        """10.0.0.n is the n-th server; anything else is nobody."""
        number = int(address.rpartition(".")[2])
        servers = [*self.servers.values()]
        return ("127.0.0.1", servers[number].port) if number < len(servers) else ("127.0.0.1", 9)

    async def service(self, name: str, *addresses: int, ready: bool = True) -> None:
        client = self.cluster.client
        if await client.find(SERVICES, name, "default") is None:
            await client.create(SERVICES, service(name).selecting(app=name).port(80, "http", 8000))
        await client.create(ENDPOINT_SLICES, slice_of(name, *addresses, ready=ready))

    async def endpoints(self, name: str, *addresses: int, ready: bool = True) -> None:
        await self.cluster.client.update(ENDPOINT_SLICES, slice_of(name, *addresses, ready=ready))

    async def open(self) -> str:
        """Wait until it serves; the address as a user reads it in a status."""
        await self.cluster.until(lambda: bool(self.plane.address) and len(self.plane.proxy.table) > 0)  # type: ignore[union-attr]
        return self.plane.address

    async def get(self, path: str = "/", **options: Json) -> tuple[int, str]:
        async with self.http.get(self.plane.address + path, **options) as answer:
            return answer.status, await answer.text()

    async def count(self, requests: int, parallel: int = 8, **options: Json) -> dict[str, int]:
        """How many requests each server answered; failures are counted as themselves."""
        seen: dict[str, int] = {}
        left = requests

        async def ask() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                status, text = await self.get(**options)
                key = text if status == 200 else f"{status} {text}"
                seen[key] = seen.get(key, 0) + 1

        await asyncio.gather(*(ask() for _ in range(parallel)))
        return seen


async def until_answered(scene: Stage, text: str) -> None:
    async with asyncio.timeout(120):
        while (await scene.get())[1] != text:
            pass


def slice_of(name: str, *addresses: int, ready: bool = True) -> JsonObject:
    return {
        "metadata": {"name": f"{name}-1", "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [f"10.0.0.{n}"],
                "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": f"pod-{n}"},
            }
            for n in addresses
        ],
        "ports": [{"name": "http", "port": 8000}],
    }


def ingress(name: str, backend: str, path: str = "/", host: str = "", **annotations: str) -> JsonObject:
    route = {"service": {"name": backend, "port": {"number": 80}}}
    rule: JsonObject = {"http": {"paths": [{"path": path, "pathType": "Prefix", "backend": route}]}}
    said = {NGINX + key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "default", "annotations": said}
    return {"metadata": metadata, "spec": {"rules": [{**rule, **({"host": host} if host else {})}]}}


def http_route(*rules: JsonObject, name: str = "llm", hostnames: tuple[str, ...] = ()) -> JsonObject:
    spec = {"parentRefs": [{"name": "front"}], "hostnames": list(hostnames), "rules": list(rules)}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def backend(name: str, weight: int = 1, **more: Json) -> JsonObject:
    return {"name": name, "port": 80, "weight": weight, **more}


@asynccontextmanager
async def stage(*names: str, **options: Json) -> AsyncIterator[Stage]:
    """A cluster, its data plane, and a server with each of these names; Services `llm` (the first) and `llm-canary`."""
    servers = {name: Server(name) for name in names}
    for server in servers.values():
        await server.start()

    def plug(manager: Manager) -> None:
        scene.plane = register(manager, dial=scene.dial, **options)

    cluster = Cluster(extra={"gateway": plug})
    scene = Stage(cluster, servers)
    try:
        async with cluster, ClientSession(connector=TCPConnector(limit=0)) as http:
            scene.http = http
            await scene.service("llm", 0)
            if len(names) > 1:
                await scene.service("llm-canary", 1)
            yield scene
    finally:
        for server in servers.values():
            server.release.set()
            await server.stop()


__all__ = [
    "GATEWAY",
    "HTTP_ROUTES",
    "INGRESSES",
    "Stage",
    "backend",
    "http_route",
    "ingress",
    "slice_of",
    "stage",
    "until_answered",
]
