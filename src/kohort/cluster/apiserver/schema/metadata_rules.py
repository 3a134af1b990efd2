"""Rules for `metadata` that hold for every object: built-in, custom, embedded in another, or in a template."""

from collections.abc import Callable, Sequence
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import labels, problems_of
from kohort.objects.field_errors import FieldError, forbidden, invalid, required, too_long
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.names import dns1123_label, path_segment, qualified_name

ANNOTATIONS_LIMIT = 256 * 1024
MANAGER_LIMIT = 128
SHOWN_OWNERS = 2000
"""Owners shown in all causes together: each second controller is a cause that shows the whole list."""
IMMUTABLE = "field is immutable"

NameRule = Callable[..., list[str]]
"""`rule(name, prefix=False)`: what is wrong with the name."""

_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))


def embedded_errors(meta: JsonObject, path: str) -> list[FieldError]:
    """The rules for the metadata of an object inside another: everything but the need for a name and a namespace."""
    named_ = {**meta, "name": meta.get("name") or "x"}
    return object_errors(named_, bool(meta.get("namespace")), path_segment, path, standard_finalizers=False)


def object_errors(
    meta: JsonObject, namespaced: bool, name_rule: NameRule, path: str = "metadata", *, standard_finalizers: bool = True
) -> list[FieldError]:
    """The rules for the metadata of a new object."""
    errors: list[FieldError] = []
    base = meta.get("generateName")
    if base:
        errors += [invalid(f"{path}.generateName", base, problem) for problem in name_rule(base, prefix=True)]
    name = meta.get("name")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        # Not by way of `problems_of`, which remembers what comes again: names of objects are new every time.
        errors += [invalid(f"{path}.name", name, problem) for problem in name_rule(name)]
    errors += _namespace_errors(meta.get("namespace"), namespaced, path)
    if (meta.get("generation") or 0) < 0:
        errors.append(invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    labels(errors, f"{path}.labels", meta.get("labels"))
    for field, rule in _FIELD_RULES:
        if value := meta.get(field):
            errors += rule(value, f"{path}.{field}")
    if standard_finalizers:
        errors += standard_finalizer_errors(meta.get("finalizers"), f"{path}.finalizers")
    return errors


def template_errors(meta: JsonObject, path: str) -> list[FieldError]:
    """Labels and annotations of a template; all that is checked of metadata that will be another object's."""
    errors: list[FieldError] = []
    labels(errors, f"{path}.labels", meta.get("labels"))
    return errors + annotation_errors(meta.get("annotations"), f"{path}.annotations")


def labels_and_annotations_only(metadata: JsonObject, path: str) -> list[FieldError]:
    """Metadata of a template whose objects get all else from the server."""
    errors = template_errors(metadata, path)
    for field, value in metadata.items():
        if field not in ("labels", "annotations") and (value or isinstance(value, list)):
            errors.append(forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set"))
    return errors


_FROZEN = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def change_errors(new: JsonObject, old: JsonObject, path: str = "metadata") -> list[FieldError]:
    """The rules for a change of metadata."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        errors += _added_finalizers(new.get("finalizers") or (), old.get("finalizers") or (), f"{path}.finalizers")
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    errors += [
        invalid(f"{path}.{field}", new.get(field), IMMUTABLE) for field in _FROZEN if new.get(field) != old.get(field)
    ]
    labels(errors, f"{path}.labels", new.get("labels"))
    errors += annotation_errors(new.get("annotations"), f"{path}.annotations")
    errors += owner_errors(new.get("ownerReferences"), f"{path}.ownerReferences")
    errors += managed_field_errors(new.get("managedFields"), f"{path}.managedFields")
    return errors


def _namespace_errors(namespace: str | None, namespaced: bool, path: str) -> list[FieldError]:
    if not namespaced:
        return [forbidden(f"{path}.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(f"{path}.namespace")]
    return [invalid(f"{path}.namespace", namespace, problem) for problem in problems_of(dns1123_label, namespace)]


def annotation_errors(annotations: JsonObject | None, path: str) -> list[FieldError]:
    if not annotations:
        return []
    errors: list[FieldError] = []
    for key in annotations:
        errors += [invalid(path, key, problem) for problem in problems_of(qualified_name, key.lower())]
    if sum(_size(key) + _size(text) for key, text in annotations.items()) > ANNOTATIONS_LIMIT:
        errors.append(too_long(path, ANNOTATIONS_LIMIT))
    return errors


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def owner_errors(owners: Sequence[JsonObject] | None, path: str) -> list[FieldError]:
    if not owners:
        return []
    errors: list[FieldError] = []
    controller, shown = "", 0
    for owner in owners:
        errors += _one_owner(owner, path)
        if not owner.get("controller"):
            continue
        name = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
        if controller and (shown == 0 or shown + len(owners) <= SHOWN_OWNERS):
            shown += len(owners)
            found = f'Found "true" in references for {controller} and {name}'
            detail = f"Only one reference can have Controller set to true. {found}"
            errors.append(invalid(path, list(owners), detail))
        controller = controller or name
    return errors


def _one_owner(owner: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version = owner.get("apiVersion") or ""
    if not api_version.rpartition("/")[2]:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    elif api_version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {api_version}"
        errors.append(invalid(f"{path}.apiVersion", api_version, detail))
    errors += [
        invalid(f"{path}.{field}", "", "must not be empty") for field in ("kind", "name", "uid") if not owner.get(field)
    ]
    if api_version == "v1" and owner.get("kind") == "Event":
        errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def finalizer_errors(finalizers: Sequence[str] | None, path: str) -> list[FieldError]:
    if not finalizers:
        return []
    errors = [invalid(path, name, problem) for name in finalizers for problem in problems_of(qualified_name, name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, list(finalizers), detail))
    return errors


def standard_finalizer_errors(finalizers: Sequence[str] | None, path: str) -> list[FieldError]:
    """Unqualified finalizers must be the well-known ones."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}[{index}]", name, detail)
        for index, name in enumerate(finalizers or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _added_finalizers(new: Sequence[str], old: Sequence[str], path: str) -> list[FieldError]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    detail = (
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{" + shown + "}"
    )
    return [forbidden(path, detail)]


def managed_field_errors(entries: Sequence[JsonObject] | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries or ()):
        operation = entry.get("operation")
        if operation not in ("Apply", "Update"):
            errors.append(invalid(f"{path}[{index}].operation", operation or "", "must be `Apply` or `Update`"))
        fields_type: Json = entry.get("fieldsType")
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{path}[{index}].fieldsType", fields_type, "must be `FieldsV1`"))
        if _size(entry.get("manager") or "") > MANAGER_LIMIT:
            errors.append(too_long(f"{path}[{index}].manager", MANAGER_LIMIT))
    return errors


_FIELD_RULES: Final[tuple[tuple[str, Callable[..., list[FieldError]]], ...]] = (
    ("annotations", annotation_errors),
    ("ownerReferences", owner_errors),
    ("finalizers", finalizer_errors),
    ("managedFields", managed_field_errors),
)
"""In the order in which they are reported."""
