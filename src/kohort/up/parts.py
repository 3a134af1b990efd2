"""The parts that a cluster is made of, and how each is plugged in.

A part is a set of controllers that is added to a manager. It is imported only when it is wanted.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from kohort.cluster.apiserver.admission.webhook_client import WebhookClient
from kohort.cluster.workloads.csr_signer import AuthorityFiles
from kohort.kube.manager import Manager
from kohort.objects.json_types import Json
from kohort.up.startup_errors import BadOption

API_SERVER = "apiserver"
NODE = "node"
OPERATOR = "operator"
SIMULATION = "simulation"
"""Not in the list of parts: asking for simulated nodes starts it."""

MODULES = {
    "workloads": "kohort.cluster.workloads.registration",
    "scheduler": "kohort.cluster.scheduler.registration",
    OPERATOR: "kohort.operator",
    NODE: "kohort.node.registration",
    "gateway": "kohort.cluster.gateway.registration",
    SIMULATION: "kohort.cluster.simulation.registration",
}
NAMES = (API_SERVER, *(name for name in MODULES if name != SIMULATION))

Settled = Callable[[], Awaitable[None]]
"""Returns when a part has done what others expect of it from the start."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What parts may need to know of the process they run in."""

    root_certificate: str
    """PEM of the cluster's authority."""
    volumes: Path
    simulation: Mapping[str, Json] = field(default_factory=dict)
    """Arguments for the simulated nodes, if there shall be any."""
    server: str = ""
    """URL of the API server."""
    webhooks: WebhookClient | None = None
    """What calls webhooks, when that is in this process."""
    authority: AuthorityFiles | None = None
    """The cluster's own, when that is on this machine."""
    default_resize_policy: str = "None"
    """Of LeaderWorkerSets that do not specify one."""


def chosen(names: str, *, simulated: bool = False) -> tuple[str, ...]:
    """The parts that `--parts` names, all there are when it is empty; the API server first.

    Whoever wants `simulated` nodes wants pods to go there: this machine is not a node then, unless it is asked for.
    """
    if not names:
        left_out = (API_SERVER, NODE) if simulated else (API_SERVER,)
        return (API_SERVER, *(name for name in NAMES if name not in left_out))
    wanted = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in wanted or (names,):
        if name not in NAMES:
            raise BadOption(f"there is no part {name!r}; --parts takes any of {', '.join(NAMES)}")
    return tuple(name for name in NAMES if name in wanted)


def register(name: str, surroundings: Surroundings, manager: Manager) -> Settled | None:
    """Add the controllers of a part to a manager."""
    plug = import_module(MODULES[name]).register
    if name == SIMULATION:
        registered: Settled = plug(manager, **surroundings.simulation)
        return registered
    if name == OPERATOR and surroundings.webhooks is not None:
        from kohort.admission.metrics import WebhookMetrics
        from kohort.admission.webhook_host import InProcess

        metrics = WebhookMetrics(manager.metrics.registry)
        webhooks = InProcess(surroundings.webhooks, metrics)
        plug(manager, webhooks=webhooks, default_resize_policy=surroundings.default_resize_policy)
    elif name == OPERATOR:
        plug(manager, default_resize_policy=surroundings.default_resize_policy)
    elif name == "workloads":
        plug(
            manager,
            root_certificate=surroundings.root_certificate,
            volume_directory=surroundings.volumes,
            authority=surroundings.authority,
        )
    elif name == NODE:
        directory = surroundings.volumes.parent / "node"
        settled: Settled = plug(
            manager,
            root_certificate=surroundings.root_certificate,
            directory=directory,
            api_server=surroundings.server,
        )
        return settled
    else:
        plug(manager)
    return None
