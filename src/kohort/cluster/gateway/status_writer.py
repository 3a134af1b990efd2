"""The status of Ingresses, Gateways and HTTPRoutes: addresses and conditions."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kohort.cluster.gateway.gateway_listeners import NO_LABELS, refusal, takes_routes
from kohort.cluster.gateway.gateway_listeners import unresolved as unresolved_listener
from kohort.cluster.gateway.httproutes import Attachment, UnresolvedRef, attachments
from kohort.cluster.gateway.httproutes import unresolved as unresolved_backend
from kohort.cluster.gateway.views import (
    CONTROLLER,
    GROUP,
    Gateway,
    GatewayClass,
    HTTPRoute,
    Listener,
    ReferenceGrant,
)
from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject

ADDRESS_TYPE: Final = "kohort.dev/url"


def ingress_status(host: str, *ports: int) -> JsonObject:
    """The second port is the one with TLS."""
    served = [{"port": port, "protocol": "TCP"} for port in ports if port]
    return {"loadBalancer": {"ingress": [{"ip": host, "ports": served}]}}


def ingress_port(status: JsonObject, host: str, *, secure: bool = False) -> int:
    """The port that an Ingress was served on before; 0 if on none of ours."""
    for entry in (status.get("loadBalancer") or {}).get("ingress") or ():
        ports = [int(port["port"]) for port in entry.get("ports") or ()]
        if entry.get("ip") == host and len(ports) > secure:
            return ports[secure]
    return 0


def gateway_port(status: JsonObject, host: str, *, secure: bool = False) -> int:
    start = f"{'https' if secure else 'http'}://{host}:"
    for address in status.get("addresses") or ():
        text = str(address.get("value", ""))
        if address.get("type") == ADDRESS_TYPE and text.startswith(start) and text.removeprefix(start).isdigit():
            return int(text.removeprefix(start))
    return 0


def gateway_address(status: JsonObject) -> str:
    """The address that a Gateway had before."""
    return next((str(one.get("value")) for one in status.get("addresses") or () if one.get("type") == "IPAddress"), "")


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


class Served(msgspec.Struct, frozen=True):
    """The served addresses, and the certificates that cannot be used."""

    host: str
    port: int
    tls_port: int = 0
    wrong: Mapping[Key, str] = MappingProxyType({})
    """By Secret: what is wrong with it."""
    own_address: str = ""
    """Of the Gateway alone, where `own_ports` are open."""
    own_ports: frozenset[int] = frozenset()

    def url(self, listener: Listener) -> str:
        scheme = "https" if listener.secure else "http"
        if listener.port in self.own_ports:
            return f"{scheme}://{self.own_address}:{listener.port}"
        return self.shared_url(secure=listener.secure)

    def shared_url(self, *, secure: bool) -> str:
        return f"https://{self.host}:{self.tls_port}" if secure else f"http://{self.host}:{self.port}"


class Routing(msgspec.Struct, frozen=True):
    """What conditions depend on beside the object itself."""

    gateways: Mapping[Key, Gateway] = MappingProxyType({})
    labels: Mapping[str, Mapping[str, str]] = NO_LABELS
    """Of namespaces."""
    grants: tuple[ReferenceGrant, ...] = ()


NO_ROUTING: Final = Routing()


def gateway_status(
    gateway: Gateway, routes: Iterable[HTTPRoute], served: Served, now: str, routing: Routing = NO_ROUTING
) -> JsonObject:
    known = gateway.status.get("conditions") or ()
    generation = gateway.metadata.generation
    urls = dict.fromkeys(served.shared_url(secure=one.secure) for one in gateway.spec.listeners)
    urls[served.shared_url(secure=False)] = None
    attached = _attached_routes(gateway, routes, routing)
    states = [_ListenerState(gateway, one, served, routing.grants) for one in gateway.spec.listeners]
    accepted = any(state.refused is None for state in states)
    programmed = any(state.problem is None for state in states)
    wrong = "; ".join(f"listener {one.listener.name}: {one.problem.message}" for one in states if one.problem)
    where = ", ".join(dict.fromkeys(served.url(one.listener) for one in states if one.problem is None))
    text = f"listeners are served at {where}" if where else "no listener is served"
    text = f"{text}; {wrong}" if wrong else text
    reason = "ListenersNotValid" if wrong else "Accepted"
    return {
        "addresses": [
            {"type": "IPAddress", "value": served.own_address or served.host},
            *({"type": ADDRESS_TYPE, "value": url} for url in urls),
        ],
        "conditions": _with_foreign(
            known,
            [
                condition(known, "Accepted", accepted, reason, text, generation, now),
                condition(
                    known, "Programmed", programmed, "Programmed" if programmed else "Invalid", text, generation, now
                ),
            ],
        ),
        "listeners": [state.status(attached.get(state.listener.name, 0), now) for state in states],
    }


def _with_foreign(known: Iterable[JsonObject], ours: list[JsonObject]) -> list[JsonObject]:
    """Conditions of other types, which other controllers may have added, stay."""
    types = {one["type"] for one in ours}
    return [*ours, *(one for one in known if one.get("type") not in types)]


class _ListenerState:
    def __init__(
        self, gateway: Gateway, listener: Listener, served: Served, grants: tuple[ReferenceGrant, ...]
    ) -> None:
        self.listener = listener
        self.refused = refusal(gateway, listener)
        self._unresolved = unresolved_listener(gateway, listener, grants, served.wrong)
        self.problem = self.refused or self._unresolved
        self._gateway = gateway
        self._url = served.url(listener)

    def status(self, attached: int, now: str) -> JsonObject:
        known, generation = _of_listener(self._gateway, self.listener.name), self._gateway.metadata.generation

        def made(type: str, status: bool, reason: str, message: str) -> JsonObject:
            return condition(known, type, status, reason, message, generation, now)

        text = f"the listener is served at {self._url}"
        refused, unresolved, problem = self.refused, self._unresolved, self.problem
        ours = [
            made("Accepted", True, "Accepted", text)
            if refused is None
            else made("Accepted", False, refused.reason.value, refused.message),
            made("Programmed", True, "Programmed", text)
            if problem is None
            else made("Programmed", False, "Invalid", problem.message),
            made("ResolvedRefs", True, "ResolvedRefs", "all references are known")
            if unresolved is None
            else made("ResolvedRefs", False, unresolved.reason.value, unresolved.message),
            made("Conflicted", True, refused.reason.value, refused.message)
            if refused is not None and refused.is_conflict
            else made("Conflicted", False, "NoConflicts", "no other listener has this port and hostname"),
        ]
        return {
            "name": self.listener.name,
            "attachedRoutes": attached,
            "supportedKinds": [{"group": GROUP, "kind": "HTTPRoute"}] if takes_routes(self.listener) else [],
            "conditions": _with_foreign(known, ours),
        }


def _attached_routes(gateway: Gateway, routes: Iterable[HTTPRoute], routing: Routing) -> dict[str, int]:
    """By listener: how many routes are attached."""
    key = Key(gateway.metadata.namespace, gateway.metadata.name)
    found: dict[str, int] = {}
    for route in routes:
        attached = attachments(route, {key: gateway}, routing.labels)
        for name in {each.listener.name for one in attached for each in one.listeners}:
            found[name] = found.get(name, 0) + 1
    return found


def _of_listener(gateway: Gateway, name: str) -> list[JsonObject]:
    for listener in gateway.status.get("listeners") or ():
        if listener.get("name") == name:
            return list(listener.get("conditions") or ())
    return []


def route_status(
    route: HTTPRoute, routing: Routing, ports_of: Callable[[Key], tuple[int, ...] | None], now: str
) -> JsonObject:
    """One entry per parent; entries of other controllers stay. `ports_of` says which ports a Service has."""
    wrong = unresolved_backend(route, routing.grants, ports_of)
    before = route.status.get("parents") or []
    theirs = [entry for entry in before if entry.get("controllerName") != CONTROLLER]
    attached = attachments(route, routing.gateways, routing.labels)
    ours = [_parent_status(route, one, wrong, before, now) for one in attached]
    return {"parents": theirs + ours}


def _parent_status(
    route: HTTPRoute, one: Attachment, wrong: UnresolvedRef | None, before: list[JsonObject], now: str
) -> JsonObject:
    parent: JsonObject = {"group": GROUP, "kind": "Gateway", **msgspec.to_builtins(one.parent)}
    known: list[JsonObject] = []
    for entry in before:
        if entry.get("controllerName") == CONTROLLER and entry.get("parentRef") == parent:
            known = entry.get("conditions") or []
    generation = route.metadata.generation
    resolved = (
        condition(known, "ResolvedRefs", True, "ResolvedRefs", "all references are Services", generation, now)
        if wrong is None
        else condition(known, "ResolvedRefs", False, wrong.reason.value, wrong.message, generation, now)
    )
    accepted = condition(known, "Accepted", one.accepted, one.reason, one.message, generation, now)
    return {
        "parentRef": parent,
        "controllerName": CONTROLLER,
        "conditions": _with_foreign(known, [accepted, resolved]),
    }
