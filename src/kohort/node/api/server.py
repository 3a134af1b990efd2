"""The HTTPS server of a node: the paths of a kubelet, for the API server and nobody else.

Who may ask is decided by client certificate: it must be signed by the cluster's authority and belong to an
administrator or to the API server. Everything here runs commands in containers, so there is no other way in.
"""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from kohort.kube import clock
from kohort.node.agent import Agent
from kohort.node.api.logreading import LogOptions, read_log
from kohort.node.podworker import PodWorker
from kohort.node.runtimes.interface import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, CannotStart, Session
from kohort.node.starting import execution_of, log_path
from kohort.objects.jsontypes import JsonObject

PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
)
FORWARD_PROTOCOL: Final = "v4.channel.k8s.io"
GROUPS: Final = ("system:masters",)
NAMES: Final = ("kube-apiserver", "kube-apiserver-kubelet-client", "system:kube-apiserver")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NodeApi:
    def __init__(self, agent: Agent, directory: Path, authority: str) -> None:
        self._agent = agent
        self._directory = directory
        self._authority = authority
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for path, handler in (("exec", self._exec), ("attach", self._attach)):
            app.router.add_get(f"/{path}/{{namespace}}/{{pod}}/{{container}}", handler)
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        host = self._agent.node.host
        context = await asyncio.to_thread(serving_context, self._directory, host, self._agent.name, self._authority)
        listening = socket.create_server((host, 0))
        await web.SockSite(self._runner, listening, ssl_context=context).start()
        self._agent.port = listening.getsockname()[1]
        self._agent.heartbeat.changed()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not trusted(request.get_extra_info("peercert")):
            return web.Response(status=403, text="Forbidden: this certificate may not use the node's API")
        return await handler(request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        from prometheus_client import generate_latest

        assert self._agent.node.client.metrics is not None
        return web.Response(body=generate_latest(self._agent.node.client.metrics.registry), content_type="text/plain")

    # Logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        worker, name = self._container(request)
        query = request.query
        run = worker.runs[name]
        previous = query.get("previous") == "true"
        instance = run.previous if previous else run.instance
        if instance is None:
            if previous:
                words = f'previous terminated container "{name}" in pod "{worker.key.name}" not found'
            else:
                reason = run.waiting or "ContainerCreating"
                words = f'container "{name}" in pod "{worker.key.name}" is waiting to start: {reason}'
            return web.Response(status=400, text=words)
        options = _log_options(query)
        path = log_path(worker.node, worker.uid, name, run.attempt - 1 if previous else run.attempt)
        response = web.StreamResponse(headers={"content-type": "text/plain"})
        await response.prepare(request)

        def running() -> bool:
            return not previous and run.instance is not None and run.instance.id == instance.id and run.running

        with contextlib.suppress(ConnectionError):
            async for chunk in read_log(path, options, running):
                await response.write(chunk)
            await response.write_eof()
        return response

    # Sessions

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        worker, name = self._container(request)
        run, launch = worker.runs[name], worker.launches.get(name)
        if not run.running or run.instance is None or launch is None:
            return web.Response(status=400, text=f'container "{name}" is not running')
        query = request.query
        command = tuple(query.getall("command", []))
        if not command:
            return web.Response(status=400, text="you must specify a command")
        stdin, tty = query.get("input") == "1", query.get("tty") == "1"
        execution = execution_of(launch, f"{run.instance.id}_e", command, stdin=stdin, tty=tty)
        inside = run.instance.id
        return await self._session(request, lambda: worker.node.runtime.execute(inside, execution))

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        worker, name = self._container(request)
        run = worker.runs[name]
        if not run.running or run.instance is None:
            return web.Response(status=400, text=f'container "{name}" is not running')
        inside = run.instance.id
        return await self._session(request, lambda: worker.node.runtime.attach(inside))

    async def _session(self, request: web.Request, begin: Callable[[], Awaitable[Session]]) -> web.StreamResponse:
        channels = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, compress=False)
        await channels.prepare(request)
        try:
            session = await begin()
        except CannotStart as problem:
            await channels.send_bytes(bytes([ERROR]) + msgspec.json.encode(_failed(str(problem))))
            await channels.close(code=WSCloseCode.OK)
            return channels
        inward = asyncio.create_task(_from_client(channels, session))
        try:
            await _to_client(channels, session, request.query)
        finally:
            inward.cancel()
            await session.close()
            with contextlib.suppress(ConnectionError):
                await channels.close(code=WSCloseCode.OK)
        return channels

    # Ports

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        ports = [int(port) for port in request.query.getall("port", []) if port.isdigit()]
        if not ports:
            return web.Response(status=400, text="you must specify at least 1 port")
        channels = web.WebSocketResponse(protocols=(FORWARD_PROTOCOL,), max_msg_size=0, compress=False)
        await channels.prepare(request)
        connections: dict[int, asyncio.StreamWriter] = {}
        tasks = []
        for index, port in enumerate(ports):
            for channel in (2 * index, 2 * index + 1):
                await channels.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
            try:
                reader, writer = await _connected(worker, port)
            except OSError as problem:
                words = f"failed to connect to {worker.address}:{port} inside pod {worker.key}: {problem}"
                await channels.send_bytes(bytes([2 * index + 1]) + words.encode())
                continue
            connections[2 * index] = writer
            tasks.append(asyncio.create_task(_outward(channels, reader, 2 * index)))
        try:
            if connections:
                await self._carry(channels, connections, tasks)
        finally:
            for task in tasks:
                task.cancel()
            for writer in connections.values():
                writer.close()
            await channels.close(code=WSCloseCode.OK)
        return channels

    async def _carry(
        self,
        channels: web.WebSocketResponse,
        connections: dict[int, asyncio.StreamWriter],
        tasks: "list[asyncio.Task[None]]",
    ) -> None:
        async def inward() -> None:
            async for message in channels:
                if message.type == WSMsgType.BINARY and message.data:
                    writer = connections.get(message.data[0])
                    if writer is not None:
                        writer.write(message.data[1:])
                        with contextlib.suppress(ConnectionError):
                            await writer.drain()

        async def outward() -> None:
            await asyncio.gather(*tasks)

        directions = [asyncio.create_task(inward()), asyncio.create_task(outward())]
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for direction in directions:
            direction.cancel()

    # Finding

    def _worker(self, request: web.Request) -> PodWorker:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        worker = self._agent.worker(namespace, name)
        if worker is None:
            raise web.HTTPNotFound(text=f'pod "{namespace}/{name}" is not on this node')
        return worker

    def _container(self, request: web.Request) -> tuple[PodWorker, str]:
        worker, name = self._worker(request), request.match_info["container"]
        if name not in worker.runs:
            raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{worker.key.name}"')
        return worker, name


def trusted(certificate: "dict[str, tuple[tuple[tuple[str, str], ...], ...]] | None") -> bool:
    """Whether a client certificate, already verified, belongs to somebody who may do everything."""
    if not certificate:
        return False
    subject = [(key, value) for part in certificate.get("subject", ()) for key, value in part]
    groups = [value for key, value in subject if key == "organizationName"]
    names = [value for key, value in subject if key == "commonName"]
    return any(group in GROUPS for group in groups) or any(name in NAMES for name in names)


def serving_context(directory: Path, host: str, name: str, authority: str) -> ssl.SSLContext:
    """Our own certificate, and the authority of those who may come."""
    certificate, key = directory / "serving.crt", directory / "serving.key"
    if not certificate.exists():
        _self_signed(certificate, key, host, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority)
    return context


def _self_signed(certificate: Path, key: Path, host: str, name: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"[:64]),
        ]
    )
    now = datetime.datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host)), x509.DNSName(name)]), False
        )
        .sign(private, hashes.SHA256())
    )
    key.touch(mode=0o600)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))


def _log_options(query: "web.BaseRequest | object") -> LogOptions:
    get = query.get  # type: ignore[union-attr]
    since = str(get("sinceTime") or "")
    if get("sinceSeconds"):
        since = clock.format_time(clock.now() - timedelta(seconds=int(str(get("sinceSeconds")))))
    return LogOptions(
        follow=get("follow") == "true",
        timestamps=get("timestamps") == "true",
        tail=int(str(get("tailLines"))) if get("tailLines") is not None else None,
        limit=int(str(get("limitBytes"))) if get("limitBytes") is not None else None,
        since=since,
        stream=str(get("stream") or "All"),
    )


async def _from_client(channels: web.WebSocketResponse, session: Session) -> None:
    async for message in channels:
        if message.type != WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == STDIN and data:
            await session.write(STDIN, data)
        elif channel == RESIZE:
            await session.write(RESIZE, data)
        elif channel == CLOSE and data[:1] == bytes([STDIN]):
            await session.write(CLOSE, data)
    await session.close()


async def _to_client(channels: web.WebSocketResponse, session: Session, query: object) -> None:
    wanted = {
        channel
        for channel, name in ((STDOUT, "output"), (STDERR, "error"))
        if query.get(name) == "1"  # type: ignore[attr-defined]
    }
    with contextlib.suppress(ConnectionError):
        while (message := await session.read()) is not None:
            channel, data = message
            if channel == ERROR:
                await channels.send_bytes(bytes([ERROR]) + msgspec.json.encode(_exit_status(int(data))))
                return
            if channel in wanted:
                await channels.send_bytes(bytes([channel]) + data)


def _exit_status(code: int) -> JsonObject:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failed(problem: str) -> JsonObject:
    return {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}


async def _connected(worker: PodWorker, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A port of a pod: at the pod's own address, or where programs listen that know only localhost."""
    try:
        return await asyncio.open_connection(worker.address, port)
    except OSError:
        if worker.netns and worker.node.namespaces is not None:
            return await worker.node.namespaces.connect(worker.uid, "127.0.0.1", port)
        if worker.address == "127.0.0.1":
            raise
        return await asyncio.open_connection("127.0.0.1", port)


async def _outward(channels: web.WebSocketResponse, reader: asyncio.StreamReader, channel: int) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            await channels.send_bytes(bytes([channel]) + data)
