"""How much of the requests a route sends to the canary, read from the route itself."""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.kube.resources import HTTP_ROUTES, INGRESSES, Resource
from kohort.objects.json_types import JsonObject

VIRTUAL_SERVICES = Resource("networking.istio.io", "v1", "virtualservices", "VirtualService")
DESTINATION_RULES = Resource("networking.istio.io", "v1", "destinationrules", "DestinationRule")
NGINX = "nginx.ingress.kubernetes.io/canary"


def free_definition(resource: Resource) -> JsonObject:
    """Of a kind that takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower()}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    metadata: JsonObject = {"name": resource.qualified}
    if resource.group.endswith("k8s.io"):
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, test"}
    spec = {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": metadata, "spec": spec}


class Share(NamedTuple):
    """Whether some requests would reach the canary, whether all would, and the weights as they are written."""

    some: bool
    all: bool
    weights: tuple[int, ...] = ()

    @classmethod
    def none(cls) -> "Share":
        return cls(False, False)

    @classmethod
    def of(cls, shares: Iterable["Share | None"]) -> "Share":
        """Of all routes together; those that do not concern the canary do not count."""
        known = [one for one in shares if one is not None]
        weights = tuple(weight for one in known for weight in one.weights)
        return cls(any(one.some for one in known), bool(known) and all(one.all for one in known), weights)


def share_of(resource: Resource, obj: JsonObject, stable: str, canary: str) -> Share | None:
    """None where the route says nothing about the canary."""
    if resource is INGRESSES:
        return _ingress(obj)
    if resource is HTTP_ROUTES:
        rules = obj["spec"].get("rules") or []
        return _rules([[(one["name"], one.get("weight", 1)) for one in rule["backendRefs"]] for rule in rules], canary)
    routes = [rule.get("route") or [] for rule in obj["spec"].get("http") or []]
    pairs = [[(one["destination"]["host"], one.get("weight", 100)) for one in route] for route in routes]
    return _rules(pairs, canary)


def _ingress(obj: JsonObject) -> Share | None:
    notes = obj["metadata"].get("annotations") or {}
    if notes.get(NGINX) != "true":
        return None
    weight = int(notes.get(f"{NGINX}-weight", "0"))
    matched = any(f"{NGINX}-{name}" in notes for name in ("by-header", "by-cookie"))
    return Share(weight > 0 or matched, weight == 100, (weight,))


def _rules(rules: list[list[tuple[str, int]]], canary: str) -> Share | None:
    weights = [weight for rule in rules for name, weight in rule if name == canary]
    if not weights:
        return None
    others = [weight for rule in rules for name, weight in rule if name != canary]
    return Share(any(weights), any(weights) and not any(others), tuple(weights))
