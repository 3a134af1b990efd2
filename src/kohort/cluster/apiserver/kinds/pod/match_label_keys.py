"""Selectors that name keys and take the values from the pod's own labels.

When a pod is created, each such key becomes an ordinary expression in the selector next to it, so that no component
that reads the selector later has to know about the shorthand.
"""

from collections.abc import Iterable, Iterator, Mapping

from kohort.cluster.apiserver.kinds.pod.scheduling import PREFERRED, REQUIRED
from kohort.objects.json_types import JsonObject


def merge_label_keys(pod: JsonObject) -> None:
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    for term in _terms(spec):
        selector = term.get("labelSelector")
        if selector is not None:
            _merge(selector, term.get("matchLabelKeys") or (), "In", labels)
            _merge(selector, term.get("mismatchLabelKeys") or (), "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        if constraint.get("labelSelector") is not None:
            _merge(constraint["labelSelector"], constraint.get("matchLabelKeys") or (), "In", labels)


def _terms(spec: JsonObject) -> Iterator[JsonObject]:
    affinity = spec.get("affinity")
    if not affinity:
        return
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        yield from pods.get(REQUIRED) or ()
        for weighted in pods.get(PREFERRED) or ():
            yield weighted.get("podAffinityTerm") or {}


def _merge(selector: JsonObject, keys: Iterable[str], operator: str, labels: Mapping[str, str]) -> None:
    for key in keys:
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), expression]
