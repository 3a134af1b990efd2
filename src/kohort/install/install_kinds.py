"""Where the kinds live that only an installation touches."""

from typing import Final

from kohort.kube import resources
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

_RBAC = "rbac.authorization.k8s.io"
ROLES: Final = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
SERVICE_MONITORS: Final = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
ISSUERS: Final = Resource("cert-manager.io", "v1", "issuers", "Issuer")
CERTIFICATES: Final = Resource("cert-manager.io", "v1", "certificates", "Certificate")

KNOWN: Final = (
    resources.MUTATING_WEBHOOKS,
    resources.VALIDATING_WEBHOOKS,
    SERVICE_MONITORS,
    NETWORK_POLICIES,
    resources.POD_DISRUPTION_BUDGETS,
    resources.DEPLOYMENTS,
    resources.SERVICES,
    CERTIFICATES,
    ISSUERS,
    resources.SECRETS,
    resources.CONFIG_MAPS,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    resources.SERVICE_ACCOUNTS,
)
"""In the order in which they can be removed. Webhook configurations go first: without the operator they would refuse
every write that the rest of a removal needs."""

_BY_KIND: Final = {one.kind: one for one in (*KNOWN, resources.NAMESPACES, resources.CUSTOM_RESOURCE_DEFINITIONS)}


def resource_of(obj: JsonObject) -> Resource:
    """Where an object of an installation belongs."""
    return _BY_KIND[obj["kind"]]
