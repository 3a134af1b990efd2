"""Which fields of a kind can be used in a field selector, and how their values are read from an object.

`metadata.name` works for every kind and is not listed. So does `metadata.namespace`, but not for kinds without a
namespace that have fields of their own, or are custom. Values are what Kubernetes compares
with: text, with the zero value of the field when it is absent (`spec.hostNetwork` of a pod is `false`, not empty).
"""

from collections.abc import Callable, Iterable

from kohort.objects.json_types import JsonObject


class Fields:
    """The selectable fields of one kind."""

    __slots__ = ("names", "values")

    def __init__(self, names: Iterable[str], values: Callable[[JsonObject], dict[str, str]]) -> None:
        self.names = frozenset(names)
        self.values = values


def nothing(_: JsonObject) -> dict[str, str]:
    return {}


def _pod(pod: JsonObject) -> dict[str, str]:
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    addresses = status.get("podIPs") or ()
    address = (addresses[0].get("ip") or "") if addresses else status.get("podIP") or ""
    return {
        "spec.nodeName": spec.get("nodeName") or "",
        "spec.host": spec.get("nodeName") or "",
        "spec.restartPolicy": spec.get("restartPolicy") or "",
        "spec.schedulerName": spec.get("schedulerName") or "",
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase") or "",
        "status.podIP": address,
        "status.podIPs": address,
        "status.nominatedNodeName": status.get("nominatedNodeName") or "",
    }


def _node(node: JsonObject) -> dict[str, str]:
    unschedulable = (node.get("spec") or {}).get("unschedulable")
    return {"spec.unschedulable": "true" if unschedulable else "false"}


def _namespace(namespace: JsonObject) -> dict[str, str]:
    return {"status.phase": (namespace.get("status") or {}).get("phase") or ""}


_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _event(event: JsonObject) -> dict[str, str]:
    """Both groups' names for the same values, because both kinds select in one bucket."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    reporter = event.get("reportingComponent") or event.get("reportingController") or ""
    values = {
        "reason": event.get("reason") or "",
        "reportingComponent": reporter,
        "reportingController": reporter,
        "source": source.get("component") or reporter,
        "type": event.get("type") or "",
    }
    for key in _REFERENCE_FIELDS:
        values[f"involvedObject.{key}"] = values[f"regarding.{key}"] = about.get(key) or ""
    return values


def _secret(secret: JsonObject) -> dict[str, str]:
    return {"type": secret.get("type") or ""}


def _service(service: JsonObject) -> dict[str, str]:
    spec = service.get("spec") or {}
    return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


def _replicas(controller: JsonObject) -> dict[str, str]:
    return {"status.replicas": str((controller.get("status") or {}).get("replicas") or 0)}


def _job(job: JsonObject) -> dict[str, str]:
    return {"status.successful": str((job.get("status") or {}).get("succeeded") or 0)}


def _signing_request(request: JsonObject) -> dict[str, str]:
    return {"spec.signerName": (request.get("spec") or {}).get("signerName") or ""}


def _resource_slice(slice_: JsonObject) -> dict[str, str]:
    spec = slice_.get("spec") or {}
    return {"spec.nodeName": spec.get("nodeName") or "", "spec.driver": spec.get("driver") or ""}


_POD_NAMES = tuple(_pod({}))
_EVENT_NAMES = ("reason", "type")

FIELDS: dict[tuple[str, str], Fields] = {
    ("", "Pod"): Fields(_POD_NAMES, _pod),
    ("", "Node"): Fields(("spec.unschedulable",), _node),
    ("", "Namespace"): Fields(("status.phase",), _namespace),
    ("", "Secret"): Fields(("type",), _secret),
    ("", "Service"): Fields(("spec.clusterIP", "spec.type"), _service),
    ("", "ReplicationController"): Fields(("status.replicas",), _replicas),
    ("batch", "Job"): Fields(("status.successful",), _job),
    ("certificates.k8s.io", "CertificateSigningRequest"): Fields(("spec.signerName",), _signing_request),
    ("resource.k8s.io", "ResourceSlice"): Fields(("spec.nodeName", "spec.driver"), _resource_slice),
    ("", "Event"): Fields(
        (*_EVENT_NAMES, "reportingComponent", "source", *(f"involvedObject.{key}" for key in _REFERENCE_FIELDS)),
        _event,
    ),
    ("events.k8s.io", "Event"): Fields(
        (*_EVENT_NAMES, "reportingController", *(f"regarding.{key}" for key in _REFERENCE_FIELDS)), _event
    ),
}
