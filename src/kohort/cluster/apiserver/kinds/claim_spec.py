"""The spec of a PersistentVolumeClaim, which also stands in templates: of StatefulSets and of ephemeral volumes."""

from typing import Final

from kohort.cluster.apiserver.schema.field_checks import NOT_POSITIVE, Errors, named, quantity
from kohort.objects.field_errors import forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain
from kohort.objects.selectors import selector_errors

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")


def check_claim_spec(errors: Errors, path: str, spec: JsonObject, *, tolerate_groups: bool = False) -> None:
    """`tolerate_groups`: the stored claim has an API group in its data source already, however strange."""
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    if spec.get("selector") is not None:
        errors += selector_errors(spec["selector"], f"{path}.selector")
    check_access_modes(errors, path, spec)
    _check_size(errors, f"{path}.resources[storage]", spec)
    if spec.get("storageClassName"):
        named(errors, f"{path}.storageClassName", spec["storageClassName"], dns1123_subdomain)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    _check_data_sources(errors, path, spec, tolerate_groups)
    if spec.get("volumeAttributesClassName"):
        name = spec["volumeAttributesClassName"]
        named(errors, f"{path}.volumeAttributesClassName", name, dns1123_subdomain)


def check_access_modes(errors: Errors, path: str, spec: JsonObject) -> None:
    modes = spec.get("accessModes") or ()
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.append(not_supported(f"{path}.accessModes", mode, ACCESS_MODES))
    if "ReadWriteOncePod" in modes and any(m in ACCESS_MODES and m != "ReadWriteOncePod" for m in modes):
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))


def _check_size(errors: Errors, path: str, spec: JsonObject) -> None:
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required(path))
    elif quantity(size).nano <= 0:
        errors.append(invalid(path, size, NOT_POSITIVE))


def _check_data_sources(errors: Errors, path: str, spec: JsonObject, tolerate_groups: bool) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _check_data_source(errors, f"{path}.dataSource", source, tolerate_groups)
    if reference is None:
        return
    _check_data_source(errors, f"{path}.dataSourceRef", reference, tolerate_groups)
    if reference.get("namespace"):
        named(errors, f"{path}.dataSourceRef.namespace", reference["namespace"], dns1123_label)
        if source is not None:
            detail = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, f"{path}.dataSource", detail))
    elif source is not None and any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, f"{path}.dataSource", "must match dataSourceRef"))


def _check_data_source(errors: Errors, path: str, source: JsonObject, tolerate_groups: bool) -> None:
    errors += [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group = source.get("apiGroup")
    if not group:
        if source.get("kind") != "PersistentVolumeClaim":
            detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            errors.append(invalid(path, source.get("kind") or "", detail))
    elif not tolerate_groups:
        named(errors, f"{path}.apiGroup", group, dns1123_subdomain)
