"""The status of Ingresses, Gateways and HTTPRoutes: addresses and conditions."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kohort.cluster.gateway.httproutes import Attachment, attachments
from kohort.cluster.gateway.views import CONTROLLER, GROUP, Gateway, GatewayClass, HTTPRoute, Listener
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

    def url(self, listener: Listener | None = None) -> str:
        secure = listener is not None and listener.secure
        return f"https://{self.host}:{self.tls_port}" if secure else f"http://{self.host}:{self.port}"


def gateway_status(gateway: Gateway, routes: Iterable[HTTPRoute], served: Served, now: str) -> JsonObject:
    known = gateway.status.get("conditions") or ()
    generation = gateway.metadata.generation
    urls = dict.fromkeys([*(served.url(one) for one in gateway.spec.listeners), served.url()])
    text = f"listeners are served at {', '.join(urls)}"
    attached = _attached(gateway, routes)
    return {
        "addresses": [
            {"type": "IPAddress", "value": served.host},
            *({"type": ADDRESS_TYPE, "value": url} for url in urls),
        ],
        "conditions": [
            condition(known, "Accepted", True, "Accepted", text, generation, now),
            condition(known, "Programmed", True, "Programmed", text, generation, now),
        ],
        "listeners": [_listener_status(gateway, one, attached, served, now) for one in gateway.spec.listeners],
    }


def _listener_status(gateway: Gateway, listener: Listener, attached: int, served: Served, now: str) -> JsonObject:
    known, generation = _of_listener(gateway, listener.name), gateway.metadata.generation
    text = f"the listener is served at {served.url(listener)}"
    unknown = listener.protocol not in ("HTTP", "HTTPS")
    refused = f"protocol {listener.protocol} is not served; use HTTP or HTTPS" if unknown else ""
    unresolved, reason = _certificate_problem(gateway, listener, served)
    wrong = refused or unresolved
    return {
        "name": listener.name,
        "attachedRoutes": 0 if wrong else attached,
        "supportedKinds": [] if unknown else [{"group": GROUP, "kind": "HTTPRoute"}],
        "conditions": [
            condition(
                known,
                "Accepted",
                not refused,
                "UnsupportedProtocol" if refused else "Accepted",
                refused or text,
                generation,
                now,
            ),
            condition(
                known, "Programmed", not wrong, "Invalid" if wrong else "Programmed", wrong or text, generation, now
            ),
            condition(
                known,
                "ResolvedRefs",
                not unresolved,
                reason or "ResolvedRefs",
                unresolved or "all references are known",
                generation,
                now,
            ),
        ],
    }


def _certificate_problem(gateway: Gateway, listener: Listener, served: Served) -> tuple[str, str]:
    """What is wrong with the certificate of a listener, and the reason that the Gateway API has for it."""
    if not listener.secure:
        return "", ""
    if not listener.certificates:
        return "tls.mode must be Terminate, and tls.certificateRefs name a Secret", "InvalidCertificateRef"
    own = gateway.metadata.namespace
    for ref in listener.certificates:
        if ref.kind != "Secret" or ref.group:
            return f"certificateRef {ref.name} is a {ref.kind}; name a Secret", "InvalidCertificateRef"
        if ref.namespace not in (None, own):
            return f"certificateRef {ref.name} is in another namespace; that is not served", "RefNotPermitted"
        if problem := served.wrong.get(Key(own, ref.name)):
            return problem, "InvalidCertificateRef"
    return "", ""


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
