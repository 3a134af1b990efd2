"""Validation of Services."""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import (
    PROTOCOLS,
    Errors,
    choice,
    cidr,
    dns_label,
    dns_subdomain,
    dual_stack,
    endpoint_address,
    ip_address,
    labels,
    parse_address,
    port_number,
    port_or_name,
    qualified,
    repeats,
)
from kohort.objects import well_known_names
from kohort.objects.field_errors import duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_DAY: Final = 86400


def is_headless(service: JsonObject) -> bool:
    return bool((service.get("spec") or {}).get("clusterIPs") == ["None"])


def is_external(spec: JsonObject) -> bool:
    """Reachable from outside the cluster."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: JsonObject) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def check_service(errors: Errors, service: JsonObject, old: JsonObject | None) -> None:
    spec, headless = service.get("spec") or {}, is_headless(service)
    before = (old.get("spec") or {}) if old else {}
    ports, kind = spec.get("ports") or [], spec.get("type")
    _check_topology(errors, service)
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        _check_external_name(errors, spec)
    _check_ports(errors, ports)
    labels(errors, "spec.selector", spec.get("selector"))
    _check_affinity(errors, spec)
    check_addresses(errors, service, before.get("clusterIPs") or ())
    _check_external_addresses(errors, spec, before.get("externalIPs") or ())
    choice(errors, "spec.type", kind, TYPES)
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                errors.append(forbidden(f"spec.ports[{index}].nodePort", detail))
    _check_repeated_ports(errors, ports)
    _check_source_ranges(errors, service, old)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        detail = "may only be used when `type` is 'LoadBalancer'"
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", detail))
    _check_class(errors, spec)
    _check_traffic(errors, spec)


def _check_topology(errors: Errors, service: JsonObject) -> None:
    annotations = service["metadata"].get("annotations") or {}
    mode = annotations.get(well_known_names.TOPOLOGY_MODE)
    hints = annotations.get(well_known_names.TOPOLOGY_HINTS)
    if mode is not None and hints is not None and mode != hints:
        detail = "must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified"
        errors.append(invalid("metadata.annotations[service.kubernetes.io/topology-mode]", mode, detail))


def _check_external_name(errors: Errors, spec: JsonObject) -> None:
    for field in ("clusterIPs", "ipFamilies"):
        if spec.get(field):
            errors.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    if spec.get("ipFamilyPolicy") is not None:
        errors.append(forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        dns_subdomain(errors, "spec.externalName", name)
    else:
        errors.append(required("spec.externalName"))


def _check_ports(errors: Errors, ports: list[JsonObject]) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name")
        if name:
            dns_label(errors, f"{path}.name", name)
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        port_number(errors, f"{path}.port", port.get("port") or 0)
        choice(errors, f"{path}.protocol", port.get("protocol"), PROTOCOLS)
        port_or_name(errors, f"{path}.targetPort", port.get("targetPort"))
        if port.get("appProtocol") is not None:
            qualified(errors, f"{path}.appProtocol", port["appProtocol"])


def _check_repeated_ports(errors: Errors, ports: list[JsonObject]) -> None:
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if port.get("nodePort"):
            key = (port.get("protocol") or "", port["nodePort"])
            if key in node_ports:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
            node_ports.add(key)
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in numbers:
            shown = {"Name": "", "Protocol": key[0], "AppProtocol": None, "Port": key[1]}
            errors.append(duplicate(f"spec.ports[{index}]", {**shown, "TargetPort": 0, "NodePort": 0}))
        numbers.add(key)


def _check_affinity(errors: Errors, spec: JsonObject) -> None:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    choice(errors, "spec.sessionAffinity", affinity, _AFFINITIES)
    path, when = "spec.sessionAffinityConfig", "when session affinity type is ClientIP"
    if affinity == "None" and config is not None:
        errors.append(forbidden(path, "must not be set when session affinity is None"))
    if affinity != "ClientIP":
        return
    if config is None:
        errors.append(required(path, when))
    elif config.get("clientIP") is None:
        errors.append(required(f"{path}.clientIP", when))
    else:
        seconds = config["clientIP"].get("timeoutSeconds")
        if seconds is None:
            errors.append(required(f"{path}.clientIP.timeoutSeconds", when))
        elif not 0 < seconds <= _DAY:
            detail = f"must be greater than 0 and less than {_DAY}"
            errors.append(invalid(f"{path}.clientIP.timeoutSeconds", seconds, detail))


def check_addresses(errors: Errors, service: JsonObject, accepted: object) -> None:
    """Cluster addresses and address families must agree."""
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return
    single, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    path = "spec.clusterIPs"
    if single:
        if not listed:
            errors.append(required(path))
        elif listed[0] != single:
            errors.append(invalid(path, listed, "first value must match `clusterIP`"))
    elif listed:
        errors.append(invalid(path, listed, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    again = repeats(families)
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if again[index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    before = len(errors)
    for index, address in enumerate(listed):
        if index == 0 and address == "None":
            if len(listed) > 1:
                errors.append(invalid(path, listed, "'None' must be the first and only value"))
            continue
        known = accepted if isinstance(accepted, list | tuple) else ()
        ip_address(errors, f"{path}[{index}]", address, known)
    broken = len(errors) > before
    if len(listed) > 2:
        errors.append(invalid(path, listed, "may only hold up to 2 values"))
    if not broken:
        _check_families(errors, listed, families, is_headless(service))


def _check_families(errors: Errors, listed: list[str], families: list[str], headless: bool) -> None:
    if len(listed) > 1 and not dual_stack(listed):
        errors.append(invalid("spec.clusterIPs", listed, "may specify no more than one IP for each IP family"))
    if headless:
        return
    for index, (address, family) in enumerate(zip(listed, families, strict=False)):
        parsed = parse_address(address)
        if parsed is not None and family in _FAMILIES and f"IPv{parsed.version}" != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, detail))


def _check_external_addresses(errors: Errors, spec: JsonObject, accepted: Sequence[str]) -> None:
    for index, address in enumerate(spec.get("externalIPs") or ()):
        before = len(errors)
        ip_address(errors, f"spec.externalIPs[{index}]", address, accepted)
        if len(errors) == before:
            endpoint_address(errors, f"spec.externalIPs[{index}]", address)


def _check_source_ranges(errors: Errors, service: JsonObject, old: JsonObject | None) -> None:
    spec, before = service.get("spec") or {}, (old or {}).get("spec") or {}
    detail = "may only be used when `type` is 'LoadBalancer'"
    ranges = spec.get("loadBalancerSourceRanges")
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        if spec.get("type") != "LoadBalancer":
            errors.append(forbidden(path, detail))
        accepted = [text.strip() for text in before.get("loadBalancerSourceRanges") or ()]
        for index, text in enumerate(ranges):
            cidr(errors, f"{path}[{index}]", text.strip(), accepted)
        return
    annotation = (service["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if annotation is None:
        return
    path = f"metadata.annotations[{_SOURCE_RANGES}]"
    if spec.get("type") != "LoadBalancer":
        errors.append(forbidden(path, detail))
    stored = ((old or {}).get("metadata") or {}).get("annotations") or {}
    if annotation.strip() and stored.get(_SOURCE_RANGES) != annotation:
        for text in annotation.strip().split(","):
            cidr(errors, path, text.strip())


def _check_class(errors: Errors, spec: JsonObject) -> None:
    name = spec.get("loadBalancerClass")
    if name is None:
        return
    if spec.get("type") == "LoadBalancer":
        qualified(errors, "spec.loadBalancerClass", name)
    else:
        detail = "may only be used when `type` is 'LoadBalancer'"
        errors.append(forbidden("spec.loadBalancerClass", detail))


def _check_traffic(errors: Errors, spec: JsonObject) -> None:
    policy = spec.get("externalTrafficPolicy")
    if is_external(spec):
        choice(errors, "spec.externalTrafficPolicy", policy, _TRAFFIC_POLICIES)
    elif policy:
        detail = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", policy, detail))
    port = spec.get("healthCheckNodePort")
    if needs_health_check(spec):
        if not port:
            errors.append(required("spec.healthCheckNodePort"))
        else:
            port_number(errors, "spec.healthCheckNodePort", port)
    elif port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", port, detail))
    internal = spec.get("internalTrafficPolicy")
    if internal is None:
        if spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer"):
            errors.append(required("spec.internalTrafficPolicy"))
    elif internal not in _TRAFFIC_POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal, _TRAFFIC_POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))


def check_service_changes(errors: Errors, service: JsonObject, old: JsonObject) -> None:
    """What may not change between two versions."""
    spec, before = service["spec"], old["spec"]
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        headless, was = is_headless(service), is_headless(old)
        if not (headless and was):
            _check_kept(errors, "clusterIPs", spec, before)
        if not headless and not was:
            _check_kept(errors, "ipFamilies", spec, before)
    name = spec.get("loadBalancerClass")
    if spec.get("type") == before.get("type") == "LoadBalancer" and name != before.get("loadBalancerClass"):
        errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    _check_class(errors, spec)
    checked = needs_health_check(spec) and needs_health_check(before)
    if checked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))


def _check_kept(errors: Errors, field: str, spec: JsonObject, before: JsonObject) -> None:
    """A second address or family may come and go, the first one stays."""
    new, old = spec.get(field) or [], before.get(field) or []
    what = "clusterIP" if field == "clusterIPs" else "ipFamily"
    if len(new) == len(old):
        for index, (value, was) in enumerate(zip(new, old, strict=True)):
            if value != was:
                where = index if field == "clusterIPs" else 0
                errors.append(invalid(f"spec.{field}[{where}]", new, "may not change once set"))
        return
    if len(old) > len(new) and not spec.get("clusterIPs"):
        errors.append(invalid(f"spec.{field}[0]", new, f"primary {what} can not be unset"))
    if new and old and new[0] != old[0]:
        errors.append(invalid(f"spec.{field}[0]", new, "may not change once set"))
    if len(old) > len(new) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))


_INGRESS_MODES: Final = ("Proxy", "VIP")


def check_load_balancer_status(errors: Errors, service: JsonObject, old: JsonObject) -> None:
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    path = "status.loadBalancer.ingress"
    if ingress and (service.get("spec") or {}).get("type") != "LoadBalancer":
        errors.append(forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
        return
    stored = ((old.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    check_ingress_points(errors, path, ingress, [entry.get("ip") for entry in stored])


def check_ingress_points(errors: Errors, path: str, points: list[JsonObject], accepted: list[str]) -> None:
    for index, point in enumerate(points):
        here, address, mode = f"{path}[{index}]", point.get("ip"), point.get("ipMode")
        if address:
            ip_address(errors, f"{here}.ip", address, accepted)
        if mode is None:
            if address:
                errors.append(required(f"{here}.ipMode", "must be specified when `ip` is set"))
        elif not address:
            errors.append(forbidden(f"{here}.ipMode", "may not be specified when `ip` is not set"))
        elif mode not in _INGRESS_MODES:
            errors.append(not_supported(f"{here}.ipMode", mode, _INGRESS_MODES))
        name = point.get("hostname")
        if name:
            dns_subdomain(errors, f"{here}.hostname", name)
            if parse_address(name) is not None:
                errors.append(invalid(f"{here}.hostname", name, "must be a DNS name, not an IP address"))
