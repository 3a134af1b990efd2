"""Privilege escalation: users may only grant permissions that they have.

Writing a role needs all permissions in it, or the verb `escalate` on the role; a role that gathers its rules from
others can be written only with all permissions that there are. Writing a binding needs all permissions of the role it
refers to, or the verb `bind` on that role. It is checked as an admission step: early, so that it comes before the
validation of the object, and again on the final object, because a webhook may have changed it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.auth.model import AccessRequest
from kohort.cluster.apiserver.auth.rbac import SUPERUSERS, Authorizer, RoleRef
from kohort.cluster.apiserver.auth.rbac_rules import Rule, missing, permissions_in, quoted
from kohort.kube import errors
from kohort.objects.json_types import JsonObject

GROUP = "rbac.authorization.k8s.io"
ROLES = ("roles", "clusterroles")
MAX_PERMISSIONS: Final = 10_000
"""Combinations of verb, group, resource and name in one role; each is compared with all that the writer holds."""
FULL_AUTHORITY: Final = (
    Rule(verbs=("*",), api_groups=("*",), resources=("*",)),
    Rule(verbs=("*",), non_resource_urls=("*",)),
)


class EscalationCheck:
    name = "RBACEscalation"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.resource.group == GROUP
            and attributes.operation in ("CREATE", "UPDATE")
            and not attributes.subresource
            and SUPERUSERS not in attributes.user.groups
        )

    async def mutate(self, attributes: Attributes) -> None:
        self._check(attributes)

    async def validate(self, attributes: Attributes) -> None:
        self._check(attributes)

    def _check(self, attributes: Attributes) -> None:
        written = attributes.object
        if written is None or _only_collection_fields_differ(written, attributes.old_object):
            return
        if attributes.resource.plural in ROLES:
            self._check_role(attributes, written)
        else:
            self._check_binding(attributes, written)

    def _check_role(self, attributes: Attributes, role: JsonObject) -> None:
        plural = attributes.resource.plural
        if self._may(attributes, "escalate", plural, attributes.name):
            return
        self._refuse_missing(attributes, _rules(role.get("rules")))
        # An aggregation can gather any rule that exists or will exist; ending one changes what others were given.
        if _aggregates(role) or _aggregates(attributes.old_object):
            self._refuse_missing(attributes, FULL_AUTHORITY)

    def _check_binding(self, attributes: Attributes, binding: JsonObject) -> None:
        try:
            ref = msgspec.convert(binding.get("roleRef"), RoleRef)
        except msgspec.ValidationError:
            return  # Validation of the object will say what is wrong with it.
        if self._may(attributes, "bind", f"{ref.kind.lower()}s", ref.name):
            return
        rules = self._authorizer.role_rules(ref, attributes.namespace)
        if rules is None:
            raise errors.not_found(attributes.resource.plural, ref.name, GROUP)
        self._refuse_missing(attributes, rules)

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        request = AccessRequest(attributes.user, verb, GROUP, "v1", plural, namespace=attributes.namespace, name=name)
        return self._authorizer.authorize(request).allowed

    def _refuse_missing(self, attributes: Attributes, wanted: Sequence[Rule]) -> None:
        user = attributes.user
        combinations = sum(map(permissions_in, wanted))
        if combinations > MAX_PERMISSIONS:
            detail = (
                f'user "{user.name}" is attempting to grant {combinations} permissions at once; at most '
                f"{MAX_PERMISSIONS} can be compared with those held: use wildcards, or several roles"
            )
            raise errors.forbidden(attributes.resource.plural, _name(attributes), detail, GROUP)
        lacking = missing(self._authorizer.rules_for(user, attributes.namespace), wanted)
        if not lacking:
            return
        listed = "\n".join(sorted({str(rule) for rule in lacking}))
        detail = (
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}"
        )
        raise errors.forbidden(attributes.resource.plural, _name(attributes), detail, GROUP)


def _aggregates(role: JsonObject | None) -> bool:
    """Whether the rules of a role are gathered from others."""
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _rules(rules: object) -> list[Rule]:
    try:
        return msgspec.convert(rules or [], list[Rule])
    except msgspec.ValidationError:
        return []  # Validation of the object will say what is wrong with it.


def _name(attributes: Attributes) -> str:
    metadata = (attributes.object or {}).get("metadata") or {}
    name: str = attributes.name or metadata.get("name", "")
    return name


def _only_collection_fields_differ(written: JsonObject, old: JsonObject | None) -> bool:
    """Whether an update touches only what garbage collection needs to get rid of the object."""
    return old is not None and _without_collection_fields(written) == _without_collection_fields(old)


def _without_collection_fields(document: JsonObject) -> JsonObject:
    ignored = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key not in ignored}
    return {**document, "metadata": metadata}
