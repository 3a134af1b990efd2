"""Removes what an agent that was killed has left on this machine, without starting another agent.

The containers of a killed agent run on for the next one. If there will be none, this does what an agent does at an
orderly end: it stops the pods and their supervisor, and gives back networks and addresses.
"""

from collections.abc import Container, Iterable
from pathlib import Path

from kohort.node import service_network
from kohort.node.mount_table import remove_directory, unmount_below
from kohort.node.pod_addresses import release_recorded
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.runtimes.interface import RUNTIME_RECORD
from kohort.node.runtimes.process.leftover_processes import end_processes


async def end(directory: Path) -> int:
    """Stop and remove what is left below a node's directory; returns how many pods were running. No agent may run
    there. Raises OSError when a process does not end."""
    pods = await end_processes(directory / "runtime") | await _end_containers(directory)
    unmount_volumes(directory)
    NetworkNamespaces(directory / "networks").remove_all()
    records = directory / "records"
    service_network.remove_recorded(records / "service-network", records / "addresses")
    for record in (records / "addresses", records / "service-addresses"):
        release_recorded(record)
    return len(pods)


async def _end_containers(directory: Path) -> set[str]:
    """The UIDs of pods that were in a container runtime. Raises OSError if it does not answer."""
    if not (directory / RUNTIME_RECORD).exists():
        return set()
    from kohort.node.runtimes.cri.leftover_sandboxes import end_sandboxes

    return await end_sandboxes(directory)


async def give_up_containers(directory: Path) -> str:
    """Forget pods in a container runtime that does not answer, so that `end` can remove the rest; says in words what
    is left, empty if nothing is. Raises OSError."""
    if not (directory / RUNTIME_RECORD).exists():
        return ""
    from kohort.node.runtimes.cri.configuration import NODE_LABEL
    from kohort.node.runtimes.cri.leftover_sandboxes import give_up_sandboxes

    runtime = await give_up_sandboxes(directory)
    if runtime is None:
        return ""
    return (
        f"gave up the pods in the container runtime at {runtime.socket}, which does not answer: their containers may "
        f"still run. If the runtime comes back, list them with: crictl pods --label {NODE_LABEL}={runtime.owner}"
    )


def unmount_volumes(directory: Path) -> None:
    """Unmount the volumes of all pods of a node."""
    for pod in _pods(directory):
        unmount_below(pod)


def pods_with_directories(directory: Path) -> set[str]:
    """The UIDs of pods that this node has, or had and did not clean up."""
    return {pod.name for pod in _pods(directory)}


def orphaned_directories(directory: Path, known: Container[str]) -> list[Path]:
    """Logs and volumes of pods that were deleted while no agent was running."""
    return [pod for pod in _pods(directory) if pod.name not in known]


def remove_directories(pods: Iterable[Path]) -> None:
    for pod in pods:
        remove_directory(pod)


def _pods(directory: Path) -> list[Path]:
    place = directory / "pods"
    return list(place.iterdir()) if place.is_dir() else []
