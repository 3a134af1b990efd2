"""The parts that a cluster can be made of, by the names that `kohort up --parts` knows.

A part is imported when it is first used: a test of the API server alone does not pay for the scheduler.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from kohort.kube.manager import Manager
from kohort.objects.json_types import Json

Register = Callable[[Manager], None]
"""A function that adds controllers to a manager."""


def registration_of(part: str) -> Register:
    """The function that registers one of the parts of kohort."""
    found = _PARTS.get(part)
    if found is None:
        raise ValueError(f"no part {part!r}; there are: {', '.join(sorted(_PARTS))}")
    return found


def simulated_nodes(count: int, settings: Mapping[str, Json]) -> Register:
    def register(manager: Manager) -> None:
        import_module("kohort.cluster.simulation.registration").register(manager, nodes=count, **settings)

    return register


def _workloads(manager: Manager) -> None:
    register = import_module("kohort.cluster.workloads.registration").register
    volumes = TemporaryDirectory(prefix="kohort-volumes-")
    register(manager, root_certificate=_CERTIFICATE, volume_directory=Path(volumes.name))

    async def remove() -> None:
        volumes.cleanup()

    manager.clean_up(remove)


def _scheduler(manager: Manager) -> None:
    import_module("kohort.cluster.scheduler.registration").register(manager)


def _operator(manager: Manager) -> None:
    import_module("kohort.operator").register(manager)


_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nno TLS inside a process\n-----END CERTIFICATE-----\n"

_PARTS: dict[str, Register] = {
    "workloads": _workloads,
    "scheduler": _scheduler,
    "operator": _operator,
}
