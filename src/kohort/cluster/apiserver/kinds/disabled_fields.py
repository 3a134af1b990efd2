"""Fields of features that Kubernetes 1.36 has turned off.

The schema knows them, so they are no unknown fields; but what a client puts there is dropped without a word, unless the
stored object holds it already. A path names the fields to go through; `[]` stands for every entry of a list, `*` for
every value of a map. When the last step leaves an empty object behind that stands in `_EMPTIED`, that goes as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from kohort.objects.json_types import Json, JsonObject

Steps = tuple[str, ...]

_POD_SPEC: Final = (
    "schedulingGroup",
    "containers.[].lifecycle.stopSignal",
    "initContainers.[].lifecycle.stopSignal",
    "ephemeralContainers.[].lifecycle.stopSignal",
    "volumes.[].projected.sources.[].clusterTrustBundle",
    "volumes.[].projected.sources.[].podCertificate",
)
_MOUNT_STATUS: Final = "volumeMounts.[].volumeStatus"
_TEMPLATE: Final = "spec.template.spec"
_EMPTIED: Final = frozenset({"lifecycle"})


def _below(prefix: str, paths: tuple[str, ...] = _POD_SPEC) -> tuple[str, ...]:
    return tuple(f"{prefix}.{path}" for path in paths)


_PATHS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (
        *_below("spec"),
        f"status.containerStatuses.[].{_MOUNT_STATUS}",
        f"status.initContainerStatuses.[].{_MOUNT_STATUS}",
        f"status.ephemeralContainerStatuses.[].{_MOUNT_STATUS}",
        "status.nodeAllocatableResourceClaimStatuses",
    ),
    ("", "Node"): ("spec.configSource", "status.config"),
    ("", "PodTemplate"): _below("template.spec"),
    ("", "ReplicationController"): _below(_TEMPLATE),
    ("apps", "DaemonSet"): _below(_TEMPLATE),
    ("apps", "Deployment"): _below(_TEMPLATE),
    ("apps", "ReplicaSet"): _below(_TEMPLATE),
    ("apps", "StatefulSet"): _below(_TEMPLATE),
    ("batch", "CronJob"): _below("spec.jobTemplate.spec.template.spec"),
    ("batch", "Job"): _below(_TEMPLATE),
    ("coordination.k8s.io", "Lease"): ("spec.strategy", "spec.preferredHolder"),
    ("discovery.k8s.io", "EndpointSlice"): ("endpoints.[].deprecatedTopology",),
    ("resource.k8s.io", "ResourceSlice"): (
        *(f"spec.devices.[].attributes.*.{field}" for field in ("bools", "ints", "strings", "versions")),
        "spec.devices.[].nodeAllocatableResourceMappings",
    ),
    ("storage.k8s.io", "CSIDriver"): ("spec.preventPodSchedulingIfMissing",),
}
_STEPS: Final = {kind: tuple(tuple(path.split(".")) for path in paths) for kind, paths in _PATHS.items()}


Tree: TypeAlias = "dict[str, Tree]"
"""Paths with common beginnings put together; where one ends there is nothing below."""


def _tree(paths: Iterable[Steps]) -> Tree:
    root: Tree = {}
    for steps in paths:
        place = root
        for step in steps:
            place = place.setdefault(step, {})
    return root


_TREES: Final = {kind: _tree(paths) for kind, paths in _STEPS.items()}


def _occurs(value: Json, tree: Tree) -> bool:
    """Whether any of the paths leads somewhere. Hardly ever: so this is one short walk, for every write."""
    if value.__class__ is list:
        below = tree.get("[]")
        return below is not None and any(_occurs(entry, below) for entry in value)
    if value.__class__ is not dict:
        return False
    if "*" in tree:
        return any(_occurs(entry, tree["*"]) for entry in value.values())
    for step, below in tree.items():  # noqa: SIM110 (a generator would cost more than the walk)
        if step in value and (not below or _occurs(value[step], below)):
            return True
    return False


def drop_disabled(group: str, kind: str, obj: JsonObject, old: JsonObject | None = None) -> None:
    """Take out of an object what its kind does not serve, except what the stored one has."""
    tree = _TREES.get((group, kind))
    if tree is None or not _occurs(obj, tree):
        return
    for steps in _STEPS.get((group, kind), ()):
        if old is None or next(_holders(old, steps), None) is None:
            for holder, parent in list(_holders(obj, steps)):
                del holder[steps[-1]]
                if not holder and parent is not None:
                    del parent[steps[-2]]


def _holders(obj: JsonObject, steps: Steps) -> Iterator[tuple[JsonObject, JsonObject | None]]:
    """The objects that hold the last field of a path, each with the object around it if that may not stay."""
    first = obj.get(steps[0])
    if first is not None:
        yield from _below_value(first, steps, 1, obj)


def _below_value(
    value: Json, steps: Steps, position: int, around: JsonObject
) -> Iterator[tuple[JsonObject, JsonObject | None]]:
    if position == len(steps):
        yield around, None
    elif steps[position] in ("[]", "*"):
        for entry in (value.values() if isinstance(value, dict) else value) or ():
            if isinstance(entry, dict) and steps[position + 1] in entry:
                yield from _below_value(entry[steps[position + 1]], steps, position + 2, entry)
    elif isinstance(value, dict) and steps[position] in value:
        if position + 1 == len(steps):
            yield value, (around if steps[position - 1] in _EMPTIED else None)
        else:
            yield from _below_value(value[steps[position]], steps, position + 1, value)
