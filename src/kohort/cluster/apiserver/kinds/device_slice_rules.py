"""Which ResourceSlices are accepted: what a driver publishes about devices of one node, of some, or of all."""

import re
from collections.abc import Mapping
from typing import Final

from kohort.cluster.apiserver.kinds.device_claim_rules import check_taint
from kohort.cluster.apiserver.kinds.device_names import (
    check_attribute_name,
    check_label_names,
    check_pool_name,
    check_unique,
    fits,
)
from kohort.cluster.apiserver.kinds.pod.scheduling import check_node_selector
from kohort.cluster.apiserver.kinds.volume_sources import check_driver_name
from kohort.cluster.apiserver.schema.field_checks import (
    NOT_POSITIVE,
    Errors,
    dns_label,
    dns_subdomain,
    immutable,
    quantity,
    same,
)
from kohort.objects.field_errors import forbidden, invalid, required, too_long, too_many
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.quantity import Quantity

_DEVICES: Final = 128
_ADVANCED_DEVICES: Final = 64
"""Devices of a slice, if any has taints or shares counters."""
_COUNTER_SETS: Final = 8
_COUNTERS: Final = 32
_CONSUMPTIONS: Final = 2
_ATTRIBUTES: Final = 32
_TAINTS: Final = 16
_VALUE: Final = 64
_OPTIONS: Final = 10
_VALUES: Final = ("bool", "int", "string", "version")
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRERELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_is_semver = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
).fullmatch
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
_PLACES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_PLACES: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)


def slice_errors(spec: JsonObject, before: JsonObject | None) -> Errors:
    errors: Errors = []
    check_driver_name(errors, "spec.driver", spec.get("driver"))
    _check_pool(errors, spec.get("pool") or {})
    if before is not None:
        old_pool = (before.get("pool") or {}).get("name")
        immutable(errors, "spec.pool.name", (spec.get("pool") or {}).get("name"), old_pool)
        immutable(errors, "spec.driver", spec.get("driver"), before.get("driver"))
        immutable(errors, "spec.nodeName", spec.get("nodeName"), before.get("nodeName"))
    _check_places(errors, spec)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices, counters = devices or [], counters or []
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    if fits(errors, "spec.devices", devices, _ADVANCED_DEVICES if advanced else _DEVICES):
        old_devices = {one.get("name"): one for one in (before or {}).get("devices") or ()}
        for index, device in enumerate(devices):
            old = old_devices.get(device.get("name"))
            _check_device(errors, f"spec.devices[{index}]", device, old, bool(spec.get("perDeviceNodeSelection")))
        check_unique(errors, "spec.devices", [one.get("name") or "" for one in devices])
    if fits(errors, "spec.sharedCounters", counters, _COUNTER_SETS):
        for index, one in enumerate(counters):
            _check_counters(errors, f"spec.sharedCounters[{index}]", "name", one)
        check_unique(errors, "spec.sharedCounters", [one.get("name") or "" for one in counters])
    return errors


def _check_pool(errors: Errors, pool: JsonObject) -> None:
    check_pool_name(errors, "spec.pool.name", pool.get("name"))
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(invalid("spec.pool.resourceSliceCount", count, NOT_POSITIVE))
    if generation < 0:
        errors.append(invalid("spec.pool.generation", generation, "must be greater than or equal to zero"))


def _check_places(errors: Errors, spec: JsonObject) -> None:
    given = _node_places(errors, "spec", spec, "must be either unset or set to a non-empty string")
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if spec.get("nodeSelector") is not None and len(terms) != 1:
        detail = "must have exactly one node selector term"
        errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", terms or None, detail))
    if spec.get("perDeviceNodeSelection"):
        given.append("`perDeviceNodeSelection`")
    elif spec.get("perDeviceNodeSelection") is not None:
        errors.append(invalid("spec.perDeviceNodeSelection", False, _UNSET_OR_TRUE))
    if not given:
        errors.append(required("spec", _PLACES))
    elif len(given) > 1:
        errors.append(invalid("spec", f"{{{', '.join(given)}}}", f"{_PLACES}, but multiple fields are set"))


def _node_places(errors: Errors, path: str, place: JsonObject, empty: str) -> list[str]:
    """The fields that say which nodes have the devices."""
    given: list[str] = []
    name = place.get("nodeName")
    if name:
        given.append("`nodeName`")
        dns_subdomain(errors, f"{path}.nodeName", name)
    elif name is not None:
        errors.append(invalid(f"{path}.nodeName", "", empty))
    if place.get("nodeSelector") is not None:
        given.append("`nodeSelector`")
        check_node_selector(errors, f"{path}.nodeSelector", place["nodeSelector"])
    if place.get("allNodes"):
        given.append("`allNodes`")
    elif place.get("allNodes") is not None:
        errors.append(invalid(f"{path}.allNodes", False, _UNSET_OR_TRUE))
    return given


def _check_device(errors: Errors, path: str, device: JsonObject, old: JsonObject | None, placed: bool) -> None:
    dns_label(errors, f"{path}.name", device.get("name") or "")
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES}"
        errors.append(invalid(path, count, detail))
    for name, attribute in attributes.items():
        check_attribute_name(errors, f"{path}.attributes", name)
        _check_attribute(errors, f"{path}.attributes[{_shortened(name)}]", attribute)
    for name, amount in capacity.items():
        check_attribute_name(errors, f"{path}.capacity", name)
        here = f"{path}.capacity[{_shortened(name)}].requestPolicy"
        policy = amount.get("requestPolicy")
        if policy is not None and not device.get("allowMultipleAllocations"):
            errors.append(forbidden(here, "allowMultipleAllocations must be true"))
        elif policy is not None:
            _check_policy(errors, here, quantity(amount.get("value") or "0"), policy)
    taints = device.get("taints") or []
    if (old is None or not same(taints, old.get("taints"))) and fits(errors, f"{path}.taints", taints, _TAINTS):
        for index, taint in enumerate(taints):
            check_taint(errors, f"{path}.taints[{index}]", taint)
    consumed = device.get("consumesCounters") or []
    if fits(errors, f"{path}.consumesCounters", consumed, _CONSUMPTIONS):
        for index, one in enumerate(consumed):
            _check_counters(errors, f"{path}.consumesCounters[{index}]", "counterSet", one)
        check_unique(errors, f"{path}.consumesCounters", [one.get("counterSet") or "" for one in consumed])
    _check_device_place(errors, path, device, placed)
    check_label_names(errors, path, device)


def _check_device_place(errors: Errors, path: str, device: JsonObject, placed: bool) -> None:
    if not placed:
        if any(device.get(field) is not None for field in ("nodeName", "nodeSelector", "allNodes")):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            errors.append(invalid(path, None, detail))
        return
    given = _node_places(errors, path, device, "must not be empty")
    if not given:
        errors.append(required(path, _DEVICE_PLACES))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", _DEVICE_PLACES))


def _check_attribute(errors: Errors, path: str, attribute: JsonObject) -> None:
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > _VALUE:
        errors.append(too_long(f"{path}.string", _VALUE))
    if version is not None:
        if not _is_semver(version):
            errors.append(invalid(f"{path}.version", version, "must be a string compatible with semver.org spec 2.0.0"))
        if len(version.encode()) > _VALUE:
            errors.append(too_long(f"{path}.version", _VALUE))
    given = [field for field in _VALUES if attribute.get(field) is not None]
    if len(given) != 1:
        errors.append(invalid(path, attribute if given else "", "exactly one value must be specified"))


def _check_counters(errors: Errors, path: str, name: str, holder: JsonObject) -> None:
    if not holder.get(name):
        errors.append(required(f"{path}.{name}"))
    else:
        dns_label(errors, f"{path}.{name}", holder[name])
    counters: Mapping[str, Json] = holder.get("counters") or {}
    if not counters:
        errors.append(required(f"{path}.counters"))
    elif len(counters) > _COUNTERS:
        errors.append(too_many(f"{path}.counters", len(counters), _COUNTERS))
    else:
        for counter in counters:
            dns_label(errors, f"{path}.counters", counter)


def _shortened(name: str) -> str:
    """Long keys are cut in their middle, as in Kubernetes."""
    limit = 63 + 1 + 32
    if len(name) <= limit:
        return name
    rest = limit - len("...")
    return f"{name[: (rest + 1) // 2]}...{name[len(name) - rest // 2 :]}"


# --- how much of a capacity may be asked for


def _check_policy(errors: Errors, path: str, capacity: Quantity, policy: JsonObject) -> None:
    values, span, default = policy.get("validValues") or [], policy.get("validRange"), policy.get("default")
    if values and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        errors.append(forbidden(path, detail))
    elif (values or span is not None) and default is None:
        detail = f"required when {'validValues' if values else 'validRange'} is defined"
        errors.append(required(f"{path}.default", detail))
    elif values:
        _check_options(errors, f"{path}.validValues", capacity, quantity(default), [quantity(one) for one in values])
    elif span is not None:
        _check_span(errors, f"{path}.validRange", capacity, quantity(default), span)


def _check_options(errors: Errors, path: str, capacity: Quantity, default: Quantity, options: list[Quantity]) -> None:
    for index in range(1, len(options)):
        if options[index - 1] > options[index]:
            errors.append(invalid(f"{path}[{index}]", str(options[index]), "values must be sorted in ascending order"))
    found = False
    if fits(errors, path, options, _OPTIONS):
        for index, option in enumerate(options):
            if option > capacity:
                detail = f"option is larger than capacity value: {capacity}"
                errors.append(invalid(f"{path}[{index}]", str(option), detail))
            found = found or option == default
        check_unique(errors, path, [str(option.value) for option in options])
    if not found:
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))


def _check_span(errors: Errors, path: str, capacity: Quantity, default: Quantity, span: JsonObject) -> None:
    if span.get("min") is None:
        errors.append(required(f"{path}.min", "required when validRange is defined"))
        return
    least = quantity(span["min"])
    most = quantity(span["max"]) if span.get("max") is not None else None
    if least > capacity:
        errors.append(invalid(f"{path}.min", str(least), f"min is larger than capacity value: {capacity}"))
    if default < least:
        errors.append(invalid(f"{path}.min", str(default), f"default is less than min: {least}"))
    if most is not None:
        if least > most:
            errors.append(invalid(f"{path}.max", str(least), f"min is larger than max: {most}"))
        if most > capacity:
            errors.append(invalid(f"{path}.max", str(most), f"max is larger than capacity value: {capacity}"))
        if default > most:
            errors.append(invalid(f"{path}.max", str(default), f"default is more than max: {most}"))
    if span.get("step") is None:
        return
    step = quantity(span["step"])
    reached = least + step
    if reached > capacity:
        detail = f"one step {reached} is larger than capacity value: {capacity}"
        errors.append(invalid(f"{path}.step", str(step), detail))
    for value in (default, *(() if most is None else (most,))):
        if step.value and (value.value - least.value) % step.value:
            detail = f"value is not a multiple of a given step ({step}) from ({least})"
            errors.append(invalid(f"{path}.step", str(value), detail))
