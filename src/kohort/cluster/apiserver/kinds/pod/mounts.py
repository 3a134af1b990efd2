"""Where a container finds the volumes of its pod: mounts and block devices."""

from collections.abc import Mapping
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import Errors, descending_path
from kohort.objects.field_errors import forbidden, invalid, not_found, not_supported, required
from kohort.objects.json_types import JsonObject

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def check_mounts(errors: Errors, path: str, container: JsonObject, volumes: Mapping[str, JsonObject]) -> None:
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not target:
            errors.append(required(f"{path}[{index}].mountPath"))
        if target in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", target, "must be unique"))
        seen.add(target)
        if name in device_names:
            errors.append(invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices"))
        if target in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{path}[{index}].mountPath", target, detail))
        if len(mount) > 2:
            _check_details(errors, path, index, mount, container)


def _check_details(errors: Errors, path: str, index: int, mount: JsonObject, container: JsonObject) -> None:
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        descending_path(errors, f"{path}.subPath", sub_path)
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}[{index}].subPathExpr", expression, detail))
        descending_path(errors, f"{path}.subPathExpr", expression)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            errors.append(not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(forbidden(f"{path}.mountPropagation", detail))
    _check_recursive(errors, f"{path}.recursiveReadOnly", mount)


def _check_recursive(errors: Errors, path: str, mount: JsonObject) -> None:
    recursive = mount.get("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in _RECURSIVE:
        errors.append(not_supported(path, recursive, _RECURSIVE))
        return
    if not mount.get("readOnly"):
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in (None, "None"):
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))


def check_devices(errors: Errors, path: str, container: JsonObject, volumes: Mapping[str, JsonObject]) -> None:
    mounts = container.get("volumeMounts") or ()
    mount_names = {mount.get("name") for mount in mounts}
    mount_paths = {mount.get("mountPath") for mount in mounts}
    names: set[str] = set()
    targets: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        here = f"{path}[{index}]"
        name, target = device.get("name") or "", device.get("devicePath") or ""
        volume = volumes.get(name)
        if not name:
            errors.append(required(f"{here}.name"))
        if name in names:
            errors.append(invalid(f"{here}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{here}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{here}.name", name, detail))
        if not target:
            errors.append(required(f"{here}.devicePath"))
        if target in targets:
            errors.append(invalid(f"{here}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(invalid(f"{here}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            targets.add(target)
        if name in mount_names:
            errors.append(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if target in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{here}.devicePath", target, detail))
        if name:
            names.add(name)
