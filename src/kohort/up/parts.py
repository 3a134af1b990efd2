"""The parts of a cluster, and how each is registered.

A part is a set of controllers that is added to a manager. It is imported only if it runs: `MODULES` is the one registry
of modules by name.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cluster.apiserver.admission.webhook_client import WebhookClient
from kohort.cluster.workloads.csr_signer import AuthorityFiles
from kohort.kube.manager import Manager
from kohort.objects.json_types import Json
from kohort.up.startup_errors import BadOption

if TYPE_CHECKING:
    from kohort.admission.webhook_host import InProcess
    from kohort.node.runtimes.cri.discovery import RuntimeFacts

API_SERVER = "apiserver"
NODE = "node"
OPERATOR = "operator"
GATEWAY = "gateway"
SIMULATION = "simulation"
"""Not in the list of parts: asking for simulated nodes starts it."""

MODULES = {
    "workloads": "kohort.cluster.workloads.registration",
    "scheduler": "kohort.cluster.scheduler.registration",
    OPERATOR: "kohort.operator",
    NODE: "kohort.node.registration",
    GATEWAY: "kohort.up.gateway_launcher",
    SIMULATION: "kohort.cluster.simulation.registration",
}
NAMES = (API_SERVER, *(name for name in MODULES if name != SIMULATION))

Settled = Callable[[], Awaitable[None]]
"""Waits until a part has done what other parts rely on at the start."""


@dataclass(frozen=True, slots=True)
class PartSettings:
    """Facts about the process that parts need."""

    root_certificate: str
    """PEM of the cluster's authority."""
    volumes: Path
    simulation: Mapping[str, Json] = field(default_factory=dict)
    """Arguments for the simulated nodes; empty without simulation."""
    server: str = ""
    """URL of the API server."""
    webhooks: WebhookClient | None = None
    """The client that calls webhooks, if the API server is in this process."""
    authority: AuthorityFiles | None = None
    """The authority of the cluster, if its files are on this machine."""
    default_resize_policy: str = "None"
    """Of LeaderWorkerSets that do not specify one."""
    kubeconfig: Path | None = None
    """For parts that are processes of their own; None where kubectl would find it."""
    impersonate: bool = False
    """Whether such parts act under names of their own."""
    device_plugins: Path | None = None
    """Where device plugins of the node register."""
    container_runtime: "RuntimeFacts | None" = None
    """What runs the containers of the node; None for processes of this machine."""
    registry_credentials: Path | None = None
    release_gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of Rollouts, for the operator."""


def chosen(names: str, *, simulated: bool = False) -> tuple[str, ...]:
    """The parts that `--parts` names, all there are when it is empty; the API server first.

    With `simulated` nodes, pods should run there: this machine is a node then only if `--parts` names it.
    """
    if not names:
        left_out = (API_SERVER, NODE) if simulated else (API_SERVER,)
        return (API_SERVER, *(name for name in NAMES if name not in left_out))
    wanted = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in wanted or (names,):
        if name not in NAMES:
            raise BadOption(f"there is no part {name!r}; --parts takes any of {', '.join(NAMES)}")
    return tuple(name for name in NAMES if name in wanted)


def _webhooks(client: WebhookClient, manager: Manager) -> "InProcess":
    from kohort.admission.metrics import WebhookMetrics
    from kohort.admission.webhook_host import InProcess

    return InProcess(client, WebhookMetrics(manager.metrics.registry))


def _register_node(settings: PartSettings, manager: Manager) -> Settled:
    from kohort.node.agent import NodeOptions
    from kohort.node.machine_info import own_name
    from kohort.node.registration import ContainerOptions, register

    directory = settings.volumes.parent / "node"
    options = NodeOptions(
        own_name(), directory, api_server=settings.server, stop_pods=True, device_plugins=settings.device_plugins
    )
    containers = ContainerOptions(settings.container_runtime, settings.registry_credentials)
    return register(manager, options, containers, root_certificate=settings.root_certificate)


def register(name: str, settings: PartSettings, manager: Manager) -> Settled | None:
    """Add the controllers of a part to a manager."""
    register_part = import_module(MODULES[name]).register
    if name == SIMULATION:
        registered: Settled = register_part(manager, **settings.simulation)
        return registered
    if name == OPERATOR:
        from kohort.rollouts.feature_gates import from_gates

        register_part(
            manager,
            webhooks=_webhooks(settings.webhooks, manager) if settings.webhooks is not None else None,
            default_resize_policy=settings.default_resize_policy,
            features=from_gates(settings.release_gates),
        )
    elif name == "workloads":
        register_part(
            manager,
            root_certificate=settings.root_certificate,
            volume_directory=settings.volumes,
            authority=settings.authority,
        )
    elif name == NODE:
        settled: Settled = _register_node(settings, manager)
        return settled
    elif name == GATEWAY:
        kubeconfig = str(settings.kubeconfig) if settings.kubeconfig is not None else ""
        user = f"system:kohort:{GATEWAY}" if settings.impersonate else ""
        launched: Settled = register_part(manager, kubeconfig=kubeconfig, user=user).settled
        return launched
    else:
        register_part(manager)
    return None
