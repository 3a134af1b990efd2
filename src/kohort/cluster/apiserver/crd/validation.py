"""Validation of CustomResourceDefinitions.

Kubernetes moves what all versions have in common to the top of the definition before it looks at it, so errors about a
schema are reported at `spec.validation` when there is only one, and at `spec.versions[i].schema` when versions differ.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kohort.cluster.apiserver.crd.conversion_rules import conversion_errors
from kohort.cluster.apiserver.crd.definitions import APPROVED, ApprovalState, approval_of, is_established
from kohort.cluster.apiserver.crd.json_path import PathError, resolve
from kohort.cluster.apiserver.schema.has_rules import has_rules
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.structure_rules import violations
from kohort.cluster.apiserver.schema.vocabulary_rules import outside_errors, vocabulary_errors
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError, invalid, not_supported, required
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.names import dns1035_label, dns1123_subdomain

MAX_SELECTABLE: Final = 8
_COLUMN_TYPES: Final = "boolean,date,integer,number,string"
_COLUMN_FORMATS: Final = "byte,date,date-time,double,float,int32,int64,password"
_IMMUTABLE: Final = "field is immutable"


def definition_errors(crd: JsonObject) -> list[FieldError]:
    """Errors of a new definition, its metadata but for the name aside."""
    found = list(_name_errors(crd))
    found += _spec_errors(crd["spec"])
    found += _stored_version_errors(crd)
    found += _approval_errors(crd, None)
    if crd["spec"].get("preserveUnknownFields"):
        found.append(_preserve_error())
    return found


def change_errors(crd: JsonObject, old: JsonObject) -> list[FieldError]:
    """Errors of an update of a definition."""
    spec, before = crd["spec"], old["spec"]
    found = list(_spec_errors(spec, before))
    if is_established(old):
        found += _frozen(spec.get("scope"), before.get("scope"), "spec.scope")
        found += _frozen(spec["names"].get("kind"), before["names"].get("kind"), "spec.names.kind")
    found += _frozen(spec.get("group"), before.get("group"), "spec.group")
    found += _frozen(spec["names"].get("plural"), before["names"].get("plural"), "spec.names.plural")
    found += _stored_version_errors(crd)
    found += _approval_errors(crd, old)
    if spec.get("preserveUnknownFields") and not before.get("preserveUnknownFields"):
        found.append(_preserve_error())
    return found


def status_change_errors(crd: JsonObject) -> list[FieldError]:
    return list(_format_of_names((crd.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"))


def _frozen(new: Json, old: Json, path: str) -> list[FieldError]:
    return [] if new == old else [invalid(path, new, _IMMUTABLE)]


def _preserve_error() -> FieldError:
    detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return invalid("spec.preserveUnknownFields", True, detail)


def _name_errors(crd: JsonObject) -> Iterator[FieldError]:
    name = crd["metadata"].get("name") or ""
    spec = crd["spec"]
    if name != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


# -- spec


def _spec_errors(spec: JsonObject, old: JsonObject | None = None) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    yield from _group_errors(spec.get("group") or "")
    yield from _choice(spec.get("scope") or "", ("Cluster", "Namespaced"), "spec.scope")
    yield from _schemas_present(versions)
    if spec.get("preserveUnknownFields") and any(_has_default(schema) for schema in _schemas(versions)):
        yield invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    common = {key: _common(versions, key) for key in _PARTS}
    accepted = _accepted(old)
    for index, version in enumerate(versions):
        yield from _version_errors(version, f"spec.versions[{index}]", common, accepted)
    yield from _version_set_errors(spec.get("versions"))
    names = spec.get("names") or {}
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield required(f"spec.names.{key}")
    yield from _format_of_names(names, "spec.names")
    if versions:
        yield from _common_errors(versions, common, accepted)
    strategy = (spec.get("conversion") or {}).get("strategy") or ""
    if spec.get("preserveUnknownFields") and strategy != "None":
        yield invalid("spec.conversion.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    yield from conversion_errors(spec.get("conversion"), "spec.conversion")


def _group_errors(group: str) -> Iterator[FieldError]:
    problems = dns1123_subdomain(group)
    if not group:
        yield required("spec.group")
    elif problems:
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _choice(value: str, allowed: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def _schemas_present(versions: list[JsonObject]) -> Iterator[FieldError]:
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")


def _schemas(versions: list[JsonObject]) -> list[JsonObject]:
    found = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    return [schema for schema in found if schema]


def _has_default(schema: JsonObject) -> bool:
    if schema.get("default") is not None:
        return True
    inner = [*(schema.get("properties") or {}).values()]
    inner += [below for key in ("items", "additionalProperties") if isinstance(below := schema.get(key), dict)]
    return any(map(_has_default, inner))


def _version_set_errors(given: list[JsonObject] | None) -> Iterator[FieldError]:
    versions = given or []
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        yield _about_versions(given, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield _about_versions(given, "must have exactly one version marked as storage version")
    if names and names[0] and (problems := dns1035_label(names[0])):
        yield invalid("spec.version", names[0], ",".join(problems))


def _about_versions(versions: list[JsonObject] | None, detail: str) -> FieldError:
    shown = (
        None
        if versions is None
        else [
            {
                "Name": version.get("name") or "",
                "Served": bool(version.get("served")),
                "Storage": bool(version.get("storage")),
                "Deprecated": bool(version.get("deprecated")),
                "DeprecationWarning": version.get("deprecationWarning"),
                "Schema": None,
                "Subresources": None,
                "AdditionalPrinterColumns": None,
                "SelectableFields": None,
            }
            for version in versions
        ]
    )
    text = msgspec.json.encode(shown).decode()
    return FieldError(field_errors.INVALID, "spec.versions", f"Invalid value: {text}: {detail}")


def _format_of_names(names: JsonObject, path: str) -> Iterator[FieldError]:
    mixed = "may have mixed case, but should otherwise match: "
    for key in ("plural", "singular"):
        value = names.get(key) or ""
        if value and (problems := dns1035_label(value)):
            yield invalid(f"{path}.{key}", value, ",".join(problems))
    for key in ("kind", "listKind"):
        value = names.get(key) or ""
        if value and (problems := dns1035_label(value.lower())):
            yield invalid(f"{path}.{key}", value, mixed + ",".join(problems))
    yield from _labels(names.get("shortNames") or (), f"{path}.shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _labels(names.get("categories") or (), f"{path}.categories")


def _labels(values: Json, path: str) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        if problems := dns1035_label(value):
            yield invalid(f"{path}[{index}]", value, ",".join(problems))


# -- versions


def _common(versions: list[JsonObject], key: str) -> bool:
    """Whether all versions say the same, so that it is reported once, at the top."""
    values = [version.get(key) for version in versions]
    return bool(values) and values[0] not in (None, []) and all(value == values[0] for value in values)


Accepted = dict[str, JsonObject]
"""By version: what was accepted before, and is not looked at again while it stays the same. Schemas are large."""


def _accepted(old: JsonObject | None) -> Accepted:
    return {version["name"]: version for version in (old or {}).get("versions") or ()}


def _changed(version: JsonObject, key: str, accepted: Accepted) -> bool:
    before = accepted.get(version.get("name") or "")
    if before is None or key == "selectableFields":
        return True
    return bool(version.get(key) != before.get(key) or version.get("subresources") != before.get("subresources"))


def _version_errors(
    version: JsonObject, path: str, common: dict[str, bool], accepted: Accepted
) -> Iterator[FieldError]:
    name = version.get("name") or ""
    if problems := dns1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(problems))
    for problem in _warning_problems(bool(version.get("deprecated")), version.get("deprecationWarning")):
        yield invalid(f"{path}.deprecationWarning", version["deprecationWarning"], problem)
    for key, check in _PARTS.items():
        if not common[key] and _changed(version, key, accepted):
            yield from check(version, f"{path}.{key}")


def _common_errors(versions: list[JsonObject], common: dict[str, bool], accepted: Accepted) -> Iterator[FieldError]:
    for key, check in _PARTS.items():
        if common[key] and any(_changed(version, key, accepted) for version in versions):
            yield from check(versions[0], "spec." + ("validation" if key == "schema" else key))


def _warning_problems(deprecated: bool, text: str | None) -> Iterator[str]:
    if text is None:
        return
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(text.encode()) > 256:
        yield "must be <= 256 characters long"
    if not text:
        yield "must not be an empty string"
    hidden = next((place for place, char in enumerate(text) if not char.isprintable()), None)
    if hidden is not None:
        position = len(text[:hidden].encode())
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {position}"


def _schema_errors(version: JsonObject, path: str) -> Iterator[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return
    where = f"{path}.openAPIV3Schema"
    if outside := outside_errors(schema, where):
        yield from outside
        return
    found = violations(schema, where, status_subresource="status" in (version.get("subresources") or {}))
    yield from found
    if not has_rules(schema):
        return
    # A schema that is not structural has no types; one that is misspelt somewhere has them everywhere else.
    from kohort.cluster.apiserver.crd.rule_compilation import default_rule_errors, expression_errors

    misspelt = list(vocabulary_errors(schema, where)) if found else []
    if len(misspelt) == len(found):
        unclear = [error.field for error in misspelt]
        wrong = expression_errors(compile_crd_schema(schema), where, unclear=unclear)
        yield from wrong or (() if found else default_rule_errors(schema, where))


def _subresource_errors(version: JsonObject, path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    yield from _replicas_path(scale.get("specReplicasPath") or "", ".spec.", f"{path}.scale.specReplicasPath")
    yield from _replicas_path(scale.get("statusReplicasPath") or "", ".status.", f"{path}.scale.statusReplicasPath")
    selector = scale.get("labelSelectorPath") or ""
    where = f"{path}.scale.labelSelectorPath"
    if selector and not selector.startswith("."):
        yield invalid(where, selector, "must be a simple json path starting with .")
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield invalid(where, selector, "should be a json path under either .spec or .status")


def _replicas_path(value: str, prefix: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif not value.startswith("."):
        yield invalid(path, value, "must be a simple json path starting with .")
    elif not value.startswith(prefix):
        yield invalid(path, value, f"should be a json path under {prefix[:-1]}")


def _column_errors(version: JsonObject, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        kind, format = column.get("type") or "", column.get("format") or ""
        if not kind:
            yield required(f"{where}.type", f"must be one of {_COLUMN_TYPES}")
        elif kind not in _COLUMN_TYPES.split(","):
            yield invalid(f"{where}.type", kind, f"must be one of {_COLUMN_TYPES}")
        if format and format not in _COLUMN_FORMATS.split(","):
            yield invalid(f"{where}.format", format, f"must be one of {_COLUMN_FORMATS}")
        json_path = column.get("jsonPath") or ""
        if not json_path:
            yield required(f"{where}.JSONPath")
        elif not json_path.startswith("."):
            yield invalid(f"{where}.JSONPath", json_path, "must be a simple json path starting with .")


def _selectable_errors(version: JsonObject, path: str) -> Iterator[FieldError]:
    fields = version.get("selectableFields") or ()
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not fields:
        return
    if schema is None:
        detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
        if path == "spec.selectableFields":
            detail = "may only be set when validations.schema is included"
        yield invalid(path, "", detail)
        return
    node = compile_crd_schema(schema)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where = f"{path}[{index}].jsonPath"
        json_path = field.get("jsonPath") or ""
        if not json_path:
            yield required(where)
            continue
        try:
            resolved, target = resolve(json_path, node, brackets=False)
        except PathError as error:
            yield invalid(where, json_path, f"is an invalid path: {error}")
            continue
        if resolved.startswith("metadata"):
            yield invalid(where, json_path, "must not point to fields in metadata")
        if target.type not in ("string", "boolean", "integer"):
            yield invalid(
                where,
                json_path,
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed.",
            )
        if resolved in seen:
            yield field_errors.duplicate(where, json_path)
        seen.add(resolved)
    if len(seen) > MAX_SELECTABLE:
        yield field_errors.too_many(path, len(seen), MAX_SELECTABLE)


_PARTS: dict[str, Callable[[JsonObject, str], Iterator[FieldError]]] = {
    "schema": _schema_errors,
    "subresources": _subresource_errors,
    "additionalPrinterColumns": _column_errors,
    "selectableFields": _selectable_errors,
}


# -- status and approval


def _stored_version_errors(crd: JsonObject) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored = (crd.get("status") or {}).get("storedVersions") or []
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    left = {name: index for index, name in enumerate(stored)}
    for version in crd["spec"].get("versions") or ():
        name = version.get("name")
        if version.get("storage") and name not in left:
            yield invalid(path, stored, f"must have the storage version {name}")
        left.pop(name, None)
    for name, index in left.items():
        yield invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} "
            "from status.storedVersions",
        )


def _approval_errors(crd: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
    approval, before = approval_of(crd), approval_of(old) if old is not None else None
    if approval is None or (before is not None and before.state is approval.state):
        return
    path = f"metadata.annotations[{APPROVED}]"
    if approval.state is ApprovalState.MISSING:
        yield required(path, approval.explanation)
    elif approval.state is ApprovalState.INVALID:
        yield invalid(path, crd["metadata"]["annotations"][APPROVED], approval.explanation)
