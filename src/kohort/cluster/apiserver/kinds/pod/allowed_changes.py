"""What may change in a pod after its creation, through the pod itself."""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.pod.containers import check_image_spacing
from kohort.cluster.apiserver.kinds.pod.scheduling import REQUIRED, check_tolerations
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.schema.field_checks import MAX_INT32, Errors, same
from kohort.objects import well_known_names
from kohort.objects.field_errors import forbidden, invalid, required
from kohort.objects.json_types import JsonObject, hashable
from kohort.objects.names import in_range

MIRROR: Final = well_known_names.MIRROR_POD
APP_ARMOR_PREFIX: Final = well_known_names.APP_ARMOR_PREFIX

FROZEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_changes(errors: Errors, new: JsonObject, old: JsonObject, rules: PodRules) -> None:
    """The rules for a plain update; both arguments are specs."""
    for field in ("containers", "initContainers"):
        if not _check_images(errors, f"spec.{field}", new.get(field) or (), old.get(field) or ()):
            return
    if not _check_deadline(errors, new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")):
        return
    _check_added_tolerations(errors, new.get("tolerations") or [], old.get("tolerations") or [], rules)
    _check_removed_gates(errors, new.get("schedulingGates") or (), old.get("schedulingGates") or ())
    if same(new, old):
        return
    masked = _masked(new, old)
    if old.get("schedulingGates"):
        _check_gated(errors, masked, new, old)
    if not same(masked, old):
        errors.append(forbidden("spec", FROZEN))


def _check_images(errors: Errors, path: str, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> bool:
    """False when the lists cannot be compared any further."""
    if len(new) != len(old):
        errors.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.get("image"):
            errors.append(required(f"{path}[{index}].image"))
        check_image_spacing(errors, f"{path}[{index}]", container)
    return True


def _check_deadline(errors: Errors, new: int | None, old: int | None) -> bool:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= new <= MAX_INT32:
        errors.append(invalid(path, new, in_range(0, MAX_INT32)))
        return False
    if old is not None and old < new:
        errors.append(invalid(path, new, "must be less than or equal to previous value"))
        return False
    return True


def _check_added_tolerations(errors: Errors, new: list[JsonObject], old: list[JsonObject], rules: PodRules) -> None:
    kept = {hashable(_without_seconds(toleration)) for toleration in new}
    if any(hashable(_without_seconds(toleration)) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden("spec.tolerations", detail))
    else:
        check_tolerations(errors, "spec.tolerations", new, rules)


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _check_removed_gates(errors: Errors, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> None:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name') or ''}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", detail))


def _masked(new: JsonObject, old: JsonObject) -> JsonObject:
    """The new spec with everything that may change put back, so that what differs still is what may not."""
    masked = dict(new)
    for field in ("containers", "initContainers"):
        if new.get(field):
            pairs = zip(new[field], old[field], strict=True)
            masked[field] = [{**container, "image": before.get("image")} for container, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        masked[field] = old.get(field)
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        masked["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return masked


def _check_gated(errors: Errors, masked: JsonObject, new: JsonObject, old: JsonObject) -> None:
    """While a pod has scheduling gates, its node selector and affinity may become narrower."""
    if not same(new.get("nodeSelector"), old.get("nodeSelector")):
        selector = new.get("nodeSelector") or {}
        if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", selector, detail))
        masked["nodeSelector"] = old.get("nodeSelector")
    new_affinity, old_affinity = new.get("affinity") or {}, old.get("affinity") or {}
    new_node, old_node = new_affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if same(new_node, old_node):
        return
    _check_narrowed(errors, new_node or {}, old_node or {})
    others = {key: value for key, value in new_affinity.items() if key != "nodeAffinity"}
    if old_node is not None:
        others["nodeAffinity"] = old_node
    masked["affinity"] = others or old.get("affinity")


def _check_narrowed(errors: Errors, new: JsonObject, old: JsonObject) -> None:
    before = (old.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    after = (new.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(invalid(path, after, detail))
        return
    for index, (term, was) in enumerate(zip(after, before, strict=False)):
        if not _only_added(term, was):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{path}[{index}]", term, detail))


def _only_added(new: JsonObject, old: JsonObject) -> bool:
    kept = {field: old.get(field) or [] for field in ("matchExpressions", "matchFields")}
    if not any(kept.values()):
        return not new.get("matchExpressions") and not new.get("matchFields")
    return all(same((new.get(field) or [])[: len(terms)], terms) for field, terms in kept.items())


def check_annotation_changes(errors: Errors, new: JsonObject, old: JsonObject) -> None:
    """Annotations that say what a pod is may not change; both arguments are metadata."""
    after, before = new.get("annotations") or {}, old.get("annotations") or {}
    path = "metadata.annotations"
    for key, value in before.items():
        if after.get(key) == value:
            continue
        if key.startswith(APP_ARMOR_PREFIX):
            errors.append(forbidden(f"{path}[{key}]", "may not remove or update AppArmor annotations"))
        elif key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", "may not remove or update mirror pod annotation"))
    for key in after:
        if key in before:
            continue
        if key.startswith(APP_ARMOR_PREFIX):
            errors.append(forbidden(f"{path}[{key}]", "may not add AppArmor annotations"))
        elif key == MIRROR:
            errors.append(forbidden(f"{path}[{key}]", "may not add mirror pod annotation"))
