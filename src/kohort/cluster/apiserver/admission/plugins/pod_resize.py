"""Steps that ask the node of a pod whether a change can be carried out there at all.

Both look only at pods that are bound and whose desired state changes. A node that cannot do it refuses now, with a
cause that tools can act upon, instead of leaving the pod in a state that never comes true.
"""

from collections.abc import Mapping
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, refusal, written
from kohort.cluster.apiserver.kinds import feature_gates as gate
from kohort.cluster.apiserver.schema.field_checks import same, same_amounts
from kohort.kube.errors import StatusCause
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import is_sidecar
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import CPU, MEMORY
from kohort.resources.amounts import Amounts, amounts_of
from kohort.resources.effective import requests, view_of
from kohort.rules.resize_decision import ExceedsNode, excesses_over_node, shown_amount

OS_LABEL: Final = well_known_names.OS
UNSUPPORTED_PLATFORM: Final = "UnsupportedPlatform"
NODE_CAPACITY: Final = "NodeCapacity"
NOT_REPORTED: Final = {CPU: ZERO, MEMORY: ZERO}
"""The API server takes it that a node has nothing of what it does not report."""


def _changes_bound_pod(attributes: Attributes, subresources: tuple[str, ...]) -> bool:
    resource = attributes.resource
    if attributes.operation != "UPDATE" or resource.plural != "pods" or resource.group:
        return False
    if attributes.subresource not in subresources or attributes.object is None or attributes.old_object is None:
        return False
    return bool(attributes.object["spec"].get("nodeName"))


def _generation_moved(attributes: Attributes) -> bool:
    assert attributes.old_object is not None
    new, old = (side["metadata"].get("generation") for side in (written(attributes), attributes.old_object))
    return bool(new != old)


def _node(attributes: Attributes) -> JsonObject:
    name = written(attributes)["spec"]["nodeName"]
    node = attributes.reader.get("nodes", "", name)
    if node is None:
        raise refusal(attributes, f'node "{name}" not found')
    return node


class PodResizeValidator(AdmissionStep):
    name = "PodResizeValidator"
    about = ("pods/resize",)

    def __init__(self, gates: Mapping[str, bool]) -> None:
        self._enabled = gate.enabled(gates, gate.IN_PLACE_RESIZE)

    def handles(self, attributes: Attributes) -> bool:
        return self._enabled and _changes_bound_pod(attributes, ("resize",))

    async def validate(self, attributes: Attributes) -> None:
        if not _generation_moved(attributes):
            return
        node = _node(attributes)
        system = (node["metadata"].get("labels") or {}).get(OS_LABEL, "linux")
        if system != "linux":
            name = node["metadata"]["name"]
            detail = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise refusal(attributes, detail, (StatusCause(reason=UNSUPPORTED_PLATFORM),))
        wanted = requests(view_of(written(attributes)))
        if excesses := excesses_over_node(wanted, {**NOT_REPORTED, **_allocatable(node)}):
            detail = f"node didn't have enough allocatable resources: {'; '.join(map(_in_words, excesses))}"
            raise refusal(attributes, detail, (StatusCause(reason=NODE_CAPACITY),))


def _allocatable(node: JsonObject) -> Amounts:
    return amounts_of((node.get("status") or {}).get("allocatable"))


def _in_words(excess: ExceedsNode) -> str:
    name = excess.resource
    requested, allocatable = shown_amount(name, excess.requested), shown_amount(name, excess.capacity)
    return f"{name}, requested: {requested}, allocatable: {allocatable}"


class NodeDeclaredFeatureValidator(AdmissionStep):
    """Changes that only some nodes can carry out need a node that says it can."""

    name = "NodeDeclaredFeatureValidator"
    about = ("pods", "pods/resize")

    def __init__(self, gates: Mapping[str, bool]) -> None:
        self._gates = gates

    def handles(self, attributes: Attributes) -> bool:
        if not _changes_bound_pod(attributes, ("", "resize")):
            return False
        return gate.enabled(self._gates, gate.NODE_DECLARED_FEATURES)

    async def validate(self, attributes: Attributes) -> None:
        if not _generation_moved(attributes):
            return
        assert attributes.old_object is not None
        required = needed_features(written(attributes)["spec"], attributes.old_object["spec"])
        if not required:
            return
        node = _node(attributes)
        declared = (node.get("status") or {}).get("declaredFeatures") or []
        missing = [feature for feature in required if feature not in declared]
        if missing:
            name = node["metadata"]["name"]
            detail = f'pod update requires features {", ".join(missing)} which are not available on node "{name}"'
            raise refusal(attributes, detail)


def needed_features(spec: JsonObject, before: JsonObject) -> list[str]:
    """The names, in order, of the node features that a change of a pod relies on."""
    needed: list[str] = []
    if not _same_resources(spec.get("resources"), before.get("resources")):
        needed.append(gate.POD_LEVEL_RESIZE)
    pairs = zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=False)
    if any(
        not is_sidecar(old) and not _same_resources(new.get("resources"), old.get("resources")) for new, old in pairs
    ):
        needed.append(gate.INIT_CONTAINER_RESIZE)
    if _memory_sizes(spec) != _memory_sizes(before):
        needed.append(gate.MEMORY_VOLUME_RESIZE)
    return needed


def _same_resources(new: JsonObject | None, old: JsonObject | None) -> bool:
    new, old = new or {}, old or {}
    if not all(same_amounts(new.get(side), old.get(side)) for side in ("requests", "limits")):
        return False
    return same(new.get("claims"), old.get("claims"))


def _memory_sizes(spec: JsonObject) -> dict[str, Quantity]:
    """Limits of the volumes that live in memory, by name."""
    return {
        volume.get("name") or "": Quantity.parse(source.get("sizeLimit") or 0)
        for volume in spec.get("volumes") or []
        if (source := volume.get("emptyDir")) is not None and source.get("medium") == "Memory"
    }
