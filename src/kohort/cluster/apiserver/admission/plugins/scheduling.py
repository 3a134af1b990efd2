"""Steps that decide where a pod may run and for how long it stays: tolerations, taints, topology labels."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import WRITES, AdmissionStep, is_core, written
from kohort.cluster.apiserver.storage.model import Store
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
SECONDS: Final = 300
TOPOLOGY_LABELS: Final = (well_known_names.ZONE, well_known_names.REGION)


class DefaultTolerationSeconds(AdmissionStep):
    """Pods stay for five minutes on a node that is lost, unless they say otherwise."""

    name = "DefaultTolerationSeconds"
    about = ("pods",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation in WRITES and is_core(attributes, "pods")

    async def mutate(self, attributes: Attributes) -> None:
        spec = written(attributes)["spec"]
        present: list[JsonObject] = spec.get("tolerations") or []
        missing: list[JsonObject] = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
            for key in (NOT_READY, UNREACHABLE)
            if not any(_covers(toleration, key) for toleration in present)
        ]
        if missing:
            spec["tolerations"] = [*present, *missing]


def _covers(toleration: JsonObject, key: str) -> bool:
    found, effect = toleration.get("key"), toleration.get("effect")
    return (not found or found == key) and (not effect or effect == "NoExecute")


class TaintNodesByCondition(AdmissionStep):
    """A new node takes no pods until it is known to be ready."""

    name = "TaintNodesByCondition"
    about = ("nodes",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == "CREATE" and is_core(attributes, "nodes")

    async def mutate(self, attributes: Attributes) -> None:
        spec = written(attributes).setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]


class PodTopologyLabels(AdmissionStep):
    """A pod carries the zone and region of the node that it is bound to."""

    name = "PodTopologyLabels"
    about = ("pods", "pods/binding")

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation != "CREATE" or attributes.resource.plural != "pods" or attributes.resource.group:
            return False
        return attributes.subresource in ("", "binding")

    async def mutate(self, attributes: Attributes) -> None:
        document = written(attributes)
        if attributes.subresource:
            target = document.get("target") or {}
            node_name = target.get("name") if target.get("kind") == "Node" else None
        else:
            node_name = document["spec"].get("nodeName")
        if not node_name:
            return
        node = self._store.get("nodes", "", node_name)
        labels = node.labels if node is not None else {}
        copied = {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}
        if copied:
            metadata = document["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), **copied}
