"""Environments of expressions about a request: match conditions of webhooks, admission policies.

`object` and `oldObject` are plain JSON here, since one expression sees objects of many kinds; what is misspelt in them
shows when it is evaluated. `request` has a type, so that a mistake in it shows at once.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from kohort.cluster.apiserver.cel import Environment, kubernetes_environment
from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.environment import mutation_environment
from kohort.cluster.apiserver.cel.types import StructType, Type
from kohort.objects.json_types import Json

_KIND: Final = StructType("kubernetes.GroupVersionKind", {"group": t.STRING, "version": t.STRING, "kind": t.STRING})
_RESOURCE: Final = StructType(
    "kubernetes.GroupVersionResource", {"group": t.STRING, "version": t.STRING, "resource": t.STRING}
)
_USER: Final = StructType(
    "kubernetes.UserInfo",
    {
        "username": t.STRING,
        "uid": t.STRING,
        "groups": t.list_of(t.STRING),
        "extra": t.map_of(t.STRING, t.list_of(t.STRING)),
    },
)
REQUEST: Final = StructType(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": t.STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": t.STRING,
        "name": t.STRING,
        "namespace": t.STRING,
        "operation": t.STRING,
        "userInfo": _USER,
        "dryRun": t.BOOL,
        "options": t.DYN,
    },
)
_NAMESPACE: Final = StructType(
    "kubernetes.Namespace",
    {
        "metadata": StructType(
            "kubernetes.NamespaceMetadata",
            {
                "name": t.STRING,
                "generateName": t.STRING,
                "namespace": t.STRING,
                "labels": t.map_of(t.STRING, t.STRING),
                "annotations": t.map_of(t.STRING, t.STRING),
                "UID": t.STRING,
                "creationTimestamp": t.TIMESTAMP,
                "deletionGracePeriodSeconds": t.INT,
                "deletionTimestamp": t.TIMESTAMP,
                "generation": t.INT,
                "resourceVersion": t.STRING,
                "finalizers": t.list_of(t.STRING),
            },
        ),
        "spec": StructType("kubernetes.NamespaceSpec", {"finalizers": t.list_of(t.STRING)}),
        "status": StructType("kubernetes.NamespaceStatus", {"phase": t.STRING}),
    },
)


@cache
def condition_environment() -> Environment:
    """For match conditions of webhooks."""
    base = kubernetes_environment()
    return base.with_variables(_variables(base))


def policy_environment(
    variables: Mapping[str, Type],
    *,
    params: bool,
    authorizer: bool = True,
    mutating: bool = False,
    variables_visible: bool = True,
) -> Environment:
    """For admission policies. `variables` are the types of the policy's own variables that are defined so far."""
    base = mutation_environment() if mutating else kubernetes_environment()
    names = _variables(base)
    if not authorizer:
        names.pop("authorizer")
        names.pop("authorizer.requestResource")
    names["namespaceObject"] = _NAMESPACE
    names["params"] = t.DYN
    names["variables"] = StructType("kubernetes.variables", dict(variables))
    if not params:
        names.pop("params")
    if not variables_visible:
        names.pop("variables")
    structs = _MUTATION_STRUCTS if mutating else {}
    return base.with_variables(names, structs=structs)


def _variables(base: Environment) -> dict[str, Type]:
    prefix = "kubernetes.authorization."
    return {
        "object": t.DYN,
        "oldObject": t.DYN,
        "request": REQUEST,
        "authorizer": base.type(prefix + "Authorizer"),
        "authorizer.requestResource": base.type(prefix + "ResourceCheck"),
    }


class _MutationStructs(dict[str, StructType]):
    """`JSONPatch`, and `Object` with everything below it: `Object.spec.template` is whatever the schema makes it."""

    def get(self, name: str, default: Json = None) -> StructType | None:  # type: ignore[override]
        if name == "Object" or name.startswith("Object."):
            return StructType(name, None)
        return super().get(name, default)


_MUTATION_STRUCTS: Final = _MutationStructs(
    JSONPatch=StructType("JSONPatch", {"op": t.STRING, "path": t.STRING, "from": t.STRING, "value": t.DYN})
)
