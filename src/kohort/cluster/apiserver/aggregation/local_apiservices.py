"""APIServices of the group versions that this server itself serves: how they rank among all others."""

from collections.abc import Iterable
from typing import Final

from kohort.objects.json_types import JsonObject

AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_GROUPS: Final = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500,
    "node.k8s.io": 16300, "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000, "storagemigration.k8s.io": 15800,
}  # fmt: skip
"""Priorities of groups, as Kubernetes gives them. `apiregistration.k8s.io` has no APIService."""
_VERSIONS: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15,
}
_STABLE: Final = 15
_UNSTABLE: Final = 9


def local_api_services(groups: Iterable[tuple[str, Iterable[str]]]) -> list[JsonObject]:
    """The APIServices of built-in groups and their versions."""
    return [local_api_service(group, version) for group, versions in groups if group in _GROUPS for version in versions]


def local_api_service(group: str, version: str) -> JsonObject:
    rank = _VERSIONS.get((group, version), _UNSTABLE if "alpha" in version or "beta" in version else _STABLE)
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: "onstart"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": _GROUPS[group],
            "versionPriority": rank,
        },
    }
