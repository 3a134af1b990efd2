"""The HTTPS server of a node: the paths of a kubelet, for those who may use `nodes/proxy`."""

import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from kohort.kube.errors import ApiError
from kohort.kube.resources import PODS
from kohort.node.agent import Agent
from kohort.node.api.authorization import Authorizer, CannotAuthorize, access_of, user_of
from kohort.node.api.exec_sessions import serve_session
from kohort.node.api.log_reader import InvalidLogOption, log_options, read_log
from kohort.node.api.port_forward import serve_forwarding
from kohort.node.api.token_authentication import CannotAuthenticate, TokenAuthenticator, token_of
from kohort.node.pod_record import PodRecord
from kohort.node.runtimes.interface import command_in, parse_container_key
from kohort.objects import container_reasons

_IMAGE_PROBLEMS: Final = {
    container_reasons.ERR_IMAGE_PULL: "image can't be pulled",
    container_reasons.IMAGE_PULL_BACK_OFF: "trying and failing to pull image",
}
MAX_LINE: Final = 1 << 20
"""Of a request: commands of `kubectl exec` are in its first line."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NodeApi:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._authorizer = Authorizer.of_cluster(agent.client, agent.state.machine.name)
        self._tokens = TokenAuthenticator.of_cluster(agent.client)
        self._runner: web.AppRunner | None = None

    async def start(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/stats/summary", self._summary)
        app.router.add_get("/pods", self._pods)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for path, handler in (("exec", self._exec), ("attach", self._attach)):
            for method in ("GET", "POST"):
                app.router.add_route(method, f"/{path}/{{namespace}}/{{pod}}/{{container}}", handler)
                app.router.add_route(method, f"/{path}/{{namespace}}/{{pod}}/{{uid}}/{{container}}", handler)
        for method in ("GET", "POST"):
            app.router.add_route(method, "/portForward/{namespace}/{pod}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, max_line_size=MAX_LINE)
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=context).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            user = user_of(request.get_extra_info("peercert")) or await self._tokens.user_of(
                token_of(request.headers.get("authorization", ""))
            )
        except CannotAuthenticate as problem:
            return web.Response(status=500, text=f"Authentication error: {problem}")
        if user is None:
            text = "Unauthorized: a client certificate with a user name or a valid bearer token is needed"
            return web.Response(status=401, text=text)
        try:
            allowed = await self._authorizer.allows(user, request.path)
        except CannotAuthorize as problem:
            return web.Response(status=500, text=f"Authorization error: {problem}")
        if not allowed:
            needed = access_of(request.path)
            message = (
                f"Forbidden (user={user.name}, verb={needed.verb}, resource=nodes, subresource={needed.subresource})"
            )
            return web.Response(status=403, text=message)
        return await handler(request)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        from prometheus_client import generate_latest

        assert self._agent.client.metrics is not None
        return web.Response(body=generate_latest(self._agent.client.metrics.registry), content_type="text/plain")

    async def _summary(self, request: web.Request) -> web.Response:
        return web.json_response(self._agent.usage.summary())

    async def _pods(self, request: web.Request) -> web.Response:
        """The pods that this node has, as the API has them: the agent itself knows only the fields that it needs."""
        agent, known = self._agent, self._agent.pods.known()
        selector = f"spec.nodeName={agent.state.machine.name}"
        try:
            found = (await agent.client.list(PODS, field_selector=selector)).items
        except ApiError as problem:
            return web.Response(status=503, text=f"failed to list the pods of this node: {problem.message}")
        items = [each for each in found if each["metadata"]["uid"] in known]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    # Logs

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        record, name = self._container(request)
        query = request.query
        try:
            options = log_options(query)
        except InvalidLogOption as problem:
            return web.Response(status=problem.status, text=str(problem))
        run = record.runs[name]
        previous = query.get("previous") == "true"
        instance = run.last if previous else run.instance
        if instance is None:
            if previous:
                message = f'previous terminated container "{name}" in pod "{record.key.name}" not found'
            else:
                reason = run.waiting_reason or container_reasons.CONTAINER_CREATING
                reason = _IMAGE_PROBLEMS.get(reason, reason)
                message = f'container "{name}" in pod "{record.key.name}" is waiting to start: {reason}'
            return web.Response(status=400, text=message)
        path = self._agent.files.log(*parse_container_key(instance.id))
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
        record, name = self._container(request)
        run, launch = record.runs[name], record.launches.get(name)
        if not run.running or run.instance is None or launch is None:
            return web.Response(status=400, text=f'container "{name}" is not running')
        query = request.query
        command = tuple(query.getall("command", []))
        if not command:
            return web.Response(status=400, text="you must specify a command")
        stdin, tty = query.get("input") == "1", query.get("tty") == "1"
        execution = command_in(launch, f"{run.instance.id}_e", command, stdin=stdin, tty=tty)
        inside = run.instance.id
        return await serve_session(request, lambda: self._agent.runtime.execute(inside, execution))

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        record, name = self._container(request)
        run = record.runs[name]
        if not run.running or run.instance is None:
            return web.Response(status=400, text=f'container "{name}" is not running')
        inside = run.instance.id
        return await serve_session(request, lambda: self._agent.runtime.attach(inside), reports_exit_code=False)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        pod = self._record(request)
        return await serve_forwarding(request, lambda port: self._agent.network.connect(pod, port))

    # Finding

    def _record(self, request: web.Request) -> PodRecord:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        record = self._agent.pods.find(namespace, name)
        if record is None:
            raise web.HTTPNotFound(text=f'pod "{namespace}/{name}" is not on this node')
        return record

    def _container(self, request: web.Request) -> tuple[PodRecord, str]:
        record, name = self._record(request), request.match_info["container"]
        if name not in record.runs:
            raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{record.key.name}"')
        return record, name
