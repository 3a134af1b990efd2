"""From a CustomResourceDefinition to what is served: kinds, and the definition's own status.

Kubernetes lets controllers find out after a while whether the names are free and the endpoint is up. Here both are
decided in the write itself: a definition that was accepted is established, and the kinds in this module are served from
the same moment on.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from kohort.cluster.apiserver.crd import accepted_names
from kohort.cluster.apiserver.crd.conversion import DefinitionVersions
from kohort.cluster.apiserver.crd.json_path import values_at
from kohort.cluster.apiserver.crd.stored_versions import storage_versions
from kohort.cluster.apiserver.crd.strategy import CustomResourceStrategy
from kohort.cluster.apiserver.kinds.model import Kind, Subresource
from kohort.cluster.apiserver.kinds.version_priority import version_priority
from kohort.cluster.apiserver.representation.tables import custom_columns
from kohort.kube import clock
from kohort.kube.resources import Resource
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject

APPROVED: Final = well_known_names.API_APPROVED
_READ_WRITE: Final = ("get", "patch", "update")


# -- kinds


def kinds_of(crd: JsonObject, versions: DefinitionVersions | None = None) -> list[Kind]:
    """The kinds that an established definition serves, one for each served version; empty for any other."""
    if not is_established(crd):
        return []
    versions = versions or DefinitionVersions(crd)
    return [_kind(crd, version, versions) for version in crd["spec"]["versions"] if version.get("served")]


def is_established(crd: JsonObject) -> bool:
    return condition(crd, "Established").get("status") == "True"


def _kind(crd: JsonObject, version: JsonObject, versions: DefinitionVersions) -> Kind:
    spec, names = crd["spec"], crd["status"]["acceptedNames"]
    resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced")
    schema = versions.schemas[version["name"]]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    columns, cells = custom_columns(version)
    paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
    from_storage, to_storage = versions.conversions(version["name"])
    return Kind(
        resource=resource,
        schema=schema,
        strategy=CustomResourceStrategy(resource, schema, has_status="status" in subresources, scale=scale),
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or names["kind"] + "List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=_subresources(resource, subresources),
        columns=columns,
        cells=cells,
        selectable=_selectable(paths),
        selectable_names=frozenset(path.removeprefix(".") for path in paths),
        from_storage=from_storage,
        to_storage=to_storage,
        stored_defaults=versions.stored_defaults(version["name"]),
        scale_paths=_scale_paths(scale) if scale else None,
        deprecation_warning=_deprecation(spec, version),
        custom=True,
    )


def _subresources(resource: Resource, declared: JsonObject) -> dict[str, Subresource]:
    served: dict[str, Subresource] = {}
    if "status" in declared:
        served["status"] = Subresource("status", resource.kind, _READ_WRITE)
    if "scale" in declared:
        served["scale"] = Subresource("scale", "Scale", _READ_WRITE, "autoscaling", "v1")
    return served


def _scale_paths(scale: JsonObject) -> tuple[str, str, str]:
    return scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""


def _selectable(paths: list[str]) -> Callable[[JsonObject], dict[str, str]]:
    steps = {path.removeprefix("."): values_at(path) for path in paths}
    return lambda obj: {name: _text_at(obj, names) for name, names in steps.items()}


def _text_at(obj: JsonObject, names: list[str]) -> str:
    value: Json = obj
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _deprecation(spec: JsonObject, version: JsonObject) -> str:
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    better = sorted(
        (other["name"] for other in spec["versions"] if other.get("served") and not other.get("deprecated")),
        key=version_priority,
    )
    text = f"{group}/{name} {kind} is deprecated"
    if better and version_priority(better[0]) < version_priority(name):
        text += f"; use {group}/{better[0]} {kind}"
    return text


# -- status


def condition(crd: JsonObject, type: str) -> JsonObject:
    """A condition of the status, empty when there is none."""
    found = (crd.get("status") or {}).get("conditions") or ()
    return next((entry for entry in found if entry["type"] == type), {})


def status_for(crd: JsonObject, others: Iterable[JsonObject]) -> JsonObject:
    """The status of a definition beside the other definitions, carrying on from the status it has."""
    verdict = accepted_names.decide_names(crd, others)
    conditions = _Conditions(crd)
    if verdict.conflict:
        conditions.set("NamesAccepted", False, verdict.reason, verdict.message)
        if not is_established(crd):
            conditions.set("Established", False, "NotAccepted", "not all names are accepted")
    else:
        conditions.set("NamesAccepted", True, "NoConflicts", "no conflicts found")
        if not is_established(crd):
            conditions.set("Established", True, "InitialNamesAccepted", "the initial names have been accepted")
    approval = _approval_condition(crd)
    if approval is not None:
        conditions.set(*approval)
    stored = (crd.get("status") or {}).get("storedVersions") or storage_versions(crd)
    return {"conditions": conditions.entries, "acceptedNames": verdict.accepted, "storedVersions": stored}


class _Conditions:
    """The conditions of a definition; the time of one moves only with its status."""

    def __init__(self, crd: JsonObject) -> None:
        self.entries: list[JsonObject] = [dict(entry) for entry in (crd.get("status") or {}).get("conditions") or ()]

    def set(self, type: str, holds: bool, reason: str, message: str) -> None:
        status = "True" if holds else "False"
        entry = next((entry for entry in self.entries if entry["type"] == type), None)
        if entry is None:
            entry = {"type": type, "status": status, "lastTransitionTime": clock.timestamp()}
            self.entries.append(entry)
        elif entry["status"] != status:
            entry["status"] = status
            entry["lastTransitionTime"] = clock.timestamp()
        entry["reason"] = reason
        entry["message"] = message


# -- approval of community groups


class ApprovalState(StrEnum):
    MISSING = "Missing"
    INVALID = "Invalid"
    UNAPPROVED = "Unapproved"
    APPROVED = "Approved"


class Approval(NamedTuple):
    state: ApprovalState
    explanation: str


def approval_of(crd: JsonObject) -> Approval | None:
    """The approval that groups of the community need; None for other groups."""
    group = crd["spec"].get("group") or ""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return None
    text = ((crd.get("metadata") or {}).get("annotations") or {}).get(APPROVED) or ""
    rule = f'protected groups must have approval annotation "{APPROVED}"'
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        return Approval(ApprovalState.MISSING, f"{rule}, {see}")
    if text.startswith("unapproved"):
        return Approval(ApprovalState.UNAPPROVED, f'not approved: "{text}"')
    if _is_full_url(text):
        return Approval(ApprovalState.APPROVED, f"approved in {text}")
    problem = f'{rule} with either a URL or a reason starting with "unapproved", {see}'
    return Approval(ApprovalState.INVALID, problem)


_PLAIN_URL: Final = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.-]*(?:/[A-Za-z0-9._/-]*)?", re.ASCII)


def _is_full_url(text: str) -> bool:
    if _PLAIN_URL.fullmatch(text):
        return True  # as nearly always, and the grammar of URLs comes with all of the expression language
    from kohort.cluster.apiserver.cel.functions.urls import parse as parse_url

    try:
        url = parse_url(text, fragments=False)
    except ValueError:
        return False
    return bool(url.host and url.scheme)


def _approval_condition(crd: JsonObject) -> tuple[str, bool, str, str] | None:
    approval = approval_of(crd)
    if approval is None:
        return None
    approved = approval.state is ApprovalState.APPROVED
    return "KubernetesAPIApprovalPolicyConformant", approved, f"{approval.state}Annotation", approval.explanation
