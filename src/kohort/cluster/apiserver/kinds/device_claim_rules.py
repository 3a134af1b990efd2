"""Which claims of devices, templates of claims and classes of devices are accepted.

| object   | what is checked                                                                                          |
|----------|----------------------------------------------------------------------------------------------------------|
| claim    | names of requests and who refers to them, classes, expressions, counts, tolerations, configuration       |
| template | the same of the claim inside, and that its metadata has labels and annotations only                      |
| class    | expressions, configuration, the name as an extended resource                                             |
| status   | consumers, the allocation (never changed, only taken back) and what drivers report about its devices     |

Expressions are compiled by `device_expressions`.
"""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.device_names import (
    check_fully_qualified,
    check_label_names,
    check_pool_name,
    check_raw,
    check_share,
    check_unique,
    fits,
)
from kohort.cluster.apiserver.kinds.pod.scheduling import check_node_selector
from kohort.cluster.apiserver.kinds.volume_sources import check_driver_name
from kohort.cluster.apiserver.schema.field_checks import (
    NOT_POSITIVE,
    Errors,
    conditions,
    dns_label,
    dns_subdomain,
    immutable,
    named,
    parse_address,
    qualified,
)
from kohort.cluster.apiserver.schema.metadata_rules import labels_and_annotations_only
from kohort.objects.field_errors import (
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.names import label_value
from kohort.rules.extended_resources import is_extended

_REQUESTS: Final = 32
_SUBREQUESTS: Final = 8
_LIST: Final = 32
_CONSUMERS: Final = 256
_MODES: Final = ("All", "ExactCount")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Names = dict[str, frozenset[str]]
"""Requests of a claim, with their alternatives."""


# --- claims


def claim_errors(spec: JsonObject, path: str) -> Errors:
    errors: Errors = []
    devices, here = spec.get("devices") or {}, f"{path}.devices"
    known = _request_names(devices)
    requests = devices.get("requests") or []
    if fits(errors, f"{here}.requests", requests, _REQUESTS):
        for index, request in enumerate(requests):
            _check_request(errors, f"{here}.requests[{index}]", request)
        check_unique(errors, f"{here}.requests", [one.get("name") or "" for one in requests])
    constraints = devices.get("constraints") or []
    if fits(errors, f"{here}.constraints", constraints, _LIST):
        for index, constraint in enumerate(constraints):
            _check_constraint(errors, f"{here}.constraints[{index}]", constraint, known)
    configs = devices.get("config") or []
    if fits(errors, f"{here}.config", configs, _LIST):
        for index, config in enumerate(configs):
            _check_references(errors, f"{here}.config[{index}].requests", config.get("requests") or [], known)
            _check_configuration(errors, f"{here}.config[{index}]", config)
    return errors


def template_errors(spec: JsonObject) -> Errors:
    return labels_and_annotations_only(spec.get("metadata") or {}, "spec.metadata") + claim_errors(
        spec.get("spec") or {}, "spec.spec"
    )


def class_errors(spec: JsonObject) -> Errors:
    errors: Errors = []
    _check_selectors(errors, "spec.selectors", spec.get("selectors") or [])
    configs = spec.get("config") or []
    if fits(errors, "spec.config", configs, _LIST):
        for index, config in enumerate(configs):
            _check_configuration(errors, f"spec.config[{index}]", config)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


def admin_access(requests: Sequence[JsonObject]) -> int | None:
    """The first request for devices that others may be using."""
    for index, request in enumerate(requests):
        if (request.get("exactly") or {}).get("adminAccess"):
            return index
    return None


def _request_names(devices: JsonObject) -> Names:
    return {
        request.get("name") or "": frozenset(one.get("name") or "" for one in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def _check_request(errors: Errors, path: str, request: JsonObject) -> None:
    dns_label(errors, f"{path}.name", request.get("name") or "")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        errors.append(required(path, one_of))
    elif exactly is not None and alternatives:
        errors.append(invalid(path, None, f"{one_of}, but multiple fields are set"))
    elif exactly is not None:
        _check_wanted(errors, f"{path}.exactly", exactly)
    elif fits(errors, f"{path}.firstAvailable", alternatives, _SUBREQUESTS):
        for index, alternative in enumerate(alternatives):
            dns_label(errors, f"{path}.firstAvailable[{index}].name", alternative.get("name") or "")
            _check_wanted(errors, f"{path}.firstAvailable[{index}]", alternative)
        check_unique(errors, f"{path}.firstAvailable", [one.get("name") or "" for one in alternatives])


def _check_wanted(errors: Errors, path: str, wanted: JsonObject) -> None:
    if not wanted.get("deviceClassName"):
        errors.append(required(f"{path}.deviceClassName"))
    else:
        dns_subdomain(errors, f"{path}.deviceClassName", wanted["deviceClassName"])
    _check_selectors(errors, f"{path}.selectors", wanted.get("selectors") or [])
    mode, count = wanted.get("allocationMode") or "", wanted.get("count") or 0
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, NOT_POSITIVE))
    for index, toleration in enumerate(wanted.get("tolerations") or ()):
        _check_toleration(errors, f"{path}.tolerations[{index}]", toleration)


def _check_toleration(errors: Errors, path: str, toleration: JsonObject) -> None:
    if toleration.get("key"):
        qualified(errors, f"{path}.key", toleration["key"])
    operator, value, effect = (toleration.get(field) or "" for field in ("operator", "value", "effect"))
    if operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        named(errors, f"{path}.value", value, label_value)
    elif not operator:
        errors.append(required(f"{path}.operator"))
    else:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))


def check_taint(errors: Errors, path: str, taint: JsonObject) -> None:
    qualified(errors, f"{path}.key", taint.get("key") or "")
    if taint.get("value"):
        named(errors, f"{path}.value", taint["value"], label_value)
    effect = taint.get("effect")
    if not effect:
        errors.append(required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))


def _check_constraint(errors: Errors, path: str, constraint: JsonObject, known: Names) -> None:
    _check_references(errors, f"{path}.requests", constraint.get("requests") or [], known)
    if constraint.get("matchAttribute") is not None:
        check_fully_qualified(errors, f"{path}.matchAttribute", constraint["matchAttribute"])
    elif constraint.get("distinctAttribute") is not None:
        check_fully_qualified(errors, f"{path}.distinctAttribute", constraint["distinctAttribute"])
    else:
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        errors.append(required(path, detail))


def _check_references(errors: Errors, path: str, found: Sequence[str], known: Names) -> None:
    if fits(errors, path, found, _REQUESTS):
        for index, name in enumerate(found):
            _check_reference(errors, f"{path}[{index}]", name, known)
        check_unique(errors, path, found)


def _check_reference(errors: Errors, path: str, name: str, known: Names) -> None:
    segments = name.split("/")
    if len(segments) > 2:
        errors.append(invalid(path, name, _UNKNOWN_REQUEST))
        return
    for segment in segments:
        dns_label(errors, path, segment)
    alternatives = known.get(segments[0])
    if alternatives is None or (len(segments) == 2 and segments[1] not in alternatives):
        errors.append(invalid(path, name, _UNKNOWN_REQUEST))


def _check_configuration(errors: Errors, path: str, config: JsonObject) -> None:
    opaque = config.get("opaque")
    if opaque is None:
        errors.append(required(f"{path}.opaque"))
        return
    check_driver_name(errors, f"{path}.opaque.driver", opaque.get("driver"))
    check_raw(errors, f"{path}.opaque.parameters", opaque.get("parameters"))


# --- expressions


def _check_selectors(errors: Errors, path: str, selectors: Sequence[JsonObject]) -> None:
    if not selectors or not fits(errors, path, selectors, _LIST):
        return
    # The language of expressions takes a while to load, and most clusters have no devices.
    from kohort.cluster.apiserver.kinds import device_expressions

    for index, selector in enumerate(selectors):
        here = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            errors.append(required(here))
        else:
            errors += device_expressions.expression_errors(
                f"{here}.expression", selector["cel"].get("expression") or ""
            )


# --- status


def status_errors(obj: JsonObject, old: JsonObject) -> Errors:
    errors: Errors = []
    status, before = obj.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    _check_consumers(errors, status, before, bool(obj["metadata"].get("deletionTimestamp")))
    allocated = {device_key(one) for one in ((allocation or {}).get("devices") or {}).get("results") or ()}
    devices = status.get("devices") or []
    for index, device in enumerate(devices):
        _check_device_status(errors, f"status.devices[{index}]", device, allocated)
    check_unique(errors, "status.devices", [list(device_key(one)) for one in devices])
    if allocation is not None and before.get("allocation") is not None:
        immutable(errors, "status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        _check_allocation(errors, allocation, _request_names((obj.get("spec") or {}).get("devices") or {}))
    return errors


def device_key(device: JsonObject) -> tuple[str, ...]:
    """What identifies a device, and a share of it."""
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _check_consumers(errors: Errors, status: JsonObject, before: JsonObject, deleted: bool) -> None:
    path, consumers = "status.reservedFor", status.get("reservedFor") or []
    if fits(errors, path, consumers, _CONSUMERS):
        for index, consumer in enumerate(consumers):
            for field in ("resource", "name", "uid"):
                if not consumer.get(field):
                    errors.append(required(f"{path}[{index}].{field}"))
        check_unique(errors, path, [one.get("uid") or "" for one in consumers])
    if consumers and status.get("allocation") is None:
        errors.append(forbidden(path, "may not be specified when `allocated` is not set"))
    elif deleted and any(one not in (before.get("reservedFor") or []) for one in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden(path, detail))


def _check_allocation(errors: Errors, allocation: JsonObject, known: Names) -> None:
    path, devices = "status.allocation.devices", allocation.get("devices") or {}
    results = devices.get("results") or []
    if fits(errors, f"{path}.results", results, _REQUESTS):
        for index, result in enumerate(results):
            _check_result(errors, f"{path}.results[{index}]", result, known)
    configs = devices.get("config") or []
    if fits(errors, f"{path}.config", configs, 2 * _LIST):
        for index, config in enumerate(configs):
            here = f"{path}.config[{index}]"
            source = config.get("source")
            if not source:
                errors.append(required(f"{here}.source"))
            elif source not in ("FromClaim", "FromClass"):
                errors.append(not_supported(f"{here}.source", source, ("FromClaim", "FromClass")))
            _check_references(errors, f"{here}.requests", config.get("requests") or [], known)
            _check_configuration(errors, here, config)
    if allocation.get("nodeSelector") is not None:
        check_node_selector(errors, "status.allocation.nodeSelector", allocation["nodeSelector"])


def _check_result(errors: Errors, path: str, result: JsonObject, known: Names) -> None:
    _check_reference(errors, f"{path}.request", result.get("request") or "", known)
    check_driver_name(errors, f"{path}.driver", result.get("driver"))
    check_pool_name(errors, f"{path}.pool", result.get("pool"))
    dns_label(errors, f"{path}.device", result.get("device") or "")
    check_label_names(errors, path, result)
    for index, toleration in enumerate(result.get("tolerations") or ()):
        _check_toleration(errors, f"{path}.tolerations[{index}]", toleration)
    if result.get("shareID") is not None:
        check_share(errors, f"{path}.shareID", result["shareID"])


def _check_device_status(errors: Errors, path: str, device: JsonObject, allocated: set[tuple[str, ...]]) -> None:
    check_driver_name(errors, f"{path}.driver", device.get("driver"))
    check_pool_name(errors, f"{path}.pool", device.get("pool"))
    dns_label(errors, f"{path}.device", device.get("device") or "")
    if device.get("shareID") is not None:
        check_share(errors, f"{path}.shareID", device["shareID"])
    key = device_key(device)
    if key not in allocated:
        errors.append(invalid(path, "/".join(filter(None, key)), "must be an allocated device in the claim"))
    found = device.get("conditions") or []
    if len(found) > 8:
        errors.append(too_many(f"{path}.conditions", len(found), 8))
    conditions(errors, f"{path}.conditions", found)
    if device.get("data") is not None:
        check_raw(errors, f"{path}.data", device["data"])
    _check_network(errors, f"{path}.networkData", device.get("networkData") or {})


def _check_network(errors: Errors, path: str, network: JsonObject) -> None:
    for field, limit in (("interfaceName", 256), ("hardwareAddress", 128)):
        if len((network.get(field) or "").encode()) > limit:
            errors.append(too_long(f"{path}.{field}", limit))
    addresses = network.get("ips") or []
    if fits(errors, f"{path}.ips", addresses, 16):
        for index, text in enumerate(addresses):
            problem = _interface_problem(text)
            if problem:
                errors.append(invalid(f"{path}.ips[{index}]", text, problem))
        check_unique(errors, f"{path}.ips", addresses)


def _interface_problem(text: str) -> str:
    head, _, length = text.partition("/")
    address = parse_address(head)
    if address is None or not length.isdecimal() or int(length) > address.max_prefixlen:
        return "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    canonical = f"{address}/{int(length)}"
    return "" if text == canonical else f'must be in canonical form ("{canonical}")'
