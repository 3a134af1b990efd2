"""The pods of a DaemonSet: for which node one is, whether a node fits, and how one is made."""

from typing import Final

import msgspec

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.daemonset.plan import Fit
from kohort.cluster.workloads.nodes.plan import NOT_READY, PREFIX, UNREACHABLE, UNSCHEDULABLE
from kohort.objects import well_known_names
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import PodSpec
from kohort.rules.scheduling.affinity_terms import NodeRule

HASH_LABEL: Final = well_known_names.CONTROLLER_REVISION_HASH
GENERATION_LABEL: Final = "pod-template-generation"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
NODE_NAME_FIELD: Final = "metadata.name"
_TOLERATED: Final = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (f"{PREFIX}disk-pressure", "NoSchedule"),
    (f"{PREFIX}memory-pressure", "NoSchedule"),
    (f"{PREFIX}pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
_TOLERATED_WITH_HOST_NETWORK: Final = (f"{PREFIX}network-unavailable", "NoSchedule")


def node_of(pod: Pod) -> str:
    """The node that a pod runs on or, before it is scheduled, is meant for; empty if it is meant for none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in (required.node_selector_terms if required is not None else None) or ():
        for field in term.match_fields:
            if (field.key, field.operator, len(field.values or ())) == (NODE_NAME_FIELD, "In", 1):
                return (field.values or ("",))[0]
    return ""


class Placement:
    """Where the pods of one DaemonSet belong."""

    def __init__(self, daemon_set: JsonObject) -> None:
        template = daemon_set["spec"]["template"].get("spec") or {}
        spec = msgspec.convert({**template, "tolerations": tolerations_of(template)}, PodSpec)
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        self._rule = NodeRule(spec.node_selector, required)
        self._tolerations = spec.tolerations
        self._only = spec.node_name

    def fit(self, node: Node) -> Fit:
        name = node.metadata.name
        if (self._only and self._only != name) or not self._rule.matches(name, node.metadata.labels):
            return Fit(False, False)
        refused = {taint.effect for taint in node.spec.taints if not any(t.tolerates(taint) for t in self._tolerations)}
        return Fit(not refused & {"NoSchedule", "NoExecute"}, "NoExecute" not in refused)


def build_pod(daemon_set: JsonObject, node: str, digest: str) -> JsonObject:
    template = daemon_set["spec"]["template"]
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels = {**(meta.get("labels") or {}), HASH_LABEL: digest}
    if generation := (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION):
        labels[GENERATION_LABEL] = generation
    metadata: JsonObject = {
        "generateName": f"{daemon_set['metadata']['name']}-",
        "namespace": daemon_set["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [controller_ref.controller_reference(daemon_set)],
    }
    for key in ("annotations", "finalizers"):
        if meta.get(key):
            metadata[key] = meta[key]
    placed = {**spec, "affinity": _affinity_to(node, spec.get("affinity")), "tolerations": tolerations_of(spec)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": placed}


def tolerations_of(spec: JsonObject) -> list[JsonObject]:
    """Those of the template and those that every daemon has: it must run where other pods would have to leave."""
    found: list[JsonObject] = list(spec.get("tolerations") or ())
    needed = [*_TOLERATED, *([_TOLERATED_WITH_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    for key, effect in needed:
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        same = [one for one in found if _identity(one) == _identity(wanted)]
        found = [wanted if one in same else one for one in found] if same else [*found, wanted]
    return found


def _identity(toleration: JsonObject) -> tuple[object, ...]:
    return tuple(toleration.get(field) or "" for field in ("key", "effect", "operator", "value"))


def _affinity_to(node: str, given: JsonObject | None) -> JsonObject:
    """The template's affinity, with its required nodes replaced by the one that was chosen: it fits all of them."""
    term = {"matchFields": [{"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = given or {}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}
