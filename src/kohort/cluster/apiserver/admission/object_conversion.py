"""Objects between versions, and after a patch by a webhook or policy.

A webhook may see an object in another version than the request, and may leave anything behind. Its result is fitted to
the schema again, with unknown fields dropped and defaults filled in, as if a client had sent it.
"""

from collections.abc import Callable, Sequence

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.schema import builtin, decode
from kohort.cluster.apiserver.schema.go_zero_values import complete
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

KindsOf = Callable[[Resource], Sequence[Kind]]
"""The served versions of a resource, its own among them."""


def converted(obj: JsonObject, attributes: Attributes, target: Resource, kinds_of: KindsOf) -> JsonObject:
    """An object of the request in the version of `target`. Objects of subresources have versions of their own."""
    return _between(obj, attributes.resource, target, kinds_of)


def _between(obj: JsonObject, source: Resource, target: Resource, kinds_of: KindsOf) -> JsonObject:
    if source == target or obj.get("apiVersion") != source.api_version:
        return obj
    kinds = {kind.resource: kind for kind in kinds_of(source)}
    own, wanted = kinds[source], kinds[target]
    stored = own.to_storage(obj) if own.to_storage is not None else obj
    served = wanted.from_storage(stored) if wanted.from_storage is not None else stored
    return {**served, "apiVersion": target.api_version, "kind": target.kind}


def node_of(obj: JsonObject, resource: Resource, kinds_of: KindsOf) -> Node | None:
    """The schema of an object as a request on `resource` brings it; a subresource may have a kind of its own."""
    if obj.get("kind") != resource.kind or obj.get("apiVersion") != resource.api_version:
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        known = builtin.is_builtin(group, version, str(obj.get("kind")))
        return builtin.kind_node(group, version, obj["kind"]) if known else None
    kind = next((one for one in kinds_of(resource) if one.resource == resource), None)
    return kind.schema() if kind is not None else None


def reshaped(obj: JsonObject, attributes: Attributes, resource: Resource, kinds_of: KindsOf) -> None:
    """Fit a patched object to its schema again, in place. Raises ApiError when it cannot be fitted."""
    node = node_of(obj, resource, kinds_of)
    if node is None:
        return
    decode.conform(obj, node)
    kind = next((one for one in kinds_of(resource) if one.resource == resource), None)
    if kind is None or obj.get("kind") != resource.kind or obj.get("apiVersion") != resource.api_version:
        return
    kind.strategy.default(obj)
    if not kind.custom:
        complete(obj, node, nulls=False)


def replace_content(
    obj: JsonObject, new: JsonObject, attributes: Attributes, matched: Resource, kinds_of: KindsOf
) -> None:
    """Put what a webhook left, in the version it saw, in the place of the request's object."""
    back = _between(new, matched, attributes.resource, kinds_of)
    obj.clear()
    obj.update(back)
