"""Annotations that mean something in a pod: older ways to say what has a field by now.

| annotation | meaning |
|---|---|
| `kubernetes.io/config.mirror` | the pod stands for a static one of its node |
| `controller.kubernetes.io/pod-deletion-cost` | which pods of a ReplicaSet go first |
| `scheduler.alpha.kubernetes.io/tolerations` | checked, without effect |
| `seccomp…/pod`, `container.seccomp…/NAME` | checked, without effect; the field must agree |
| `container.apparmor…/NAME` | copied into the field of a new pod, unless the field is set |
"""

from collections.abc import Iterator, Mapping
from typing import Final

from kohort.cluster.apiserver.kinds.pod.scheduling import check_tolerations
from kohort.cluster.apiserver.kinds.pod.security import all_containers
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.schema import json_body
from kohort.cluster.apiserver.schema.field_checks import MAX_INT32, Errors, descending_path
from kohort.objects import well_known_names
from kohort.objects.field_errors import FieldError, forbidden, invalid
from kohort.objects.json_types import JsonObject

_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_LOCAL: Final = "localhost/"
_SECCOMP_NAMES: Final = {
    "RuntimeDefault": ("runtime/default", "docker/default"),
    "Unconfined": ("unconfined",),
}
_APP_ARMOR_FIELD: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_SECCOMP_FIELD: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APP_ARMOR_NAMES: Final = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}


def check_annotations(errors: Errors, path: str, meta: JsonObject, spec: JsonObject, rules: PodRules) -> None:
    annotations = meta.get("annotations")
    if not annotations:
        return
    mirror = annotations.get(well_known_names.MIRROR_POD)
    if mirror is not None and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[kubernetes.io/config.mirror]", mirror, detail))
    if annotations.get(_TOLERATIONS):
        _check_tolerations(errors, path, annotations[_TOLERATIONS], rules)
    cost = annotations.get(well_known_names.DELETION_COST)
    if cost is not None and not rules.tolerate_deletion_cost and not _is_int32(cost):
        where = f"{path}[controller.kubernetes.io/pod-deletion-cost]"
        errors.append(invalid(where, cost, "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == well_known_names.SECCOMP_POD or key.startswith(well_known_names.SECCOMP_PREFIX):
            _check_seccomp(errors, f"{path}.{key}", value)
    for key, value in annotations.items():
        if key.startswith(well_known_names.APP_ARMOR_PREFIX):
            _check_app_armor(errors, f"{path}[{key}]", key, value, spec)


def _check_tolerations(errors: Errors, path: str, text: str, rules: PodRules) -> None:
    try:
        tolerations = json_body.decode(text.encode())
    except json_body.SyntaxFault as fault:
        errors.append(invalid(path, _TOLERATIONS, str(fault)))
        return
    if not isinstance(tolerations, list) or not all(isinstance(one, dict) for one in tolerations):
        errors.append(invalid(path, _TOLERATIONS, "must be a list of tolerations"))
        return
    check_tolerations(errors, f"{path}.{_TOLERATIONS}", tolerations, rules)


def _check_seccomp(errors: Errors, path: str, profile: str) -> None:
    if profile.startswith(_LOCAL):
        descending_path(errors, path, profile.removeprefix(_LOCAL))
    elif not any(profile in names for names in _SECCOMP_NAMES.values()):
        errors.append(invalid(path, profile, "must be a valid seccomp profile"))


def _check_app_armor(errors: Errors, path: str, key: str, profile: str, spec: JsonObject) -> None:
    name = key.removeprefix(well_known_names.APP_ARMOR_PREFIX)
    if not any(container.get("name") == name for _, container in all_containers(spec, "")):
        errors.append(invalid(path, name, "container not found"))
    if profile and profile not in _APP_ARMOR_NAMES and not profile.startswith(_LOCAL):
        errors.append(invalid(path, profile, f'invalid AppArmor profile name: "{profile}"'))


def check_annotations_match_fields(errors: Errors, meta: JsonObject, spec: JsonObject) -> None:
    """Of a new pod, which may say the same in an annotation and in a field, and nothing else."""
    annotations = meta.get("annotations")
    if not annotations or _is_windows(spec):
        return
    errors += _mismatch("seccomp", annotations.get(well_known_names.SECCOMP_POD), spec, "spec")
    for here, container in all_containers(spec, "spec"):
        name = container.get("name") or ""
        errors += _mismatch("seccomp", annotations.get(well_known_names.SECCOMP_PREFIX + name), container, here)
        errors += _mismatch("apparmor", annotations.get(well_known_names.APP_ARMOR_PREFIX + name), container, here)


def _mismatch(what: str, annotation: str | None, holder: JsonObject, path: str) -> Iterator[FieldError]:
    field = "seccompProfile" if what == "seccomp" else "appArmorProfile"
    profile = (holder.get("securityContext") or {}).get(field)
    if profile is None or annotation is None:
        return
    where = f"{path}.securityContext.{field}"
    kind = profile.get("type")
    if kind == "Localhost":
        if not annotation.startswith(_LOCAL):
            yield forbidden(f"{where}.type", f"{what} type in annotation and field must match")
        elif annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
            yield forbidden(f"{where}.localhostProfile", f"{what} profile in annotation and field must match")
    elif kind in _SECCOMP_NAMES and annotation not in _SECCOMP_NAMES[kind]:
        yield forbidden(f"{where}.type", f"{what} type in annotation and field must match")


def copy_app_armor(meta: JsonObject, spec: JsonObject) -> list[str]:
    """Put AppArmor annotations of a new pod into the fields of its containers. The warnings that this deserves."""
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    if _is_windows(spec) or not any(key.startswith(well_known_names.APP_ARMOR_PREFIX) for key in annotations):
        return []
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    warnings: list[str] = []
    for _, container in all_containers(spec, "spec"):
        key = well_known_names.APP_ARMOR_PREFIX + (container.get("name") or "")
        context = container.get("securityContext") or {}
        if key not in annotations or context.get("appArmorProfile") is not None:
            continue
        warnings.append(f"metadata.annotations[{key}]: {_APP_ARMOR_FIELD}")
        profile = _app_armor_field(annotations[key])
        if profile is not None and profile != of_pod:
            container["securityContext"] = {**context, "appArmorProfile": profile}
    return warnings


def _app_armor_field(annotation: str) -> JsonObject | None:
    if annotation in _APP_ARMOR_NAMES:
        return {"type": _APP_ARMOR_NAMES[annotation]}
    local = annotation.removeprefix(_LOCAL)
    return {"type": "Localhost", "localhostProfile": local} if local and local != annotation else None


def profile_warnings(meta: JsonObject, spec: JsonObject, path: str, *, template: bool) -> Iterator[str]:
    """Of annotations where no field says the same. Those of pods for AppArmor come with `copy_app_armor`."""
    annotations = meta.get("annotations")
    if not annotations:
        return
    if _lacks(spec.get("securityContext") or {}, "seccompProfile", annotations, well_known_names.SECCOMP_POD):
        yield f"{path}[{well_known_names.SECCOMP_POD}]: {_SECCOMP_FIELD}"
    for _, container in all_containers(spec, ""):
        name = container.get("name") or ""
        context = container.get("securityContext") or {}
        if template and _lacks(context, "appArmorProfile", annotations, well_known_names.APP_ARMOR_PREFIX + name):
            yield f"{path}[{well_known_names.APP_ARMOR_PREFIX}{name}]: {_APP_ARMOR_FIELD}"
        if _lacks(context, "seccompProfile", annotations, well_known_names.SECCOMP_PREFIX + name):
            yield f"{path}[{well_known_names.SECCOMP_PREFIX}{name}]: {_SECCOMP_FIELD}"


def _lacks(context: JsonObject, field: str, annotations: Mapping[str, str], key: str) -> bool:
    return key in annotations and context.get(field) is None


def _is_windows(spec: JsonObject) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _is_int32(text: str) -> bool:
    """A 32-bit decimal number without plus sign, and without leading zeros unless it is negative."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (text[0] == "0" and text != "0"):
        return False
    return -(2**31) <= int(text) <= MAX_INT32
