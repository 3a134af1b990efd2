"""A running cluster: the API server on its socket, and the parts as its clients in the same process."""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from kohort.cluster.apiserver.auth.certificates import KeysUnusable, Pki
from kohort.cluster.apiserver.auth.jwt import Signer
from kohort.cluster.apiserver.auth.kubeconfig import write_kubeconfig
from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.server import ApiServer, OutgoingClients
from kohort.cluster.apiserver.server_setup import ClientAuthorities, announce, assemble
from kohort.cluster.apiserver.storage.errors import StorageError
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.cluster.workloads.csr_signer import AuthorityFiles
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Unauthorized, Unreachable
from kohort.kube.http import Request, Response, Transport
from kohort.kube.log import Log
from kohort.kube.shared_stores import SharedStores
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import Json
from kohort.up import part_supervision, parts
from kohort.up.dashboard_on_demand import PATH as DASHBOARD_PATH
from kohort.up.dashboard_on_demand import DashboardOnDemand
from kohort.up.data_directory import DataDirectory
from kohort.up.detached import is_detached
from kohort.up.stale_nodes import remove_stale_nodes
from kohort.up.startup_errors import CannotStart, address_problem
from kohort.up.status_report import Report

if TYPE_CHECKING:
    from kohort.dashboard.commands import Commands
    from kohort.node.runtimes.cri.discovery import RuntimeFacts

ANSWER_SECONDS = 10.0
RENEWAL_SECONDS = 24 * 3600.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")

_log = Log(part="up")


@dataclass(frozen=True, slots=True)
class UpOptions:
    data: DataDirectory
    host: str = "127.0.0.1"
    port: int = 6443
    parts: tuple[str, ...] = (parts.API_SERVER,)
    simulation: Mapping[str, Json] = field(default_factory=dict)
    """Arguments for `cluster.simulation.registration.register`; empty for no simulated nodes."""
    kubeconfig: Path | None = None
    """Another cluster to run the parts against, when the API server is not one of them."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of the API server that are not as usual."""
    default_resize_policy: str = "None"
    """Of LeaderWorkerSets that do not specify one."""
    runtime: str = "process"
    """What runs containers: `auto`, `cri` or `process`."""
    runtime_endpoint: str = ""
    share_runtime: bool = False
    """Pods of other agents may be in the container runtime."""
    registry_credentials: Path | None = None
    device_plugins: Path | None = None
    dashboard_commands: "Callable[[], Commands] | None" = None
    """What the dashboard has done; without it the cluster has no dashboard."""
    dashboard_actions: bool = False
    """Whether users of the dashboard may act."""
    release_gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of Rollouts that are not as usual."""

    @property
    def is_cluster(self) -> bool:
        """Not only parts of another one."""
        return parts.API_SERVER in self.parts

    @property
    def controllers(self) -> tuple[str, ...]:
        """Everything that is a client of the API server."""
        chosen = tuple(name for name in self.parts if name != parts.API_SERVER)
        return (*chosen, parts.SIMULATION) if self.simulation else chosen


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What is known of a cluster that is ready."""

    server: str
    export: str
    """The line that lets kubectl find it; empty for parts on another cluster, whose kubeconfig the user has."""
    note: str = ""
    """What else a person should know of this start."""


@contextlib.asynccontextmanager
async def cluster(options: UpOptions) -> AsyncIterator[RunningCluster]:
    """Start everything; the body runs when it is ready. Raises CannotStart."""
    with options.data.owned() as new:
        _check_address(options.host, options.port)
        runtime, runs_in = await _container_runtime(options)
        pki = _certificates(options)
        store = _open(options.data.store)
        tls = pki.server_context()
        try:
            async with _serving(options, pki, tls, store) as (server, address):
                write = partial(write_kubeconfig, options.data.kubeconfig, pki, address)
                write()
                certificate = pki.ca_certificate.read_text()
                surroundings = parts.PartSettings(
                    certificate,
                    options.data.volumes,
                    options.simulation,
                    address,
                    server.webhooks,
                    AuthorityFiles(pki.ca_certificate, pki.ca_key),
                    options.default_resize_policy,
                    kubeconfig=options.data.kubeconfig,
                    impersonate=True,
                    device_plugins=options.device_plugins,
                    container_runtime=runtime,
                    registry_credentials=options.registry_credentials,
                    release_gates=options.release_gates,
                )
                controllers = _controllers(options, surroundings, partial(_in_process, server))
                server.part_metrics |= {part.name: part.metrics for part in controllers}
                removed = await _remove_stale_nodes(options, _in_process(server, "up"))
                note = "; ".join(filter(None, (removed, runs_in, _unenforced(options))))
                report = Report(options.data, address, controllers, with_server=True)

                def renewed() -> None:
                    write()
                    server.aggregation.forget_certificates()

                async with (
                    _renewing(pki, tls, renewed),
                    _dashboard(options, server),
                    part_supervision.running(controllers),
                    report.kept(_in_process(server, "up")),
                ):
                    new.keep()
                    yield RunningCluster(address, options.data.export, note)
        except (ApiError, StorageError) as error:
            raise options.data.unready(str(error)) from error
        finally:
            await store.close()


@contextlib.asynccontextmanager
async def parts_only(options: UpOptions) -> AsyncIterator[RunningCluster]:
    """Run controllers against another cluster. Raises CannotStart."""
    from kohort.kube.kubeconfig import KubeconfigError, load

    try:
        transport = load(options.kubeconfig)
    except KubeconfigError as error:
        raise CannotStart(f"without the part {parts.API_SERVER} another cluster is needed: {error}") from error
    connection = transport.connection
    runtime, runs_in = await _container_runtime(options)
    note = "; ".join(filter(None, (runs_in, _unenforced(options))))
    surroundings = parts.PartSettings(
        connection.ca.decode(),
        options.data.volumes,
        options.simulation,
        connection.server,
        default_resize_policy=options.default_resize_policy,
        kubeconfig=options.kubeconfig,
        device_plugins=options.device_plugins,
        container_runtime=runtime,
        registry_credentials=options.registry_credentials,
        release_gates=options.release_gates,
    )
    # Pods are in the directory of one process, and one in the background is found there to be stopped. Controllers in
    # front of a terminal leave nothing there and need not have it alone.
    owned = parts.NODE in options.parts or is_detached()
    try:
        with options.data.owned() if owned else contextlib.nullcontext() as new:
            await _answering(transport, connection.server)
            controllers = _controllers(options, surroundings, lambda _: transport)
            async with part_supervision.running(controllers):
                if new is None:
                    yield RunningCluster(connection.server, "", note)
                    return
                report = Report(options.data, connection.server, controllers, with_server=False)
                async with report.kept(transport):
                    new.keep()
                    yield RunningCluster(connection.server, "", note)
    finally:
        await transport.close()


async def _answering(transport: Transport, server: str) -> None:
    """Wait for the cluster, which may be starting; report once that it does not answer, instead of once per part."""
    client = Client(transport, user_agent="kohort-up")
    end = asyncio.get_running_loop().time() + ANSWER_SECONDS
    while True:
        try:
            await client.raw("GET", "/api")
        except Unreachable as error:
            if asyncio.get_running_loop().time() > end:
                raise CannotStart(f"no answer from {server}: {error}; start that cluster, or name another") from error
            await asyncio.sleep(ANSWER_SECONDS / 50)
        except Unauthorized as error:
            raise CannotStart(f"{server} does not accept the credentials of the kubeconfig") from error
        except ApiError:
            return  # It answers. The parts report requests that it refuses.
        else:
            return


async def _container_runtime(options: UpOptions) -> "tuple[RuntimeFacts | None, str]":
    """What runs the containers of this machine, None for processes; and a line about it for people. Raises
    CannotStart."""
    if parts.NODE not in options.parts:
        return None, ""
    from kohort.node.runtimes.interface import RUNTIME_RECORD

    if options.runtime == "process" and not (options.data.node / RUNTIME_RECORD).exists():
        return None, ""
    from kohort.node.runtimes.cri.discovery import CannotUseRuntime, choose

    wanted = cast(Literal["auto", "cri", "process"], options.runtime)
    try:
        choice = await choose(wanted, options.runtime_endpoint, options.data.node, share=options.share_runtime)
    except CannotUseRuntime as problem:
        raise CannotStart(str(problem)) from problem
    return choice.runtime, choice.note


def _unenforced(options: UpOptions) -> str:
    """What this machine as a node does not do."""
    if parts.NODE not in options.parts:
        return ""
    from kohort.node.cgroups import warning_of_no_limits

    return warning_of_no_limits()


async def _remove_stale_nodes(options: UpOptions, transport: Transport) -> str:
    """Nodes that an earlier start ran and this one does not are gone after this, and so are processes of their pods.
    Without a scheduler nothing is put on them: a start with the API server alone leaves objects as they are."""
    if "scheduler" not in options.parts:
        return ""
    from kohort.cluster.simulation.node_template import Fleet

    running = Fleet(int(options.simulation.get("nodes", 0))).names()
    if parts.NODE in options.parts:
        from kohort.node.machine_info import own_name

        running.append(own_name())
    elif options.data.node.is_dir():
        await options.data.end_pods()
    return await remove_stale_nodes(Client(transport, user_agent="kohort-up"), options.data.path / "nodes", running)


def _controllers(
    options: UpOptions, surroundings: parts.PartSettings, transport: Callable[[str], Transport]
) -> list[part_supervision.Part]:
    caches = SharedStores(Client(transport("caches"), user_agent="kohort-caches"))
    return [
        part_supervision.Part(name, transport(name), partial(parts.register, name, surroundings), caches)
        for name in options.controllers
    ]


@contextlib.asynccontextmanager
async def _serving(
    options: UpOptions, pki: Pki, tls: ssl.SSLContext, store: Store
) -> AsyncIterator[tuple[ApiServer, str]]:
    """The API server on its socket, and its address."""
    from kohort.cluster.apiserver.http.https_server import HttpsServer
    from kohort.cluster.apiserver.http.node_client import HttpsNodeClient, trusting_context
    from kohort.cluster.apiserver.outgoing.remote_servers import RemoteServers

    nodes = HttpsNodeClient(trusting_context(str(pki.admin_certificate), str(pki.admin_key)))
    remotes = RemoteServers(str(pki.front_proxy_certificate), str(pki.front_proxy_key))
    signer = Signer(pki.service_account_key.read_bytes())
    server, authenticator = await assemble(
        store,
        tokens={pki.token: ADMIN},
        signer=signer,
        outgoing=OutgoingClients(nodes, forwarder=nodes, remotes=remotes),
        authorities=ClientAuthorities(pki.ca_certificate.read_text(), pki.front_proxy_authority.read_text()),
        gates=options.gates,
        controllers="workloads" in options.parts,
    )
    front = HttpsServer(
        server,
        authenticator.authenticate,
        host=options.host,
        port=options.port,
        tls=tls,
        nodes=nodes,
    )
    try:
        await front.start()
    except OSError as error:
        await server.aggregation.close()
        raise address_problem(options.host, options.port, error) from error
    try:
        address, ready = _advertised(options.host)
        await announce(server, address, front.port, ready=ready)
        yield server, f"https://{_reachable(options.host)}:{front.port}"
    finally:
        await front.stop()
        await server.aggregation.close()
        await nodes.close()


@contextlib.asynccontextmanager
async def _dashboard(options: UpOptions, server: ApiServer) -> AsyncIterator[None]:
    """The path that leads to the dashboard, which starts when it is asked for."""
    if options.dashboard_commands is None:
        yield
        return
    transport = _as_user(server, ADMIN)
    dashboard = DashboardOnDemand(transport, options.dashboard_commands, options.dashboard_actions)
    server.part_paths[DASHBOARD_PATH] = dashboard.answer
    async with dashboard.kept():
        yield


def _in_process(server: ApiServer, name: str) -> Transport:
    """A connection of a part to the server, without a socket."""
    return _as_user(server, User(f"system:kohort:{name}", ADMIN.groups))


def _as_user(server: ApiServer, user: User) -> Transport:
    async def handle(request: Request) -> Response:
        return await server.handle(request, user)

    return InProcessTransport(handle)


@contextlib.asynccontextmanager
async def _renewing(pki: Pki, context: ssl.SSLContext, renewed: Callable[[], None]) -> AsyncIterator[None]:
    """Renew certificates while the server runs; new connections get the new ones."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            try:
                if not pki.ensure():
                    continue
                context.load_cert_chain(pki.server_certificate, pki.server_key)
                renewed()
            except (OSError, KeysUnusable) as problem:
                _log.error("certificates could not be renewed; kohort tries again tomorrow", problem=str(problem))
            else:
                _log.warning("certificates renewed")

    task = asyncio.create_task(renew(), name="certificates")
    try:
        yield
    finally:
        task.cancel()


def _certificates(options: UpOptions) -> Pki:
    names = () if options.host in (*LOOPBACK, *EVERYWHERE) else (options.host,)
    pki = Pki(options.data.pki, (*names, *(_own_names() if options.host in EVERYWHERE else ())))
    try:
        pki.ensure()
    except KeysUnusable as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise options.data.unusable(error) from error
        raise CannotStart(f"cannot write certificates to {options.data.pki}: {error.strerror}") from error
    return pki


def _own_names() -> tuple[str, ...]:
    """Under which names others reach this machine, when the server listens on all its addresses."""
    name, address = socket.gethostname(), outward_address()
    with contextlib.suppress(OSError):
        return (name, *dict.fromkeys((address, *(str(info[4][0]) for info in socket.getaddrinfo(name, None)))))
    return (name, address)


def _open(path: Path) -> Store:
    try:
        return open_store(path)
    except StorageError as error:
        raise CannotStart(str(error)) from error


def _check_address(host: str, port: int) -> None:
    """Find out that an address is taken before anything is done."""
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise address_problem(host, port, error) from error


def _advertised(host: str) -> tuple[str, bool]:
    """Where pods would find the server, and whether it answers there: on its loopback addresses no other machine can
    reach it, and endpoints cannot name them."""
    if host not in (*LOOPBACK, *EVERYWHERE):
        return host, True
    return outward_address(), host in EVERYWHERE


def outward_address() -> str:
    """The address of this machine on its way to others; no packet is sent. Loopback when there is no such way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _reachable(host: str) -> str:
    if host in EVERYWHERE:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
