"""The volumes of a pod: one source each, and what every source must say."""

from typing import Final

from kohort.cluster.apiserver.kinds.claim_spec import check_claim_spec
from kohort.cluster.apiserver.kinds.pod.environment import (
    VOLUME_FIELDS,
    check_field_reference,
    check_resource_reference,
)
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.volume_sources import check_driver_name, check_source
from kohort.cluster.apiserver.schema.field_checks import (
    Errors,
    descending_path,
    dns_label,
    local_path,
    named,
    problems_of,
    quantity,
)
from kohort.cluster.apiserver.schema.metadata_rules import labels_and_annotations_only
from kohort.objects.field_errors import duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain

_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_ODD_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""How two of them are spelled when a second source is refused."""
_ODD_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
BAD_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def check_volumes(errors: Errors, path: str, volumes: list[JsonObject], rules: PodRules) -> dict[str, JsonObject]:
    """The volumes without fault, by name: what containers can mount."""
    good: dict[str, JsonObject] = {}
    pod_name = rules.metadata.get("name")
    created = {f"{pod_name}-{volume.get('name')}" for volume in volumes if "ephemeral" in volume} if pod_name else set()
    for index, volume in enumerate(volumes):
        before = len(errors)
        name = volume.get("name") or ""
        here = f"{path}[{index}]"
        _check_sources(errors, here, name, volume, rules)
        if not name:
            errors.append(required(f"{here}.name"))
        elif problems_of(dns1123_label, name):
            dns_label(errors, f"{here}.name", name)
        if name in good:
            errors.append(duplicate(f"{here}.name", name))
        if len(errors) == before:
            good[name] = volume
        claim = volume.get("persistentVolumeClaim")
        if created and claim is not None and claim.get("claimName") in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{here}.persistentVolumeClaim.claimName", claim["claimName"], detail))
    return good


def _check_sources(errors: Errors, path: str, volume_name: str, volume: JsonObject, rules: PodRules) -> None:
    found = [name for name in volume if name != "name" and volume[name] is not None]
    if not found:
        errors.append(required(path, "must specify a volume type"))
        return
    if len(found) > 1:
        found.sort(key=_ORDER.index)
    for name in found[1:]:
        odd = _ODD_NAMES.get(name, name)
        errors.append(forbidden(f"{path}.{odd}", "may not specify more than 1 volume type"))
    name = found[0]
    _check_source(errors, path, name, volume[name], volume_name, rules)


def _check_source(
    errors: Errors, volume_path: str, name: str, source: JsonObject, volume_name: str, rules: PodRules
) -> None:
    path = f"{volume_path}.{_ODD_PATHS.get(name, name)}"
    if name == "emptyDir":
        limit = source.get("sizeLimit")
        if limit is not None and quantity(limit).nano < 0:
            errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))
    elif name == "configMap":
        _check_keyed(errors, path, source, "name")
    elif name == "secret":
        _check_keyed(errors, path, source, "secretName")
    elif name == "persistentVolumeClaim":
        if not source.get("claimName"):
            errors.append(required(f"{path}.claimName"))
    elif name == "projected":
        _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
        _check_projections(errors, path, source)
    elif name == "downwardAPI":
        _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
        for file in source.get("items") or ():
            _check_downward_file(errors, path, file)
    elif name == "gitRepo":
        if not source.get("repository"):
            errors.append(required(f"{path}.repository"))
        descending_path(errors, f"{path}.directory", source.get("directory") or "")
    elif name == "csi":
        _check_csi(errors, path, source)
    elif name == "ephemeral":
        _check_ephemeral(errors, volume_path, source, volume_name, rules)
    elif name == "image":
        if rules.is_pod and not source.get("reference"):
            errors.append(required(f"{path}.reference"))
        if source.get("pullPolicy") not in PULL_POLICIES:
            errors.append(not_supported(f"{path}.pullPolicy", source.get("pullPolicy") or "", PULL_POLICIES))
    else:
        check_source(errors, path, name, source)
        if name == "iscsi":
            _check_initiator_length(errors, volume_path, volume_name, source)


def _check_initiator_length(errors: Errors, path: str, volume_name: str, source: JsonObject) -> None:
    if source.get("initiatorName") is not None and len(f"{volume_name}:{source.get('targetPortal') or ''}") > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
            "if iscsi.initiatorName is specified."
        )
        errors.append(invalid(f"{path}.name", volume_name, detail))


def _check_mode(errors: Errors, path: str, mode: int | None) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(invalid(path, mode, BAD_MODE))


def _check_keyed(errors: Errors, path: str, source: JsonObject, name_field: str) -> None:
    if not source.get(name_field):
        errors.append(required(f"{path}.{name_field}"))
    _check_mode(errors, f"{path}.defaultMode", source.get("defaultMode"))
    for index, item in enumerate(source.get("items") or ()):
        _check_item(errors, f"{path}.items[{index}]", item)


def _check_item(errors: Errors, path: str, item: JsonObject) -> None:
    errors += [required(f"{path}.{field}") for field in ("key", "path") if not item.get(field)]
    local_path(errors, f"{path}.path", item.get("path") or "")
    _check_mode(errors, f"{path}.mode", item.get("mode"))


def _check_downward_file(errors: Errors, path: str, file: JsonObject) -> None:
    if not file.get("path"):
        errors.append(required(f"{path}.path"))
    local_path(errors, f"{path}.path", file.get("path") or "")
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        check_field_reference(errors, f"{path}.fieldRef", field, VOLUME_FIELDS)
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource is not None:
        check_resource_reference(errors, f"{path}.resourceFieldRef", resource, in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    _check_mode(errors, f"{path}.mode", file.get("mode"))


def _check_projections(errors: Errors, path: str, projected: JsonObject) -> None:
    seen: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for name in ("secret", "configMap"):
            if source.get(name) is not None:
                _check_projected_keys(errors, path, f"{here}.{name}", source[name], seen)
        if source.get("downwardAPI") is not None:
            for file in source["downwardAPI"].get("items") or ():
                _check_downward_file(errors, f"{here}.downwardAPI", file)
                _claim_path(errors, path, file.get("path"), file.get("path"), seen)
        if source.get("serviceAccountToken") is not None:
            _check_token(errors, path, f"{here}.serviceAccountToken", source["serviceAccountToken"])
        if sum(value is not None for value in source.values()) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))


def _check_projected_keys(errors: Errors, volume_path: str, path: str, source: JsonObject, seen: set[str]) -> None:
    if not source.get("name"):
        errors.append(required(f"{path}.name"))
    for index, item in enumerate(source.get("items") or ()):
        _check_item(errors, f"{path}.items[{index}]", item)
        _claim_path(errors, volume_path, item.get("path"), source.get("name"), seen)


def _claim_path(errors: Errors, path: str, target: str | None, shown: str | None, seen: set[str]) -> None:
    if not target:
        return
    if target in seen:
        errors.append(invalid(path, shown or "", "conflicting duplicate paths"))
    seen.add(target)


def _check_token(errors: Errors, volume_path: str, path: str, token: JsonObject) -> None:
    seconds = token.get("expirationSeconds") or 0
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if not token.get("path"):
        errors.append(required(f"{volume_path}.path"))
    else:
        local_path(errors, f"{volume_path}.path", token["path"])


def _check_csi(errors: Errors, path: str, source: JsonObject) -> None:
    check_driver_name(errors, f"{path}.driver", source.get("driver"))
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    if not secret.get("name"):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))
    else:
        named(errors, f"{path}.name", secret["name"], dns1123_subdomain)


def _check_ephemeral(errors: Errors, path: str, source: JsonObject, volume_name: str, rules: PodRules) -> None:
    here = f"{path}.ephemeral.volumeClaimTemplate"
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(required(here))
    else:
        errors += labels_and_annotations_only(template.get("metadata") or {}, f"{here}.metadata")
        check_claim_spec(errors, f"{here}.spec", template.get("spec") or {})
    pod_name = rules.metadata.get("name")
    if pod_name and volume_name:
        claim = f"{pod_name}-{volume_name}"
        for problem in dns1123_subdomain(claim):
            errors.append(invalid(f"{path}.name", volume_name, f'PVC name "{claim}": {problem}'))
