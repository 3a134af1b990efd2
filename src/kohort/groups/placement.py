"""Placement rules that are written into pods: exclusive topology, and node groups of a replica's own.

Exclusive placement adds a pair of terms: be where the own key is, and not where any other key is. The pair is left out
when the pod already has required terms of both kinds for that topology key, so that a pod which passes the webhook
twice (or was written by another version of it) keeps one pair.
"""

from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def keep_exclusive(spec: JsonObject, label: str, value: str, topology: str, *, everywhere: bool = False) -> None:
    """Tie a pod to the topology domain of its (sub)group and keep it out of the domains of others, of its own namespace
    or of all. Changes `spec`."""
    affinity = spec.setdefault("affinity", {})
    near = affinity.setdefault("podAffinity", {}).setdefault(_REQUIRED, [])
    far = affinity.setdefault("podAntiAffinity", {}).setdefault(_REQUIRED, [])
    if _names(near, topology) and _names(far, topology):
        return
    near.append(_term(topology, {"key": label, "operator": "In", "values": [value]}))
    others = _term(
        topology,
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [value]},
    )
    far.append({**others, "namespaceSelector": {}} if everywhere else others)


def _names(terms: list[JsonObject], topology: str) -> bool:
    return any(term.get("topologyKey") == topology for term in terms)


def _term(topology: str, *expressions: JsonObject) -> JsonObject:
    return {"labelSelector": {"matchExpressions": list(expressions)}, "topologyKey": topology}


def pin_to_own_nodes(spec: JsonObject, annotations: JsonObject, leader: str) -> None:
    """Nodes that are labelled and tainted with the leader's name belong to this group alone. Changes `spec`."""
    selector = annotations.get(group_labels.UNIQUE_NODE_SELECTOR)
    if selector:
        spec.setdefault("nodeSelector", {})[selector] = leader
    key, effect = (
        annotations.get(group_labels.UNIQUE_TOLERATION_KEY),
        annotations.get(group_labels.UNIQUE_TOLERATION_EFFECT),
    )
    if key and effect:
        toleration = {"key": key, "operator": "Equal", "value": leader, "effect": effect}
        tolerations = spec.setdefault("tolerations", [])
        if toleration not in tolerations:
            tolerations.append(toleration)
