"""What people and tools read: the address in the status of Ingresses and Gateways, and conditions."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.cluster.gateway.httproutes import Attachment, attachments
from kohort.cluster.gateway.views import CONTROLLER, GROUP, Gateway, GatewayClass, HTTPRoute
from kohort.kube.resources import Key
from kohort.objects.jsontypes import JsonObject

ADDRESS_TYPE: Final = "kohort.dev/url"


def ingress_status(host: str, port: int) -> JsonObject:
    return {"loadBalancer": {"ingress": [{"ip": host, "ports": [{"port": port, "protocol": "TCP"}]}]}}


def ingress_port(status: JsonObject, host: str) -> int:
    """The port that an Ingress was served on before; 0 if on none of ours."""
    for entry in (status.get("loadBalancer") or {}).get("ingress") or ():
        if entry.get("ip") == host:
            return int(next((port["port"] for port in entry.get("ports") or ()), 0))
    return 0


def gateway_port(status: JsonObject, host: str) -> int:
    start = f"http://{host}:"
    for address in status.get("addresses") or ():
        text = str(address.get("value", ""))
        if address.get("type") == ADDRESS_TYPE and text.startswith(start) and text.removeprefix(start).isdigit():
            return int(text.removeprefix(start))
    return 0


def condition(
    known: Iterable[JsonObject], type: str, status: bool, reason: str, message: str, generation: int, now: str
) -> JsonObject:
    """With the time of the last change of its status."""
    word = "True" if status else "False"
    before = next((one for one in known if one.get("type") == type), {})
    since = before.get("lastTransitionTime", now) if before.get("status") == word else now
    return {
        "type": type,
        "status": word,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }


def class_status(one: GatewayClass, now: str) -> JsonObject:
    known = one.status.get("conditions") or ()
    generation = one.metadata.generation
    return {"conditions": [condition(known, "Accepted", True, "Accepted", "served by kohort", generation, now)]}


def gateway_status(gateway: Gateway, routes: Iterable[HTTPRoute], host: str, port: int, now: str) -> JsonObject:
    known = gateway.status.get("conditions") or ()
    generation = gateway.metadata.generation
    address = f"http://{host}:{port}"
    text = f"all listeners are served at {address}"
    attached = _attached(gateway, routes)
    return {
        "addresses": [{"type": "IPAddress", "value": host}, {"type": ADDRESS_TYPE, "value": address}],
        "conditions": [
            condition(known, "Accepted", True, "Accepted", text, generation, now),
            condition(known, "Programmed", True, "Programmed", text, generation, now),
        ],
        "listeners": [
            {
                "name": listener.name,
                "attachedRoutes": attached,
                "supportedKinds": [{"group": GROUP, "kind": "HTTPRoute"}],
                "conditions": [
                    condition(
                        _of_listener(gateway, listener.name), "Accepted", True, "Accepted", text, generation, now
                    ),
                    condition(
                        _of_listener(gateway, listener.name), "Programmed", True, "Programmed", text, generation, now
                    ),
                ],
            }
            for listener in gateway.spec.listeners
        ],
    }


def _attached(gateway: Gateway, routes: Iterable[HTTPRoute]) -> int:
    key = Key(gateway.metadata.namespace, gateway.metadata.name)
    return sum(any(one.accepted for one in attachments(route, {key: gateway})) for route in routes)


def _of_listener(gateway: Gateway, name: str) -> list[JsonObject]:
    for listener in gateway.status.get("listeners") or ():
        if listener.get("name") == name:
            return list(listener.get("conditions") or ())
    return []


def route_status(route: HTTPRoute, gateways: Mapping[Key, Gateway], now: str) -> JsonObject:
    """One entry per parent; entries of other controllers stay."""
    before = route.status.get("parents") or []
    theirs = [entry for entry in before if entry.get("controllerName") != CONTROLLER]
    ours = [_parent_status(route, one, before, now) for one in attachments(route, gateways)]
    return {"parents": theirs + ours}


def _parent_status(route: HTTPRoute, one: Attachment, before: list[JsonObject], now: str) -> JsonObject:
    parent: JsonObject = {"group": GROUP, "kind": "Gateway", **msgspec.to_builtins(one.parent)}
    known: list[JsonObject] = []
    for entry in before:
        if entry.get("controllerName") == CONTROLLER and entry.get("parentRef") == parent:
            known = entry.get("conditions") or []
    generation = route.metadata.generation
    wrong = _unresolved(route)
    return {
        "parentRef": parent,
        "controllerName": CONTROLLER,
        "conditions": [
            condition(known, "Accepted", one.accepted, one.reason, one.message, generation, now),
            condition(
                known,
                "ResolvedRefs",
                not wrong,
                "InvalidKind" if wrong else "ResolvedRefs",
                wrong or "all references are Services",
                generation,
                now,
            ),
        ],
    }


def _unresolved(route: HTTPRoute) -> str:
    wrong = [ref for rule in route.spec.rules for ref in rule.backend_refs if ref.kind != "Service" or ref.group]
    return f"backendRef {wrong[0].name} is a {wrong[0].kind}; only Services are served" if wrong else ""
