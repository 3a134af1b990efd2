"""The objects that every cluster starts with, apart from roles.

They are made once, when they are missing; later changes by users stay.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final

from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.rules.local_volumes import PROVISIONER, STORAGE_CLASS

NAMESPACES: Final = ("default", "kube-system", "kube-public", well_known_names.NODE_LEASES)
SERVICE_RANGE: Final = "10.96.0.0/16"
"""Where services get their addresses from."""
SERVICE_ADDRESS: Final = "10.96.0.1"
"""The first of them."""
_SYSTEM_CLASSES: Final = (
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that must run in the cluster, "
     "but can be moved to another node if necessary."),
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their "
     "current node."),
)  # fmt: skip


def bootstrap_objects(*, provisioner: bool = True) -> list[JsonObject]:
    """All but the namespaces, which must be there first, and what depends on certificates.

    `provisioner` says that a provisioner makes volumes for the default storage class.
    """
    objects = [*_priority_classes(), _service(), _service_range()]
    return [*objects, _storage_class()] if provisioner else objects


def own_endpoints(address: str, port: int, *, ready: bool = True) -> list[JsonObject]:
    """Where the `kubernetes` service leads: `address` and `port` of the API server, as pods reach it. A server that
    listens on loopback addresses only names the address of its machine, which is then not `ready`.

    Names cannot be endpoints, and loopback addresses neither, since they lead each pod to itself; then there are none.
    """
    try:
        leads_here = not ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        leads_here = False
    if not leads_here:
        return []
    return [_endpoints(address, port, ready), _endpoint_slice(address, port, ready)]


def namespaces() -> list[JsonObject]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]


def _priority_classes() -> Iterator[JsonObject]:
    for name, value, description in _SYSTEM_CLASSES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }


def _storage_class() -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {well_known_names.DEFAULT_STORAGE_CLASS: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def authentication(client_ca: str, front_proxy_ca: str) -> JsonObject:
    """How aggregated API servers verify clients of the cluster, and this server when it passes a request on."""
    data = {
        well_known_names.CLIENT_AUTHORITY_KEY: client_ca,
        "requestheader-client-ca-file": front_proxy_ca,
        "requestheader-allowed-names": '["front-proxy-client"]' if front_proxy_ca else "",
        "requestheader-username-headers": '["X-Remote-User"]' if front_proxy_ca else "",
        "requestheader-uid-headers": '["X-Remote-Uid"]' if front_proxy_ca else "",
        "requestheader-group-headers": '["X-Remote-Group"]' if front_proxy_ca else "",
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]' if front_proxy_ca else "",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": well_known_names.CLIENT_AUTHORITIES, "namespace": "kube-system"},
        "data": {key: value for key, value in data.items() if value},
    }


_LABELS: Final[JsonObject] = {"component": "apiserver", "provider": "kubernetes"}


def _service() -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": dict(_LABELS)},
        "spec": {
            "clusterIP": SERVICE_ADDRESS,
            "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


def _service_range() -> JsonObject:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [SERVICE_RANGE]},
    }


def _endpoints(address: str, port: int, ready: bool) -> JsonObject:
    labels = {well_known_names.SKIP_MIRROR: "true"}
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "subsets": [{"addresses" if ready else "notReadyAddresses": [{"ip": address}], "ports": ports}],
    }


def _endpoint_slice(address: str, port: int, ready: bool) -> JsonObject:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {well_known_names.SERVICE_NAME: "kubernetes"},
        },
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
