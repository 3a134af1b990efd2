"""The life of an operator process, from its configuration to SIGTERM.

Order of a start: health answers at once; then the certificate is there and webhooks are served, on every replica; then
caches fill; then controllers work on the replica that leads. Order of a stop: readiness goes away, controllers finish
what they have in hand, the lease is given back so that another replica continues at once, and webhooks answer to the
last.

Webhooks are reached in one of two ways. An installed operator is behind a Service, its definitions and webhook
configurations came with it, and its certificate is in a Secret or mounted. An operator that a user starts beside a
cluster (`loopback`) brings definitions and configurations along and has the API server call it on this machine; with
several candidates the configurations point to the one that leads.
"""

import asyncio
import contextlib
import gc
import os
import platform
import secrets
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    generate_latest,
)

from kohort import __version__, operator
from kohort.admission.certificate_bundle import Bundle
from kohort.admission.group_webhooks import GroupWebhooks
from kohort.admission.metrics import WebhookMetrics
from kohort.admission.rollout_webhooks import RolloutWebhooks
from kohort.admission.server import WebhookServer, load
from kohort.admission.webhook_configurations import Address
from kohort.kube import errors, tls_buffers
from kohort.kube.client import Client
from kohort.kube.http import Transport
from kohort.kube.kubeconfig import SERVICE_ACCOUNT
from kohort.kube.leader_election import LeaderElection, LeadershipLost
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.metrics import Metrics
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.resources import NAMESPACES
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import cancel_all
from kohort.manager import capabilities
from kohort.manager.certificates import Reach, certificates
from kohort.manager.configuration import NAMESPACE, Configuration, ConfigurationError, parse_address
from kohort.manager.go_tls_settings import server_context
from kohort.manager.health import HealthServer
from kohort.manager.metrics_server import Gate, MetricsServer
from kohort.rules.go_duration import parse_duration

_PAUSE: Final = 2.0

_log = Log(module="kohort.manager")


class OperatorOptions(msgspec.Struct, frozen=True):
    configuration: Configuration
    reach: Reach
    """How the API server reaches the webhooks."""
    namespace: str = NAMESPACE
    """The operator's own."""
    identity: str = ""


def operator_namespace(directory: Path = SERVICE_ACCOUNT) -> str:
    """Where this process runs, as its service account says; else the usual place."""
    try:
        return (directory / "namespace").read_text().strip() or NAMESPACE
    except OSError:
        return NAMESPACE


def user_agent() -> str:
    return f"kohort/{__version__} ({platform.system().lower()}/{platform.machine()}) operator"


class OperatorProcess:
    def __init__(self, transport: Transport, options: OperatorOptions) -> None:
        self._options = options
        self._transport = transport
        connection = options.configuration.client_connection
        self._limiter = TokenBucket(connection.qps, connection.burst) if connection.qps > 0 else None
        self._client = Client(transport, field_manager=operator.FIELD_MANAGER, user_agent=user_agent())
        # The same for all managers of this process: what one of them lost, the next may have back at once.
        self._identity = options.identity or f"{socket.gethostname()}_{secrets.token_hex(8)}"
        self._registry = CollectorRegistry()
        """Figures that outlive a manager."""
        self._certificates = certificates(self._client, options.configuration, options.reach, options.namespace)
        self._manager: Manager | None = None
        self._address: Address | None = None
        """Where the webhooks are when this process brings its configurations along."""
        self._webhooks: WebhookServer | None = None
        self._group_webhooks = GroupWebhooks(
            default_resize_policy=options.configuration.default_resize_policy,
            gang_scheduler=options.configuration.gang_scheduler,
            client=self._client,
        )
        self._rollout_webhooks = RolloutWebhooks(self._client)
        self._metrics_tls: ssl.SSLContext | None = None
        self.stopping = False
        self.health_port = 0
        self.webhook_port = 0

    async def run(self) -> None:
        """Run until `stop`. Raises when something fails that must not."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start_health(stack)
            if self._options.reach == "loopback":
                await self._ensure_namespace()
            bundle = await self._retry_until_available("certificate", self._certificates.first)
            await self._start_webhooks(stack, bundle)
            await self._start_metrics(stack, bundle)
            await stack.enter_async_context(_running_task(self._certificates.follow(self._use), name="certificates"))
            await stack.enter_async_context(_running_task(self._report_capabilities(), name="capabilities"))
            _keep_memory_small()
            await self._work()

    def stop(self) -> bool:
        """Ask `run` to end in order. False when it has not come far enough for that: then it can be cancelled."""
        self.stopping = True
        if self._manager is not None:
            self._manager.stop()
        return self._manager is not None

    async def _work(self) -> None:
        """Run as leader, and become a candidate again after losing the lease or when the cluster cannot be reached."""
        while not self.stopping:
            self._manager = self._assemble()
            try:
                await self._manager.run()
            except LeadershipLost as loss:
                _log.warning("leadership lost, standing by", reason=str(loss))
            except (errors.ApiError, TimeoutError) as problem:
                _log.warning(
                    "failed to start the controllers, retrying", problem=str(problem) or type(problem).__name__
                )
                await asyncio.sleep(_PAUSE)

    # Pieces

    def _assemble(self) -> Manager:
        configuration = self._options.configuration
        # Figures belong to a manager: its controllers register theirs when it is made.
        client = Client(
            self._transport,
            field_manager=operator.FIELD_MANAGER,
            user_agent=user_agent(),
            metrics=Metrics(),
            limiter=self._limiter,
        )
        manager = Manager(
            client,
            name="operator",
            leader_election=self._election(client.metrics),
            caches=SharedStores(client, namespaces=tuple(configuration.namespaces)),
        )
        operator.register(
            manager,
            self_contained=False,
            default_resize_policy=configuration.default_resize_policy,
            gang_scheduler=configuration.gang_scheduler,
            group_webhooks=self._group_webhooks,
            rollout_webhooks=self._rollout_webhooks,
            rollouts=configuration.rollouts,
            scripts_namespace=self._options.namespace,
            features=configuration.features,
        )
        if self._address is not None:
            self._bring_along(manager, self._address)
        return manager

    def _election(self, metrics: Metrics | None) -> LeaderElection | None:
        settings = self._options.configuration.leader_election
        if not settings.leader_elect:
            return None
        # A client without limits: renewing the lease must never queue behind the operator's own work.
        client = Client(self._transport, user_agent=user_agent(), metrics=metrics)
        return LeaderElection(
            client,
            settings.resource_name,
            self._options.namespace,
            self._identity,
            lease_duration=parse_duration(settings.lease_duration),
            renew_deadline=parse_duration(settings.renew_deadline),
            retry_period=parse_duration(settings.retry_period),
        )

    async def _start_health(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self._options.configuration.health
        address = parse_address(settings.health_probe_bind_address)
        if address is None:
            return
        checks = {"shutdown": self._ending, "webhooks": self._webhooks_missing, "caches": self._caches_missing}
        server = HealthServer(
            address,
            liveness=settings.liveness_endpoint_name,
            readiness=settings.readiness_endpoint_name,
            checks=checks,
        )
        self.health_port = await server.start()
        stack.push_async_callback(server.stop)
        _log.info("serving health", port=self.health_port)

    async def _ensure_namespace(self) -> None:
        """This operator was not installed, so the namespace for its lease and status may not exist."""
        name = self._options.namespace
        while True:
            try:
                await self._client.create(NAMESPACES, {"metadata": {"name": name, "labels": operator.LABELS}})
            except errors.AlreadyExists:
                return
            except errors.ApiError as problem:
                _log.warning("failed to create the namespace, retrying", namespace=name, problem=problem.message)
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _start_webhooks(self, stack: contextlib.AsyncExitStack, bundle: Bundle) -> None:
        configuration = self._options.configuration
        if self._options.reach == "none":
            return
        endpoints = {
            **self._group_webhooks.endpoints(),
            **(self._rollout_webhooks.endpoints() if configuration.rollouts else {}),
        }
        loopback = self._options.reach == "loopback"
        self._webhooks = server = WebhookServer(
            endpoints,
            bundle,
            host="127.0.0.1" if loopback else configuration.webhook.host or None,
            port=0 if loopback else configuration.webhook.port,
            tls=server_context(configuration.tls),
            metrics=WebhookMetrics(self._registry),
        )
        self.webhook_port = await server.start()
        stack.push_async_callback(server.stop)
        _log.info("serving webhooks", port=self.webhook_port)
        if loopback:
            self._address = Address(
                bundle.ca_certificate,
                url=f"https://127.0.0.1:{self.webhook_port}",
                namespaces=tuple(configuration.namespaces),
            )

    def _bring_along(self, manager: Manager, address: Address) -> None:
        """Definitions before any cache fills; configurations when this process leads, because they name it."""
        rollouts = self._options.configuration.rollouts

        async def definitions() -> None:
            # Pointed here, its webhooks would lead nowhere as soon as this process ends, and it would not know.
            if installed := await operator.installed_behind(self._client):
                raise ConfigurationError(
                    f"an operator is installed on this cluster, behind Service {installed}: "
                    "`kohort uninstall --keep-objects` first, or add --webhooks none"
                )
            await operator.install_definitions(self._client, address, rollouts=rollouts, point_here=False)

        async def point_here() -> None:
            await operator.install_definitions(self._client, address, rollouts=rollouts)
            await operator.install_webhooks(self._client, address, rollouts=rollouts)
            _log.info("webhook configurations point here", url=address.url)

        # Before the first reconcile: a pod that is created before the webhook is called lacks its variables.
        manager.prepare(definitions)
        manager.prepare_as_leader(point_here)

    async def _start_metrics(self, stack: contextlib.AsyncExitStack, bundle: Bundle) -> None:
        configuration = self._options.configuration
        address = parse_address(configuration.metrics.bind_address)
        if address is None:
            return
        self._metrics_tls = server_context(configuration.tls)
        load(self._metrics_tls, bundle)
        _add_process_figures(self._registry)
        server = MetricsServer(address, self._metrics_tls, Gate(self._client), self._render)
        await server.start()
        stack.push_async_callback(server.stop)

    def _render(self) -> bytes:
        figures = generate_latest(self._registry)
        return figures + self._manager.metrics.render() if self._manager is not None else figures

    def _use(self, bundle: Bundle) -> None:
        if self._webhooks is not None:
            self._webhooks.use(bundle)
        if self._metrics_tls is not None:
            load(self._metrics_tls, bundle)

    async def _report_capabilities(self) -> None:
        """Report once what the cluster lacks. The operator works without it."""
        namespace = self._options.namespace
        try:
            facts = await capabilities.ask(self._client, namespace)
            found = capabilities.missing_capabilities(facts, gang_scheduler=self._options.configuration.gang_scheduler)
            for one in found:
                if not one.present:
                    _log.warning("the cluster has no " + one.name, means=one.means)
            await capabilities.publish(self._client, namespace, facts, found, __version__)
        except (errors.ApiError, TimeoutError) as problem:
            _log.warning("capabilities of the cluster not published", problem=str(problem))

    async def _retry_until_available(self, what: str, attempt: Callable[[], Awaitable[Bundle]]) -> Bundle:
        """An API server that is away, or a Secret that is not there yet, is a reason to wait, not to end."""
        while True:
            try:
                return await attempt()
            except errors.ApiError as problem:
                _log.warning(f"{what} not available, retrying", problem=problem.message)
                await asyncio.sleep(_PAUSE)

    # Checks

    def _ending(self) -> str:
        return "the operator is stopping" if self.stopping else ""

    def _webhooks_missing(self) -> str:
        return "no certificate yet" if self.webhook_port == 0 and self._options.reach != "none" else ""

    def _caches_missing(self) -> str:
        return "" if self._manager is not None and self._manager.synced else "caches are being filled"


def run(transport: Transport, options: OperatorOptions) -> None:
    """Run an operator until SIGTERM or SIGINT."""
    tls_buffers.limit_tls_buffers()
    asyncio.run(_run(transport, options))


async def _run(transport: Transport, options: OperatorOptions) -> None:
    process = OperatorProcess(transport, options)
    running = asyncio.create_task(process.run(), name="operator")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, process, running)
    try:
        await running
    except asyncio.CancelledError:
        _log.info("operator stopped before it was started completely")
    finally:
        await transport.close()


def _stop(process: OperatorProcess, running: "asyncio.Task[None]") -> None:
    """Stop in order; a second signal ends the process at once."""
    if process.stopping:
        os._exit(130)
    if not process.stop():
        running.cancel()


@contextlib.asynccontextmanager
async def _running_task(work: Awaitable[None], *, name: str) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        await cancel_all(task)


def _keep_memory_small() -> None:
    """What was loaded is not looked at again; what comes is looked at often. A request leaves cycles behind, and each
    of them holds its buffers: with rare collections an operator of fifty groups was 5 % larger, and no faster."""
    gc.freeze()
    gc.set_threshold(2_000, 10, 10)


def _add_process_figures(registry: CollectorRegistry) -> None:
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        registry.register(collector)
