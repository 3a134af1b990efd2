"""Roles and bindings: what they must say. Whether a caller may grant it is decided in admission."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, named
from kohort.objects.field_errors import FieldError, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, path_segment
from kohort.objects.selectors import selector_errors

GROUP: Final = "rbac.authorization.k8s.io"


class _Rbac(Strategy):
    create_on_update = True
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment(name)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class RoleStrategy(_Rbac):
    namespaced = True

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        for index, rule in enumerate(obj.get("rules") or ()):
            _check_rule(errors, f"rules[{index}]", rule, self.namespaced)
        return errors


class ClusterRoleStrategy(RoleStrategy):
    namespaced = False

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors = super().validate(context, obj)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
            if not selectors:
                detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                errors.append(required(path, detail))
            for index, selector in enumerate(selectors):
                found = selector_errors(selector, f"{path}[{index}]")
                if found:
                    detail = f"invalid label selector: {found[0].message}"
                    errors += [*found, invalid(f"{path}[{index}]", None, detail)]
        return errors


def _check_rule(errors: Errors, path: str, rule: JsonObject, namespaced: bool) -> None:
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(where, urls, detail))
        return
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


class RoleBindingStrategy(_Rbac):
    namespaced = True
    roles: tuple[str, ...] = ("Role", "ClusterRole")

    def default(self, obj: JsonObject) -> None:
        role = obj.setdefault("roleRef", {})
        if not role.get("apiGroup"):
            role["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        role = obj.get("roleRef") or {}
        if role.get("apiGroup") != GROUP:
            errors.append(not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (GROUP,)))
        if role.get("kind") not in self.roles:
            errors.append(not_supported("roleRef.kind", role.get("kind") or "", self.roles))
        if not role.get("name"):
            errors.append(required("roleRef.name"))
        else:
            named(errors, "roleRef.name", role["name"], path_segment)
        for index, subject in enumerate(obj.get("subjects") or ()):
            _check_subject(errors, f"subjects[{index}]", subject, self.namespaced)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        if (obj.get("roleRef") or {}) != (old.get("roleRef") or {}):
            reference = obj.get("roleRef") or {}
            words = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
            shown = {word: reference.get(field) or "" for word, field in words}
            errors.append(invalid("roleRef", shown, "cannot change roleRef"))
        return errors


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    namespaced = False
    roles = ("ClusterRole",)


def _check_subject(errors: Errors, path: str, subject: JsonObject, namespaced: bool) -> None:
    name, kind, group = subject.get("name"), subject.get("kind"), subject.get("apiGroup") or ""
    if not name:
        errors.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            named(errors, f"{path}.name", name, dns1123_subdomain)
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group")))
