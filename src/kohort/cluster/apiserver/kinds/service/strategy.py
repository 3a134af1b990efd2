"""How Services behave on writes.

Addresses and ports are handed out before the rules are asked, because the rules judge the complete service; what was
handed out goes back when the write fails (`after_delete`, or the table in `allocation` by itself after a while).
"""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.service.allocation import (
    Allocator,
    AlreadyAllocated,
    NothingLeft,
    OutOfRange,
    Owner,
    node_ports_of,
    owner_of,
)
from kohort.cluster.apiserver.kinds.service.rules import (
    check_addresses,
    check_load_balancer_status,
    check_service,
    check_service_changes,
    is_external,
    needs_health_check,
)
from kohort.cluster.apiserver.kinds.service.warnings import service_warnings
from kohort.cluster.apiserver.schema.field_checks import Errors, parse_address
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import errors as api_errors
from kohort.objects.field_errors import FieldError, invalid
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label

AFFINITY_SECONDS: Final = 10800
FAMILY: Final = "IPv4"


_TAKEN: Final = "provided port is already allocated"


class ServiceStrategy(Strategy):
    create_on_update = True
    has_generation = False
    deletion_returns_object = True

    def __init__(self, allocator: Allocator | None = None) -> None:
        self.allocator = allocator or Allocator()

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return dns1123_label(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        default_service(obj)

    def settle(self, obj: JsonObject) -> None:
        if obj["spec"].get("type") == "ExternalName":
            obj["spec"].pop("internalTrafficPolicy", None)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        spec = obj["spec"]
        obj["status"] = {"loadBalancer": {}}
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        try:
            self._settle_families(obj, None)
            self._allocate_addresses(context, obj)
            self._allocate_ports(context, obj, [])
        except api_errors.ApiError:
            self.allocator.release(obj)
            raise

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        _carry_over(obj["spec"], old["spec"])
        _settle_lists(obj["spec"], old["spec"])
        self._settle_families(obj, old)
        if old["spec"].get("type") == "ExternalName":
            self._allocate_addresses(context, obj)
        self._allocate_ports(context, obj, list(node_ports_of(old)))
        _drop_unused(obj, old)
        if not context.dry_run:
            self.allocator.release_changed(obj, old)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_service(errors, obj, None)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_service_changes(errors, obj, old)
        check_service(errors, obj, old)
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_load_balancer_status(errors, obj, old)
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return service_warnings(obj)

    def after_delete(self, context: WriteContext, obj: JsonObject) -> None:
        self.allocator.release(obj)

    def _settle_families(self, service: JsonObject, old: JsonObject | None) -> None:
        """Fill in which address families the service uses, in a cluster that has one."""
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return
        selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
        if spec.get("ipFamilyPolicy") is None:
            inherited = ((old or {}).get("spec") or {}).get("ipFamilyPolicy")
            spec["ipFamilyPolicy"] = inherited or ("RequireDualStack" if selectorless else "SingleStack")
        errors: Errors = []
        check_addresses(errors, service, ((old or {}).get("spec") or {}).get("clusterIPs"))
        self._refuse(service, errors)
        families = list(spec.get("ipFamilies") or ())
        self._check_family_policy(errors, spec, families)
        families += self._families_of_addresses(errors, spec, len(families))
        self._refuse(service, errors)
        if selectorless:
            families = families or [FAMILY]
            if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
                families.append("IPv6" if families[0] == FAMILY else FAMILY)
            spec["ipFamilies"] = families
            return
        if spec["ipFamilyPolicy"] == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            errors.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail))
        for index, family in enumerate(families):
            if family != FAMILY:
                errors.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
        self._refuse(service, errors)
        spec["ipFamilies"] = families or [FAMILY]

    def _check_family_policy(self, errors: Errors, spec: JsonObject, families: list[str]) -> None:
        if spec["ipFamilyPolicy"] != "SingleStack":
            return
        for count, what in ((len(spec.get("clusterIPs") or ()), "cluster IPs"), (len(families), "IP families")):
            if count == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], detail))

    def _families_of_addresses(self, errors: Errors, spec: JsonObject, known: int) -> list[str]:
        found: list[str] = []
        addresses = spec.get("clusterIPs") or []
        for index, text in enumerate(addresses):
            if text == "None":
                break
            address = parse_address(text)
            family = f"IPv{address.version}" if address is not None else FAMILY
            if index < known:
                continue
            if family != FAMILY:
                detail = f"{family} is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{index}]", addresses, detail))
            else:
                found.append(family)
        return found

    def _allocate_addresses(self, context: WriteContext, service: JsonObject) -> None:
        spec = service["spec"]
        listed = list(spec.get("clusterIPs") or ())
        if spec.get("type") == "ExternalName" or listed[:1] == ["None"]:
            return
        owner = owner_of(service)
        if not listed:
            try:
                listed = [self.allocator.pick_address(context.reader, owner)]
            except NothingLeft:
                name = service["metadata"].get("name") or ""
                raise api_errors.internal(
                    f'failed to allocate a serviceIP for Service "{name}": range is full'
                ) from None
        else:
            self._take_address(context, service, owner, listed)
        spec["clusterIPs"], spec["clusterIP"] = listed, listed[0]

    def _take_address(self, context: WriteContext, service: JsonObject, owner: Owner, listed: list[str]) -> None:
        """A dry run does not look whether the address is free."""
        text = listed[0]
        try:
            self.allocator.take_address(context.reader, owner, text)
            return
        except AlreadyAllocated:
            if context.dry_run:
                return
            problem = "provided IP is already allocated"
        except OutOfRange:
            problem = "the provided network does not match the current range"
            if context.dry_run:
                ranges = f"The range of valid IPs is {self.allocator.network}"
                problem = f"the provided IP ({text}) is not in the valid range. {ranges}"
        detail = f"failed to allocate IP {text}: {problem}"
        self._refuse(service, [invalid("spec.clusterIPs", listed, detail)])

    def _allocate_ports(self, context: WriteContext, service: JsonObject, held: Sequence[int]) -> None:
        """Node ports for what needs them. Ports of the same number share one, whatever the protocol."""
        spec, owner = service["spec"], owner_of(service)
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            automatic = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
            by_number: dict[int, int] = {}
            kept = set(held)
            for index, port in enumerate(spec.get("ports") or ()):
                number, wanted = port.get("port") or 0, port.get("nodePort") or 0
                if not wanted and not automatic:
                    continue
                wanted = wanted or by_number.get(number) or _asked_elsewhere(spec["ports"], number)
                if wanted:
                    path = f"spec.ports[{index}].nodePort"
                    if wanted not in kept and wanted not in by_number.values():
                        self._take_port(context, service, owner, path, wanted)
                    elif not kept and by_number.get(number) != wanted:  # another port of this service has it
                        self._refuse(service, [invalid(path, wanted, _TAKEN)])
                else:
                    wanted = self._pick_port(context.reader, owner)
                port["nodePort"] = by_number[number] = wanted
        if needs_health_check(spec):
            wanted = spec.get("healthCheckNodePort")
            if not wanted:
                spec["healthCheckNodePort"] = self._pick_port(context.reader, owner)
            elif wanted not in held:
                self._take_port(context, service, owner, "spec.healthCheckNodePort", wanted)

    def _pick_port(self, reader: Reader, owner: Owner) -> int:
        try:
            return self.allocator.ports.pick(reader, owner)
        except NothingLeft:
            raise api_errors.internal("failed to allocate a nodePort: range is full") from None

    def _take_port(self, context: WriteContext, service: JsonObject, owner: Owner, path: str, port: int) -> None:
        """A dry run does not look whether the port is in the range."""
        universe = self.allocator.ports.universe
        try:
            self.allocator.ports.take(context.reader, owner, port)
        except AlreadyAllocated:
            detail = _TAKEN
        except OutOfRange:
            if context.dry_run:
                return
            valid = f"The range of valid ports is {universe.start}-{universe.stop - 1}"
            detail = f"provided port is not in the valid range. {valid}"
        else:
            return
        self._refuse(service, [invalid(path, port, detail)])

    def _refuse(self, service: JsonObject, errors: list[FieldError]) -> None:
        if errors:
            raise api_errors.invalid("Service", service["metadata"].get("name") or "", errors)


def _asked_elsewhere(ports: list[JsonObject], number: int) -> int:
    """The node port that some port of this number asks for."""
    return next((port["nodePort"] for port in ports if port.get("port") == number and port.get("nodePort")), 0)


def default_service(service: JsonObject) -> None:
    spec = service.get("spec")
    if spec is None:
        spec = service["spec"] = {}
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if is_external(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        for point in ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if point.get("ip") and point.get("ipMode") is None:
                point["ipMode"] = "VIP"


def _carry_over(spec: JsonObject, before: JsonObject) -> None:
    """A client that leaves out what the server handed out means to keep it."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = list(before["clusterIPs"])
    with_ports = ("NodePort", "LoadBalancer")
    if spec.get("type") in with_ports and before.get("type") in with_ports:
        by_name = {port.get("name"): port.get("nodePort") or 0 for port in before.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()} & set(by_name.values())
        for port in spec.get("ports") or ():
            kept = by_name.get(port.get("name")) or 0
            if not port.get("nodePort") and kept and kept not in used:
                port["nodePort"] = kept
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort") or 0


def _settle_lists(spec: JsonObject, before: JsonObject) -> None:
    """A client that knows only the single address changes the list with it."""
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        else:
            spec.pop("clusterIPs", None)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _drop_unused(service: JsonObject, old: JsonObject) -> None:
    """Fields that the new type has no use for vanish, unless the client changed them."""
    spec, before = service["spec"], old["spec"]
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        same_addresses = all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs"))
        for field in ("clusterIP", "clusterIPs") if same_addresses else ():
            spec.pop(field, None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    with_ports = ("NodePort", "LoadBalancer")
    if before.get("type") in with_ports and spec.get("type") not in with_ports:
        known = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(not port.get("nodePort") or port["nodePort"] in known for port in spec.get("ports") or ()):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    unused = (
        ("healthCheckNodePort", needs_health_check(before) and not needs_health_check(spec)),
        ("allocateLoadBalancerNodePorts", _stops_balancing(spec, before)),
        ("loadBalancerClass", _stops_balancing(spec, before)),
        ("externalTrafficPolicy", is_external(before) and not is_external(spec)),
        ("internalTrafficPolicy", before.get("type") != "ExternalName" and spec.get("type") == "ExternalName"),
    )
    for field, pointless in unused:
        if pointless and spec.get(field) == before.get(field):
            spec.pop(field, None)
    if spec.get("type") != "LoadBalancer":
        service["status"] = {**(service.get("status") or {}), "loadBalancer": {}}


def _stops_balancing(spec: JsonObject, before: JsonObject) -> bool:
    return before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer"
