"""Where the kinds live that only an installation touches."""

from typing import Final

from kohort.kube import resources
from kohort.kube.resources import Resource
from kohort.objects.jsontypes import JsonObject

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES: Final = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
SERVICE_MONITORS: Final = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
ISSUERS: Final = Resource("cert-manager.io", "v1", "issuers", "Issuer")
CERTIFICATES: Final = Resource("cert-manager.io", "v1", "certificates", "Certificate")

_KNOWN: Final = {
    one.kind: one
    for one in (
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        ROLES,
        ROLE_BINDINGS,
        NETWORK_POLICIES,
        SERVICE_MONITORS,
        ISSUERS,
        CERTIFICATES,
        resources.NAMESPACES,
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        resources.SERVICE_ACCOUNTS,
        resources.SECRETS,
        resources.CONFIG_MAPS,
        resources.SERVICES,
        resources.DEPLOYMENTS,
        resources.POD_DISRUPTION_BUDGETS,
        resources.MUTATING_WEBHOOKS,
        resources.VALIDATING_WEBHOOKS,
    )
}


def resource_of(obj: JsonObject) -> Resource:
    """Where an object of an installation belongs."""
    return _KNOWN[obj["kind"]]
