"""NodeRestriction: what a node may write.

| object | a node may |
|---|---|
| Node | create and change the one of its name; not its taints, its owners or labels that steer workloads to it |
| Pod | create mirror pods of its own that refer to no other object, delete pods that are bound to it |
| Pod status, eviction | write them for pods that are bound to it; not their labels or resource claims |
| Lease, CSINode | write the one of its name; a Lease only in `kube-node-lease` |
| PersistentVolumeClaim | report capacity and conditions in the status |
| TokenRequest | ask for tokens of pods that are bound to it |

A node is a user `system:node:NAME` in the group `system:nodes`; no other user is restricted by this.
"""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, refusal
from kohort.kube import errors
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject

PREFIX: Final = "system:node:"
GROUP: Final = "system:nodes"
LEASES: Final = well_known_names.NODE_LEASES
MIRROR: Final = well_known_names.MIRROR_POD
_RESTRICTED: Final = "node-restriction.kubernetes.io"
_OWN_LABELS: Final = frozenset({
    well_known_names.HOSTNAME, well_known_names.OS, well_known_names.ARCH,
    well_known_names.BETA_OS, well_known_names.BETA_ARCH,
    well_known_names.REGION, well_known_names.ZONE,
    well_known_names.BETA_REGION, well_known_names.BETA_ZONE,
    well_known_names.INSTANCE_TYPE, well_known_names.BETA_INSTANCE_TYPE,
})  # fmt: skip
"""Labels of Kubernetes that a node sets itself."""
_OWN_LABEL_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_REFERRING_VOLUMES: Final = {
    "secret": "secrets",
    "configMap": "configmaps",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "projected": "projected volumes",
}
_REPORTED: Final = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
"""What a node says about the volume of a claim."""


class NodeRestriction(AdmissionStep):
    name = "NodeRestriction"

    def handles(self, attributes: Attributes) -> bool:
        return attributes.user.name.startswith(PREFIX) and GROUP in attributes.user.groups

    async def validate(self, attributes: Attributes) -> None:
        node = attributes.user.name.removeprefix(PREFIX)
        if not node:
            raise refusal(attributes, f'could not determine node from user "{attributes.user.name}"')
        problem = _problem(node, attributes)
        if problem:
            raise refusal(attributes, problem)


def _problem(node: str, attributes: Attributes) -> str:
    """Why a node may not do this; empty when it may."""
    match attributes.resource.qualified:
        case "nodes":
            return _node_problem(node, attributes)
        case "pods":
            return _pod_problem(node, attributes)
        case "persistentvolumeclaims":
            return _claim_problem(node, attributes)
        case "serviceaccounts" if attributes.subresource == "token" and attributes.operation == "CREATE":
            return _token_problem(node, attributes)
        case "leases.coordination.k8s.io" if attributes.namespace != LEASES:
            return f'can only access leases in the "{LEASES}" system namespace'
        case "leases.coordination.k8s.io" if _name(attributes) != node:
            return "can only access node lease with the same name as the requesting node"
        case "csinodes.storage.k8s.io" if _name(attributes) != node:
            return "can only access CSINode with the same name as the requesting node"
    return ""


def _name(attributes: Attributes) -> str:
    return attributes.name or str(((attributes.object or {}).get("metadata") or {}).get("name") or "")


# --- nodes


def _node_problem(node: str, attributes: Attributes) -> str:
    name = _name(attributes)
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if attributes.operation == "DELETE":
        return ""
    new, old = attributes.object or {}, attributes.old_object or {}
    forbidden = ", ".join(sorted(_forbidden_label_changes(_labels(new), _labels(old))))
    if attributes.operation == "CREATE":
        return f'node "{node}" is not allowed to set the following labels: {forbidden}' if forbidden else ""
    if _part(new, "spec", "taints") != _part(old, "spec", "taints"):
        return f'node "{node}" is not allowed to modify taints'
    if _part(new, "metadata", "ownerReferences") != _part(old, "metadata", "ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    return f"is not allowed to modify labels: {forbidden}" if forbidden else ""


def _part(obj: JsonObject, section: str, field: str) -> list[Json]:
    return (obj.get(section) or {}).get(field) or []


def _labels(obj: JsonObject) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _forbidden_label_changes(new: dict[str, str], old: dict[str, str]) -> Iterator[str]:
    """Labels that changed and are not a node's to change."""
    for label in new.keys() | old.keys():
        if new.get(label) == old.get(label):
            continue
        domain = label.partition("/")[0] if "/" in label else ""
        kubernetes = any(_within(domain, parent) for parent in ("kubernetes.io", "k8s.io"))
        own = label in _OWN_LABELS or any(_within(domain, parent) for parent in _OWN_LABEL_DOMAINS)
        if _within(domain, _RESTRICTED) or (kubernetes and not own):
            yield label


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


# --- pods


def _pod_problem(node: str, attributes: Attributes) -> str:
    match attributes.subresource, attributes.operation:
        case "", "CREATE":
            return _mirror_problem(node, attributes)
        case "", "DELETE":
            verb = f'node "{node}" can only delete pods with spec.nodeName set to itself'
            return "" if _bound_to(node, attributes, attributes.name) else verb
        case "", operation:
            return f'unexpected operation "{operation}", node "{node}" can only create and delete mirror pods'
        case "status", "UPDATE":
            return _status_problem(node, attributes.object or {}, attributes.old_object or {})
        case "eviction", "CREATE":
            verb = f"node {node} can only evict pods with spec.nodeName set to itself"
            return "" if _bound_to(node, attributes, _name(attributes)) else verb
    return f"unexpected pod subresource \"{attributes.subresource}\", only 'status' and 'eviction' are allowed"


def _bound_to(node: str, attributes: Attributes, name: str) -> bool:
    """Whether a pod is on the node. Of a collection of pods it is not known."""
    if not name:
        return False
    pod = attributes.reader.get("pods", attributes.namespace, name)
    if pod is None:
        raise errors.not_found("pods", name)
    return bool((pod.get("spec") or {}).get("nodeName") == node)


def _status_problem(node: str, new: JsonObject, old: JsonObject) -> str:
    if (old.get("spec") or {}).get("nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if _labels(new) != _labels(old):
        return f'node "{node}" cannot update labels through pod status'
    for field, words in (
        ("resourceClaimStatuses", "resource claim statuses"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ):
        if ((new.get("status") or {}).get(field) or None) != ((old.get("status") or {}).get(field) or None):
            return f'node "{node}" cannot update {words}'
    return ""


def _mirror_problem(node: str, attributes: Attributes) -> str:
    pod = attributes.object or {}
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if MIRROR not in (metadata.get("annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if spec.get("nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = metadata.get("ownerReferences") or []
    if len(owners) != 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    [owner] = owners
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if not owner.get("controller"):
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    found = attributes.reader.get("nodes", "", node)
    if found is None:
        raise errors.not_found("nodes", node)
    if owner.get("uid") != found["metadata"]["uid"]:
        return f"node {node} UID mismatch: expected {owner.get('uid')} got {found['metadata']['uid']}"
    reference = next(_references(spec), "")
    return f'node "{node}" can not create pods that reference {reference}' if reference else ""


def _references(spec: JsonObject) -> Iterator[str]:
    """Kinds of objects whose content a pod would show."""
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    if spec.get("imagePullSecrets"):
        yield "secrets"
    for volume in spec.get("volumes") or ():
        yield from (words for source, words in _REFERRING_VOLUMES.items() if volume.get(source) is not None)
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            yield from _environment_references(container)


def _environment_references(container: JsonObject) -> Iterator[str]:
    sources = [one.get("valueFrom") or {} for one in container.get("env") or ()]
    for source in (*sources, *(container.get("envFrom") or ())):
        if source.get("secretKeyRef") or source.get("secretRef"):
            yield "secrets"
        if source.get("configMapKeyRef") or source.get("configMapRef"):
            yield "configmaps"


# --- claims and tokens


def _claim_problem(node: str, attributes: Attributes) -> str:
    if attributes.subresource != "status":
        return "may only update PVC status"
    if attributes.operation != "UPDATE":
        return f'unexpected operation "{attributes.operation}"'
    if _unreported(attributes.object or {}) != _unreported(attributes.old_object or {}):
        return f'node "{node}" is not allowed to update fields other than status.capacity and status.conditions'
    return ""


def _unreported(claim: JsonObject) -> JsonObject:
    """A claim without what nodes report."""
    ignored = ("resourceVersion", "managedFields")
    metadata = {key: value for key, value in (claim.get("metadata") or {}).items() if key not in ignored}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _REPORTED}
    return {**claim, "metadata": metadata, "status": status}


def _token_problem(node: str, attributes: Attributes) -> str:
    reference = ((attributes.object or {}).get("spec") or {}).get("boundObjectRef") or {}
    name, uid = reference.get("name") or "", reference.get("uid") or ""
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not name:
        return "node requested token not bound to a pod"
    if not uid:
        return "node requested token with a pod binding without a uid"
    pod = attributes.reader.get("pods", attributes.namespace, name)
    if pod is None:
        raise errors.not_found("pods", name)
    if pod["metadata"]["uid"] != uid:
        return (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    if (pod.get("spec") or {}).get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    return ""
