"""Environment variables of a container, and references to fields of the pod, which volumes use too."""

import re
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import (
    Errors,
    dns_label,
    named,
    no_backsteps,
    qualified,
)
from kohort.objects.field_errors import invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import config_key, dns1123_subdomain, env_name
from kohort.objects.quantity import Quantity

_ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS: Final = frozenset((*_ENV_FIELDS, *VOLUME_FIELDS, "status.phase", "spec.restartPolicy"))
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")

_plain_name = re.compile(r"[ -<>-~]+").fullmatch
"""The whole rule for variable names, as one match for the common case."""


def check_env(errors: Errors, path: str, variables: list[JsonObject]) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif not _plain_name(name):
            named(errors, f"{path}[{index}].name", name, env_name)
        if "valueFrom" in variable:
            _check_source(errors, f"{path}[{index}].valueFrom", variable)


def _check_source(errors: Errors, path: str, variable: JsonObject) -> None:
    source = variable["valueFrom"]
    count = 0
    for name in _SOURCES:
        reference = source.get(name)
        if reference is None:
            continue
        count += 1
        here = f"{path}.{name}"
        if name == "fieldRef":
            check_field_reference(errors, here, reference, _ENV_FIELDS)
        elif name == "resourceFieldRef":
            check_resource_reference(errors, here, reference, in_volume=False)
        elif name == "fileKeyRef":
            _check_file_key(errors, here, reference)
        else:
            _check_key(errors, here, reference)
    if not count:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(path, "", detail))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_key(errors: Errors, path: str, reference: JsonObject) -> None:
    named(errors, f"{path}.name", reference.get("name") or "", dns1123_subdomain)
    key = reference.get("key")
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        named(errors, f"{path}.key", key, config_key)


def _check_file_key(errors: Errors, path: str, reference: JsonObject) -> None:
    if not reference.get("key"):
        errors.append(required(f"{path}.key"))
    else:
        named(errors, f"{path}.key", reference["key"], env_name)
    if not reference.get("volumeName"):
        errors.append(required(f"{path}.volumeName"))
    else:
        dns_label(errors, f"{path}.volumeName", reference["volumeName"])
    if not reference.get("path"):
        errors.append(required(f"{path}.path"))
    else:
        no_backsteps(errors, f"{path}.path", reference["path"])


_SUBSCRIPT = re.compile(r"(?P<path>.*)\['(?P<key>.*)'\]", re.DOTALL).fullmatch


def check_field_reference(errors: Errors, path: str, reference: JsonObject, allowed: tuple[str, ...]) -> None:
    if not reference.get("apiVersion"):
        errors.append(required(f"{path}.apiVersion"))
        return
    wanted = reference.get("fieldPath")
    if not wanted:
        errors.append(required(f"{path}.fieldPath"))
        return
    subscripted = _SUBSCRIPT(wanted)
    field = subscripted["path"] if subscripted else wanted
    problem = _unconvertible(reference["apiVersion"], field, bool(subscripted), wanted)
    if problem:
        errors.append(invalid(f"{path}.fieldPath", wanted, f"error converting fieldPath: {problem}"))
    elif subscripted:
        key = subscripted["key"]
        qualified(errors, path, key.lower() if field == "metadata.annotations" else key)
    elif field == "spec.host" and "spec.nodeName" in allowed:
        return
    elif field not in allowed:
        errors.append(not_supported(f"{path}.fieldPath", field, allowed))


def _unconvertible(version: str, field: str, subscripted: bool, wanted: str) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted:
        return (
            ""
            if field in ("metadata.annotations", "metadata.labels")
            else f"field label does not support subscript: {wanted}"
        )
    if field in _KNOWN_FIELDS or field in ("spec.schedulerName", "spec.host"):
        return ""
    return f"field label not supported: {wanted}"


def check_resource_reference(errors: Errors, path: str, reference: JsonObject, *, in_volume: bool) -> None:
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = reference.get("divisor")
    if divisor not in (None, "0"):
        _check_divisor(errors, f"{path}.divisor", resource, Quantity.parse(divisor))


_SIZES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS: Final = {
    "cpu": (("1m", "1"), "1m and 1 are supported with the cpu resource"),
    "memory": (_SIZES, f"{', '.join(_SIZES)} are supported with the memory resource"),
    "ephemeral-storage": (_SIZES, f"{', '.join(_SIZES)} are supported with the local ephemeral storage resource"),
    "hugepages": (_SIZES, f"{', '.join(_SIZES)} are supported with the hugepages resource"),
}


def _check_divisor(errors: Errors, path: str, resource: str, divisor: Quantity) -> None:
    if not divisor:
        return
    name = "hugepages" if resource.startswith(_HUGE_PAGES) else resource.partition(".")[2]
    rule = _DIVISORS.get(name) if resource in _RESOURCES or name == "hugepages" else None
    if rule is not None and str(divisor) not in rule[0]:
        errors.append(invalid(path, resource, f"only divisor's values {rule[1]}"))


def check_env_from(errors: Errors, path: str, sources: list[JsonObject]) -> None:
    for index, source in enumerate(sources):
        prefix = source.get("prefix")
        if prefix:
            named(errors, f"{path}[{index}].prefix", prefix, env_name)
        found = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in found:
            target = source[name].get("name")
            if not target:
                errors.append(required(f"{path}[{index}].{name}.name"))
            else:
                named(errors, f"{path}[{index}].{name}.name", target, dns1123_subdomain, prefix=True)
        if not found:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
