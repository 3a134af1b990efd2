"""Which requests a webhook or policy is asked about.

A rule names operations, groups, versions and resources, `*` standing for all; `pods` is the resource without its
subresources, `pods/*` with all of them, `*/scale` one subresource of everything. Selectors narrow further: by the
labels of the namespace, and by those of the object before or after the change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.storage.model import Store
from kohort.kube import errors
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector

_EVERYTHING = LabelSelector()


@dataclass(frozen=True, slots=True)
class Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource."""
    scope: str
    names: frozenset[str]
    """Only objects of these names, when there are any; policies have them."""

    @staticmethod
    def parse(rule: JsonObject) -> "Rule":
        return Rule(
            operations=frozenset(rule.get("operations") or ()),
            groups=frozenset(rule.get("apiGroups") or ()),
            versions=frozenset(rule.get("apiVersions") or ()),
            resources=tuple(_split(entry) for entry in rule.get("resources") or ()),
            scope=rule.get("scope") or "*",
            names=frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, resource: Resource) -> bool:
        """Whether the rule covers the request, were it made for `resource`."""
        return (
            _has(self.operations, attributes.operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and self._has_resource(resource.plural, attributes.subresource)
            and self._in_scope(attributes, resource)
            and (not self.names or attributes.name in self.names)
        )

    def _has_resource(self, plural: str, subresource: str) -> bool:
        return any(name in ("*", plural) and sub in ("*", subresource) for name, sub in self.resources)

    def _in_scope(self, attributes: Attributes, resource: Resource) -> bool:
        if self.scope == "*":
            return True
        cluster = is_namespace(resource) or not attributes.namespace
        return cluster == (self.scope == "Cluster")


def _split(entry: str) -> tuple[str, str]:
    resource, _, subresource = entry.partition("/")
    return resource, subresource


def _has(allowed: frozenset[str], value: str) -> bool:
    return value in allowed or "*" in allowed


def is_namespace(resource: Resource) -> bool:
    return resource.plural == "namespaces" and not resource.group


class Selectors:
    """The two label selectors of a webhook or policy."""

    __slots__ = ("_namespace", "_object")

    def __init__(self, namespace: JsonObject | None, obj: JsonObject | None) -> None:
        self._namespace = LabelSelector.from_object(namespace) if namespace else _EVERYTHING
        self._object = LabelSelector.from_object(obj) if obj else _EVERYTHING

    def match(self, attributes: Attributes, store: Store) -> bool:
        return self._match_namespace(attributes, store) and self._match_object(attributes)

    def _match_object(self, attributes: Attributes) -> bool:
        if not self._object.requirements:
            return True
        candidates = (attributes.object, attributes.old_object)
        return any(one is not None and self._object.matches(_labels(one)) for one in candidates)

    def _match_namespace(self, attributes: Attributes, store: Store) -> bool:
        if not self._namespace.requirements:
            return True
        namespace = is_namespace(attributes.resource)
        if not namespace and not attributes.namespace:
            return True  # objects outside of namespaces are never exempt
        if namespace and not attributes.subresource and attributes.operation in ("CREATE", "UPDATE"):
            return self._namespace.matches(_labels(attributes.object or {}))
        name = attributes.name if namespace else attributes.namespace
        stored = store.get("namespaces", "", name)
        if stored is None:
            raise errors.not_found("namespaces", name)
        return self._namespace.matches(stored.labels)


def _labels(obj: JsonObject) -> JsonObject:
    labels: JsonObject = (obj.get("metadata") or {}).get("labels") or {}
    return labels


Equivalents = Callable[[], Sequence[Resource]]
"""The versions of the requested resource; only asked for when the requested one does not match."""


def equivalents(kinds: Sequence[Kind], subresource: str) -> list[Resource]:
    """The versions of a resource, of those that have the requested subresource."""
    return [kind.resource for kind in kinds if not subresource or subresource in kind.subresources]


def first_match(rules: Sequence[Rule], attributes: Attributes, others: Equivalents | None) -> Resource | None:
    """The resource as which a request is matched: its own, or else the first equivalent one that a rule names."""
    own = attributes.resource
    for rule in rules:
        if rule.matches(attributes, own):
            return own
    if others is None:
        return None
    candidates = others()
    for rule in rules:
        for other in candidates:
            if other != attributes.resource and rule.matches(attributes, other):
                return other
    return None
