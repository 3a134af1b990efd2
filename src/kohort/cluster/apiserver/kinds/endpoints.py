"""Endpoints and EndpointSlices: where the traffic of a service goes."""

import ipaddress
from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import (
    PROTOCOLS,
    Errors,
    choice,
    dns_label,
    endpoint_address,
    immutable,
    ip_address,
    is_reachable,
    named,
    parse_address,
    port_number,
    problems_of,
    qualified,
    same,
    supported,
)
from kohort.objects.field_errors import FieldError, duplicate, invalid, required, too_many
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain, label_value


class EndpointsStrategy(Strategy):
    create_on_update = True
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def default(self, obj: JsonObject) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_subsets(errors, obj.get("subsets") or [])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        return [] if errors and same(obj.get("subsets"), old.get("subsets")) else errors


def _check_subsets(errors: Errors, subsets: list[JsonObject]) -> None:
    for index, subset in enumerate(subsets):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field) or ()):
                if not _is_faultless(address):
                    _check_address(errors, f"{path}.{field}[{position}]", address)
        ports = subset.get("ports") or []
        for position, port in enumerate(ports):
            here = f"{path}.ports[{position}]"
            if port.get("name"):
                dns_label(errors, f"{here}.name", port["name"])
            elif len(ports) > 1:
                errors.append(required(f"{here}.name"))
            port_number(errors, f"{here}.port", port.get("port") or 0)
            choice(errors, f"{here}.protocol", port.get("protocol"), PROTOCOLS)
            if port.get("appProtocol") is not None:
                qualified(errors, f"{here}.appProtocol", port["appProtocol"])


def _is_faultless(address: JsonObject) -> bool:
    """Whether there is nothing to say about an address: a large Service has a thousand, and a path for each of them
    would be made for nothing with every write."""
    hostname, node = address.get("hostname"), address.get("nodeName")
    return (
        is_reachable(address.get("ip") or "")
        and (not hostname or not problems_of(dns1123_label, hostname))
        and (node is None or not problems_of(dns1123_subdomain, node))
    )


def _check_address(errors: Errors, path: str, address: JsonObject) -> None:
    text = address.get("ip") or ""
    ip_address(errors, f"{path}.ip", text)
    if address.get("hostname"):
        dns_label(errors, f"{path}.hostname", address["hostname"])
    if address.get("nodeName") is not None:
        named(errors, f"{path}.nodeName", address["nodeName"], dns1123_subdomain)
    endpoint_address(errors, f"{path}.ip", text)


ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")


class EndpointSliceStrategy(Strategy):
    has_status = False
    rechecks_metadata = 1
    checks_metadata_change = False

    def default(self, obj: JsonObject) -> None:
        for port in obj.get("ports") or ():
            if port.get("name") is None:
                port["name"] = ""
            if port.get("protocol") is None:
                port["protocol"] = "TCP"

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        if any(not same(obj.get(field), old.get(field)) for field in ("addressType", "endpoints", "ports")):
            return True
        return not same(obj["metadata"].get("labels"), old["metadata"].get("labels"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return self._check(obj, None)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self._check(obj, old)
        immutable(errors, "addressType", obj.get("addressType"), old.get("addressType"))
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is None and obj.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"]
        return []

    def _check(self, obj: JsonObject, old: JsonObject | None) -> Errors:
        errors: Errors = []
        kind = obj.get("addressType")
        choice(errors, "addressType", kind, ADDRESS_TYPES)
        _check_slice_ports(errors, obj.get("ports") or [])
        found: Errors = []
        _check_endpoints(found, obj.get("endpoints") or [], kind or "")
        if found and not (old is not None and same(obj.get("endpoints"), old.get("endpoints"))):
            errors += found
        return errors


def _check_slice_ports(errors: Errors, ports: list[JsonObject]) -> None:
    if len(ports) > 20000:
        errors.append(too_many("ports", len(ports), 20000))
        return
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            dns_label(errors, f"{path}.name", name)
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        supported(errors, f"{path}.protocol", port.get("protocol"), PROTOCOLS)
        if port.get("appProtocol") is not None:
            qualified(errors, f"{path}.appProtocol", port["appProtocol"])


def _check_endpoints(errors: Errors, endpoints: list[JsonObject], kind: str) -> None:
    if len(endpoints) > 1000:
        errors.append(too_many("endpoints", len(endpoints), 1000))
        return
    for index, endpoint in enumerate(endpoints):
        path, addresses = f"endpoints[{index}]", endpoint.get("addresses") or []
        if not addresses:
            errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > 100:
            errors.append(too_many(f"{path}.addresses", len(addresses), 100))
        for position, address in enumerate(addresses):
            _check_slice_address(errors, f"{path}.addresses", position, address, kind)
        if endpoint.get("nodeName") is not None:
            named(errors, f"{path}.nodeName", endpoint["nodeName"], dns1123_subdomain)
        if endpoint.get("hostname") is not None:
            dns_label(errors, f"{path}.hostname", endpoint["hostname"])
        if endpoint.get("hints") is not None:
            _check_hints(errors, f"{path}.hints", endpoint["hints"])


def _check_slice_address(errors: Errors, path: str, index: int, address: str, kind: str) -> None:
    here = f"{path}[{index}]"
    if kind == "FQDN":
        _check_domain(errors, here, address)
        return
    if kind not in ("IPv4", "IPv6"):
        return
    before = len(errors)
    ip_address(errors, here, address)
    parsed = parse_address(address)
    if len(errors) > before or parsed is None:
        return
    if kind == "IPv6" and str(parsed) != address:
        errors.append(invalid(here, address, f'must be in canonical form ("{parsed}")'))
        return
    if (kind == "IPv4") != isinstance(parsed, ipaddress.IPv4Address):
        errors.append(invalid(path, address, f"must be an {kind} address"))
    endpoint_address(errors, here, address)


def _check_domain(errors: Errors, path: str, name: str) -> None:
    if not name:
        errors.append(required(path))
        return
    plain = name.removesuffix(".")
    if problems := dns1123_subdomain(plain):
        errors.append(invalid(path, plain, ",".join(problems)))
    elif "." not in plain:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, plain, detail))
    elif long := next((label for label in plain.split(".") if dns1123_label(label)), ""):
        errors.append(invalid(path, long, ",".join(dns1123_label(long))))


def _check_hints(errors: Errors, path: str, hints: JsonObject) -> None:
    for field, rule in (("forZones", label_value), ("forNodes", dns1123_subdomain)):
        entries = hints.get(field) or []
        if len(entries) > 8:
            errors.append(too_many(f"{path}.{field}", len(entries), 8))
            return
        names: set[str] = set()
        for index, entry in enumerate(entries):
            where, name = f"{path}.{field}[{index}].name", entry.get("name") or ""
            if name in names:
                errors.append(duplicate(where, name))
            names.add(name)
            named(errors, where, name, rule)
