"""Variables that let the processes of a group find each other's TPUs.

Every container that asks for `google.com/tpu` is one TPU process. Processes are numbered through the group (or the
subgroup): hosts in order of their worker index, and within a host the containers in theirs.

| group | process | id | hosts |
|---|---|---|---|
| size 2, leader has TPUs | worker 1 | 1 | leader, worker 1 |
| size 2, leader has none | worker 1 | 0 | worker 1 |
| two TPU containers, size 2 | leader | 0 and 1 | leader, leader, worker, worker |
| subgroups of 4, leader has TPUs | worker 7 | 3 | workers 4 to 7 |
| subgroups of 4, leader has none | worker 5 | 0 | workers 5 to 8 |
| size 5 in subgroups of 2, leader has TPUs and is an extra member | worker 2 | 2 | leader, workers 1 and 2 |
| leader in no subgroup, with TPUs | leader | 0 | leader |
"""

from typing import Final

import msgspec

from kohort.groups.subgroups import leader_is_extra
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity

RESOURCE: Final = "google.com/tpu"
HOSTNAMES: Final = "TPU_WORKER_HOSTNAMES"
WORKER_ID: Final = "TPU_WORKER_ID"
NAME: Final = "TPU_NAME"
ADDRESSES: Final = "TPU_PROCESS_ADDRESSES"
PORT: Final = "TPU_PROCESS_PORT"
FIRST_PORT: Final = 8476


class TpuError(ValueError):
    """The pod says that it belongs to a subgroup and does not say to which."""


class TpuMember(msgspec.Struct, frozen=True):
    """Where a pod stands in its group."""

    leader: str
    """Name of the leader pod."""
    worker: int
    """0 for the leader."""
    size: int
    subdomain: str
    leader_has_tpus: bool
    """As said by the leader itself, or by the annotation on its workers."""
    subgroup_size: int | None = None
    subgroup: int | None = None
    leader_excluded: bool = False
    """The leader is in no subgroup: its TPUs, if it has any, are its own affair."""


def requests_tpus(container: JsonObject) -> bool:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        amount = (resources.get(kind) or {}).get(RESOURCE)
        if amount is not None and Quantity.parse(amount) != Quantity.parse(0):
            return True
    return False


def pod_requests_tpus(spec: JsonObject) -> bool:
    return bool(tpu_containers(spec))


def tpu_containers(spec: JsonObject) -> list[JsonObject]:
    """Main containers first, then init containers."""
    everything = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container for container in everything if requests_tpus(container)]


def add_variables(spec: JsonObject, member: TpuMember) -> None:
    """Give every TPU container its variables, unless the user has set them. Changes `spec`."""
    containers = tpu_containers(spec)
    if not containers or {HOSTNAMES, WORKER_ID} & {one["name"] for one in containers[0].get("env") or ()}:
        return
    if member.subgroup_size is not None:
        _add_for_subgroup(containers[0], member)
    else:
        _add_for_group(containers, member)


def _add_for_group(containers: list[JsonObject], member: TpuMember) -> None:
    ports = [_own_port(container) or str(FIRST_PORT + number) for number, container in enumerate(containers)]
    workers = [f"{member.leader}-{worker}" for worker in range(1, member.size)]
    pods = [member.leader, *workers] if member.leader_has_tpus else workers
    hosts = [f"{pod}.{member.subdomain}" for pod in pods for _ in containers]
    addresses = [f"{pod}.{member.subdomain}:{port}" for pod in pods for port in ports]
    before = member.worker if member.leader_has_tpus or member.worker == 0 else member.worker - 1
    for number, container in enumerate(containers):
        identity = before * len(containers) + number
        _append(container, hosts, identity, member.leader, addresses, ports[number])


def _add_for_subgroup(container: JsonObject, member: TpuMember) -> None:
    identity, pods = _subgroup(member)
    port = _own_port(container) or str(FIRST_PORT)
    hosts = [f"{pod}.{member.subdomain}" for pod in pods]
    _append(container, hosts, identity, member.leader, [f"{host}:{port}" for host in hosts], port)


def _subgroup(member: TpuMember) -> tuple[int, list[str]]:
    """The number of this pod in its subgroup, and the pods of the subgroup in order."""
    width = member.subgroup_size or 1
    if member.leader_excluded and member.worker == 0:
        return 0, [member.leader]
    if member.leader_excluded or not (member.leader_has_tpus or member.worker == 0):
        number = (member.worker - 1) // width
        return (member.worker - 1) % width, _names(member.leader, range(number * width + 1, (number + 1) * width + 1))
    if member.worker > 0 and member.subgroup is None:
        raise TpuError(f"pod {member.leader}-{member.worker} has no subgroup index")
    extra = leader_is_extra(member.size, width)
    number = member.subgroup or 0
    # An extra leader makes the first subgroup one larger and moves all others up by one.
    first, last = (number * width + extra * (number > 0), (number + 1) * width + extra)
    return member.worker - first, _names(member.leader, range(first, last))


def _names(leader: str, workers: range) -> list[str]:
    return [f"{leader}-{worker}" if worker else leader for worker in workers]


def _own_port(container: JsonObject) -> str | None:
    return next((one.get("value") for one in container.get("env") or () if one["name"] == PORT), None)


def _append(container: JsonObject, hosts: list[str], identity: int, name: str, addresses: list[str], port: str) -> None:
    values = {
        HOSTNAMES: ",".join(hosts),
        WORKER_ID: str(identity),
        NAME: name,
        ADDRESSES: ",".join(addresses),
    }
    if _own_port(container) is None:
        values[PORT] = port
    container.setdefault("env", []).extend({"name": key, "value": value} for key, value in values.items())
