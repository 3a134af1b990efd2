"""The `resize` subresource: which part of a request counts, and which changes of it are allowed.

`keep_resize_only` restores all fields that this subresource may not change, silently, as all subresources do. What it
lets through, resources and resize policies, is then judged: only cpu and memory may change, nothing may be removed, the
quality-of-service class must stay.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.feature_gates import (
    FIX_POD_LEVEL_DEFAULTING,
    INIT_CONTAINER_RESIZE,
    MEMORY_VOLUME_RESIZE,
    POD_LEVEL_RESIZE,
    POD_LEVEL_RESOURCES,
    enabled,
)
from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.pod import pod_level_resources
from kohort.cluster.apiserver.kinds.pod.allowed_changes import MIRROR
from kohort.cluster.apiserver.schema.field_checks import WHOLE_OBJECT, Errors, same, same_amounts
from kohort.objects.field_errors import FieldError, forbidden, invalid
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import RESTART_CONTAINER, is_sidecar
from kohort.resources.qos import GUARANTEED

_RESIZABLE: Final = ("cpu", "memory")


def keep_resize_only(pod: JsonObject, old: JsonObject, gates: Mapping[str, bool], *, patch: bool = False) -> None:
    """Undo what a resize may not touch. Containers that were added or removed, and a pod-level block that a `patch`
    takes away, are left for validation to refuse."""
    spec, before = pod["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            return
    kept = dict(before)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            kept[field] = _containers(spec[field], before[field])
    if enabled(gates, POD_LEVEL_RESIZE):
        _keep_pod_level(kept, spec, before, gates, patch)
    if enabled(gates, MEMORY_VOLUME_RESIZE) and "volumes" in spec:
        kept["volumes"] = spec["volumes"]
    pod["spec"] = kept
    reset_for_status(pod["metadata"], old["metadata"])


def _containers(new: Sequence[JsonObject], old: Sequence[JsonObject]) -> list[JsonObject]:
    merged: list[JsonObject] = []
    for container, before in zip(new, old, strict=True):
        if container.get("name") != before.get("name"):
            return list(new)
        kept = dict(before)
        for field in ("resources", "resizePolicy"):
            if field in container:
                kept[field] = container[field]
            else:
                kept.pop(field, None)
        merged.append(kept)
    return merged


def _keep_pod_level(
    kept: JsonObject, spec: JsonObject, before: JsonObject, gates: Mapping[str, bool], patch: bool
) -> None:
    fixed = enabled(gates, FIX_POD_LEVEL_DEFAULTING)
    if spec.get("resources") is not None:
        kept["resources"] = {
            side: dict(amounts) if isinstance(amounts, dict) else amounts for side, amounts in spec["resources"].items()
        }
    elif patch or not fixed:
        kept.pop("resources", None)
    elif before.get("resources") is not None:
        # a client that does not know the field must not remove it
        kept["resources"] = {
            side: dict(amounts) if isinstance(amounts, dict) else amounts
            for side, amounts in before["resources"].items()
        }
    if enabled(gates, POD_LEVEL_RESOURCES):
        # a block that is put over containers of class Guaranteed must itself say that it is of that class
        first = not pod_level_resources.is_set(before) and pod_level_resources.quality(before) == GUARANTEED
        pod_level_resources.default_levels(kept, legacy=not fixed, limits=not first)


def check_resize(errors: Errors, pod: JsonObject, old: JsonObject, gates: Mapping[str, bool]) -> list[FieldError]:
    """All errors of a resize; `errors` are those that the new pod has anyway."""
    spec, before = pod["spec"], old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(WHOLE_OBJECT, "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden(WHOLE_OBJECT, "windows pods cannot be resized")]
    pod_level = enabled(gates, POD_LEVEL_RESOURCES)
    was = (old.get("status") or {}).get("qosClass") or pod_level_resources.quality(before, pod_level=pod_level)
    if was != pod_level_resources.quality(spec, pod_level=pod_level):
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", (pod.get("status") or {}).get("qosClass") or "", detail))
    if not _node_can_resize(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if pod_level_resources.is_set(spec) or pod_level_resources.is_set(before):
        if not enabled(gates, POD_LEVEL_RESIZE):
            detail = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            errors.append(forbidden(WHOLE_OBJECT, detail))
            return errors
        _check_pod_level(errors, spec.get("resources"), before.get("resources"))
    if not _check_order(errors, spec, before):
        return errors
    _check_containers(errors, spec, before, gates)
    if not errors and not same(_masked(spec, before), before):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _node_can_resize(pod: JsonObject) -> bool:
    """Nodes that can resize report the resources of running containers."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _check_pod_level(errors: Errors, new: JsonObject | None, old: JsonObject | None) -> None:
    if old is not None and new is None:
        errors.append(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    new, old = new or {}, old or {}
    for side in ("requests", "limits"):
        if _removed(new.get(side), old.get(side)):
            errors.append(forbidden(f"spec.resources.{side}", f"pod-level resource {side} cannot be removed"))
    if not _only_compute_differs(new, old) or not same(new.get("claims"), old.get("claims")):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))


def _removed(new: Mapping[str, str] | None, old: Mapping[str, str] | None) -> bool:
    return any(name not in (new or {}) for name in old or ())


def _only_compute_differs(new: JsonObject, old: JsonObject) -> bool:
    return all(same_amounts(_rest(new.get(side)), _rest(old.get(side))) for side in ("requests", "limits"))


def _rest(amounts: Mapping[str, str] | None) -> dict[str, str]:
    return {name: amount for name, amount in (amounts or {}).items() if name not in _RESIZABLE}


def _check_order(errors: Errors, spec: JsonObject, before: JsonObject) -> bool:
    good = True
    for field in ("containers", "initContainers"):
        new, old = spec.get(field) or (), before.get(field) or ()
        if len(new) != len(old):
            errors.append(forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            good = False
            continue
        for index, (container, was) in enumerate(zip(new, old, strict=True)):
            if container.get("name") != was.get("name"):
                detail = f"{field} may not be renamed or reordered on resize"
                errors.append(forbidden(f"spec.{field}[{index}].name", detail))
                good = False
    return good


def _check_containers(errors: Errors, spec: JsonObject, before: JsonObject, gates: Mapping[str, bool]) -> None:
    init_resize = enabled(gates, INIT_CONTAINER_RESIZE)
    init = list(zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=True))
    regular = list(zip(spec.get("containers") or (), before.get("containers") or (), strict=True))
    for index, (container, was) in enumerate(init):
        if init_resize or is_sidecar(was):
            _check_removal(errors, f"spec.initContainers[{index}].resources", container, was)
    for index, (container, was) in enumerate(regular):
        _check_removal(errors, f"spec.containers[{index}].resources", container, was)
    for container, was in regular:
        if not _only_resources_differ(container, was):
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (container, was) in enumerate(init):
        _check_init(errors, f"spec.initContainers[{index}]", container, was, init_resize)


def _check_init(errors: Errors, path: str, container: JsonObject, was: JsonObject, init_resize: bool) -> None:
    changed = not same(container, was)
    if not init_resize and not is_sidecar(container):
        if changed:
            errors.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
        return
    if not _only_resources_differ(container, was):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(forbidden(path, detail))
    if changed and not is_sidecar(container):
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors += [
            forbidden(path, detail)
            for policy in container.get("resizePolicy") or ()
            if policy.get("restartPolicy") == RESTART_CONTAINER
        ]


def _check_removal(errors: Errors, path: str, container: JsonObject, was: JsonObject) -> None:
    new, old = container.get("resources") or {}, was.get("resources") or {}
    for side in ("requests", "limits"):
        if _removed(new.get(side), old.get(side)):
            errors.append(forbidden(f"{path}.{side}", f"resource {side} cannot be removed"))


def _only_resources_differ(container: JsonObject, was: JsonObject) -> bool:
    new, old = container.get("resources") or {}, was.get("resources") or {}
    if not _only_compute_differs(new, old) or not same(new.get("claims"), old.get("claims")):
        return False
    return same(_without_resources(container), _without_resources(was))


def _without_resources(holder: JsonObject) -> JsonObject:
    return {key: value for key, value in holder.items() if key != "resources"}


def _masked(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The new spec with the permitted differences put back."""
    return {**spec, **{f: before.get(f) for f in ("containers", "initContainers", "resources")}}
