"""NetworkPolicies."""

import ipaddress
from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, cidr, named, port_number, same
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import port_name
from kohort.objects.selectors import selector_errors

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    has_status = False

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for direction, _ in _DIRECTIONS:
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    if port.get("protocol") is None:
                        port["protocol"] = "TCP"

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_spec(errors, obj.get("spec") or {}, [])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_spec(errors, obj.get("spec") or {}, list(_networks(old.get("spec") or {})))
        return errors


def _networks(spec: JsonObject) -> Iterator[str]:
    for direction, peers in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock")
                if block is not None:
                    yield from (block.get("cidr") or "", *(block.get("except") or ()))


def _check_spec(errors: Errors, spec: JsonObject, accepted: list[str]) -> None:
    errors += selector_errors(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or ()):
                _check_port(errors, f"{path}.ports[{position}]", port)
            for position, peer in enumerate(rule.get(peers) or ()):
                _check_peer(errors, f"{path}.{peers}[{position}]", peer, accepted)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        errors.append(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        return
    for index, kind in enumerate(types):
        if kind not in ("Ingress", "Egress"):
            errors.append(not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress")))


def _check_port(errors: Errors, path: str, port: JsonObject) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if isinstance(number, int):
        port_number(errors, f"{path}.port", number)
        if end is not None:
            if end < number:
                errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
            port_number(errors, f"{path}.endPort", end)
    elif number is not None:
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        named(errors, f"{path}.port", number, port_name)
    elif end is not None:
        errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))


def _check_peer(errors: Errors, path: str, peer: JsonObject, accepted: list[str]) -> None:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    for name in given:
        if name == "ipBlock":
            _check_block(errors, f"{path}.ipBlock", peer["ipBlock"], accepted)
        else:
            errors += selector_errors(peer[name], f"{path}.{name}")
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _check_block(errors: Errors, path: str, block: JsonObject, accepted: list[str]) -> None:
    text = block.get("cidr") or ""
    if not text:
        errors.append(required(f"{path}.cidr"))
        return
    cidr(errors, f"{path}.cidr", text, accepted)
    outer = _network(text)
    if outer is None:
        return
    for index, hole in enumerate(block.get("except") or ()):
        cidr(errors, f"{path}.except[{index}]", hole, accepted)
        inner = _network(hole)
        if inner is None:
            continue
        inside = inner.version == outer.version and inner.network_address in outer
        if not inside or outer.prefixlen >= inner.prefixlen:
            errors.append(invalid(f"{path}.except[{index}]", hole, "must be a strict subset of `cidr`"))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
