"""Every built-in kind: where it is served, under which names, and how it behaves.

The tables below are the served surface of Kubernetes 1.36 and nothing more: controllers look at discovery to decide
what they may use, so advertising a kind that does not work is worse than not having it. Schemas are compiled when
first needed; building the list itself only makes small objects.
"""

from collections.abc import Iterator
from functools import cache, partial

from kohort.cluster.apiserver.catalog.strategies import strategy_for
from kohort.cluster.apiserver.kinds import autoscaling, events, printers, selectable_fields
from kohort.cluster.apiserver.kinds.model import FULL_VERBS, Cells, Column, Kind, Strategy, Subresource
from kohort.cluster.apiserver.schema import builtin
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube.resources import Resource

READ_WRITE = ("get", "patch", "update")
PROXY = ("create", "delete", "get", "patch", "update")
CREATE = ("create",)

STATUS = "status"
SCALE = "scale"

REPLICA_PATHS = (".spec.replicas", ".status.replicas", ".status.selector")
"""Built-in scalable kinds keep their selector as an object in `.spec.selector`; the scale endpoint knows that and
uses the third path only for custom resources."""


class Row:
    """One line of the tables: a resource without the defaults that most resources share."""

    __slots__ = ("categories", "kind", "namespaced", "plural", "short", "singular", "subresources", "verbs")

    def __init__(
        self,
        plural: str,
        kind: str,
        short: str = "",
        *,
        namespaced: bool = True,
        all_: bool = False,
        extension: bool = False,
        subresources: tuple[str, ...] = (),
        verbs: tuple[str, ...] = FULL_VERBS,
    ) -> None:
        self.plural = plural
        self.kind = kind
        self.short = tuple(short.split())
        self.namespaced = namespaced
        self.categories: tuple[str, ...] = ("all",) if all_ else ("api-extensions",) if extension else ()
        self.subresources = subresources
        self.verbs = verbs
        self.singular = kind.lower()


def _cluster(
    plural: str,
    kind: str,
    short: str = "",
    *,
    extension: bool = False,
    subresources: tuple[str, ...] = (),
    verbs: tuple[str, ...] = FULL_VERBS,
) -> Row:
    return Row(plural, kind, short, namespaced=False, extension=extension, subresources=subresources, verbs=verbs)


_POD_SUBRESOURCES = (
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "resize",
    "status",
)

TABLES: dict[tuple[str, str], tuple[Row, ...]] = {
    ("", "v1"): (
        Row("bindings", "Binding", verbs=CREATE),
        _cluster("componentstatuses", "ComponentStatus", "cs", verbs=("get", "list")),
        Row("configmaps", "ConfigMap", "cm"),
        Row("endpoints", "Endpoints", "ep"),
        Row("events", "Event", "ev"),
        Row("limitranges", "LimitRange", "limits"),
        _cluster(
            "namespaces",
            "Namespace",
            "ns",
            subresources=("finalize", STATUS),
            verbs=tuple(verb for verb in FULL_VERBS if verb != "deletecollection"),
        ),
        _cluster("nodes", "Node", "no", subresources=("proxy", STATUS)),
        Row("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=(STATUS,)),
        _cluster("persistentvolumes", "PersistentVolume", "pv", subresources=(STATUS,)),
        Row("pods", "Pod", "po", all_=True, subresources=_POD_SUBRESOURCES),
        Row("podtemplates", "PodTemplate"),
        Row("replicationcontrollers", "ReplicationController", "rc", all_=True, subresources=(SCALE, STATUS)),
        Row("resourcequotas", "ResourceQuota", "quota", subresources=(STATUS,)),
        Row("secrets", "Secret"),
        Row("serviceaccounts", "ServiceAccount", "sa", subresources=("token",)),
        Row("services", "Service", "svc", all_=True, subresources=("proxy", STATUS)),
    ),
    ("apiregistration.k8s.io", "v1"): (_cluster("apiservices", "APIService", extension=True, subresources=(STATUS,)),),
    ("apps", "v1"): (
        Row("controllerrevisions", "ControllerRevision"),
        Row("daemonsets", "DaemonSet", "ds", all_=True, subresources=(STATUS,)),
        Row("deployments", "Deployment", "deploy", all_=True, subresources=(SCALE, STATUS)),
        Row("replicasets", "ReplicaSet", "rs", all_=True, subresources=(SCALE, STATUS)),
        Row("statefulsets", "StatefulSet", "sts", all_=True, subresources=(SCALE, STATUS)),
    ),
    ("events.k8s.io", "v1"): (Row("events", "Event", "ev"),),
    ("authentication.k8s.io", "v1"): (
        _cluster("selfsubjectreviews", "SelfSubjectReview", verbs=CREATE),
        _cluster("tokenreviews", "TokenReview", verbs=CREATE),
    ),
    ("authorization.k8s.io", "v1"): (
        Row("localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE),
        _cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview", verbs=CREATE),
        _cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview", verbs=CREATE),
        _cluster("subjectaccessreviews", "SubjectAccessReview", verbs=CREATE),
    ),
    ("autoscaling", "v2"): (
        Row("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", all_=True, subresources=(STATUS,)),
    ),
    ("autoscaling", "v1"): (
        Row("horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", all_=True, subresources=(STATUS,)),
    ),
    ("batch", "v1"): (
        Row("cronjobs", "CronJob", "cj", all_=True, subresources=(STATUS,)),
        Row("jobs", "Job", all_=True, subresources=(STATUS,)),
    ),
    ("certificates.k8s.io", "v1"): (
        _cluster("certificatesigningrequests", "CertificateSigningRequest", "csr", subresources=("approval", STATUS)),
    ),
    ("networking.k8s.io", "v1"): (
        _cluster("ingressclasses", "IngressClass"),
        Row("ingresses", "Ingress", "ing", subresources=(STATUS,)),
        _cluster("ipaddresses", "IPAddress", "ip"),
        Row("networkpolicies", "NetworkPolicy", "netpol"),
        _cluster("servicecidrs", "ServiceCIDR", subresources=(STATUS,)),
    ),
    ("policy", "v1"): (Row("poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=(STATUS,)),),
    ("rbac.authorization.k8s.io", "v1"): (
        _cluster("clusterrolebindings", "ClusterRoleBinding"),
        _cluster("clusterroles", "ClusterRole"),
        Row("rolebindings", "RoleBinding"),
        Row("roles", "Role"),
    ),
    ("storage.k8s.io", "v1"): (
        _cluster("csidrivers", "CSIDriver"),
        _cluster("csinodes", "CSINode"),
        Row("csistoragecapacities", "CSIStorageCapacity"),
        _cluster("storageclasses", "StorageClass", "sc"),
        _cluster("volumeattachments", "VolumeAttachment", subresources=(STATUS,)),
        _cluster("volumeattributesclasses", "VolumeAttributesClass", "vac"),
    ),
    ("admissionregistration.k8s.io", "v1"): (
        _cluster("mutatingadmissionpolicies", "MutatingAdmissionPolicy", extension=True),
        _cluster("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", extension=True),
        _cluster("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", extension=True),
        _cluster("validatingadmissionpolicies", "ValidatingAdmissionPolicy", extension=True, subresources=(STATUS,)),
        _cluster("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", extension=True),
        _cluster("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", extension=True),
    ),
    ("apiextensions.k8s.io", "v1"): (
        _cluster(
            "customresourcedefinitions",
            "CustomResourceDefinition",
            "crd crds",
            extension=True,
            subresources=(STATUS,),
        ),
    ),
    ("scheduling.k8s.io", "v1"): (_cluster("priorityclasses", "PriorityClass", "pc"),),
    ("coordination.k8s.io", "v1"): (Row("leases", "Lease"),),
    ("node.k8s.io", "v1"): (_cluster("runtimeclasses", "RuntimeClass"),),
    ("discovery.k8s.io", "v1"): (Row("endpointslices", "EndpointSlice"),),
    ("resource.k8s.io", "v1"): (
        _cluster("deviceclasses", "DeviceClass"),
        Row("resourceclaims", "ResourceClaim", subresources=(STATUS,)),
        Row("resourceclaimtemplates", "ResourceClaimTemplate"),
        _cluster("resourceslices", "ResourceSlice"),
    ),
    ("flowcontrol.apiserver.k8s.io", "v1"): (
        _cluster("flowschemas", "FlowSchema", subresources=(STATUS,)),
        _cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", subresources=(STATUS,)),
    ),
}
"""By group and version, in the order in which discovery lists the groups."""

_SUBRESOURCES: dict[tuple[str, str], Subresource] = {
    ("pods", "attach"): Subresource("attach", "PodAttachOptions", ("create", "get")),
    ("pods", "binding"): Subresource("binding", "Binding", CREATE),
    ("pods", "eviction"): Subresource("eviction", "Eviction", CREATE, "policy", "v1"),
    ("pods", "exec"): Subresource("exec", "PodExecOptions", ("create", "get")),
    ("pods", "log"): Subresource("log", "Pod", ("get",)),
    ("pods", "portforward"): Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    ("pods", "proxy"): Subresource("proxy", "PodProxyOptions", PROXY),
    ("nodes", "proxy"): Subresource("proxy", "NodeProxyOptions", PROXY),
    ("services", "proxy"): Subresource("proxy", "ServiceProxyOptions", PROXY),
    ("serviceaccounts", "token"): Subresource("token", "TokenRequest", CREATE, "authentication.k8s.io", "v1"),
    ("namespaces", "finalize"): Subresource("finalize", "Namespace", ("update",)),
}
"""Subresources whose object is not the parent object."""


def _subresource(row: Row, name: str) -> Subresource:
    special = _SUBRESOURCES.get((row.plural, name))
    if special is not None:
        return special
    if name == SCALE:
        return Subresource(SCALE, "Scale", READ_WRITE, "autoscaling", "v1")
    return Subresource(name, row.kind, READ_WRITE)


@cache
def _schema(group: str, version: str, kind: str) -> Node:
    return builtin.kind_node(group, version, kind)


def _printed(resource: Resource) -> tuple[tuple[Column, ...], Cells | None]:
    columns, cells = printers.columns_and_cells(resource)
    return tuple(columns), cells


_DEPRECATED: dict[tuple[str, str], str] = {
    ("", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ("", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
}
"""What every request to these kinds is warned of."""


def _kind(group: str, version: str, row: Row, strategy: Strategy) -> Kind:
    resource = Resource(group, version, row.plural, row.kind, row.namespaced)
    columns, cells = _printed(resource)
    fields = selectable_fields.FIELDS.get((group, row.kind))
    return Kind(
        resource=resource,
        schema=partial(_schema, group, version, row.kind),
        strategy=strategy,
        singular=row.singular,
        list_kind=f"{row.kind}List",
        short_names=row.short,
        categories=row.categories,
        verbs=row.verbs,
        subresources={name: _subresource(row, name) for name in row.subresources},
        columns=columns,
        cells=cells,
        selectable=fields.values if fields else selectable_fields.nothing,
        selectable_names=fields.names if fields else frozenset(),
        scale_paths=REPLICA_PATHS if SCALE in row.subresources else None,
        deprecation_warning=_DEPRECATED.get((group, row.kind), ""),
    )


def _kinds() -> Iterator[Kind]:
    for (group, version), rows in TABLES.items():
        for row in rows:
            yield _kind(group, version, row, strategy_for(group, version, row.kind))


def builtin_kinds() -> list[Kind]:
    """All built-in kinds, in discovery order."""
    kinds = list(_kinds())
    by_name = {(kind.resource.group, kind.resource.version, kind.resource.kind): kind for kind in kinds}
    autoscaling.share_storage(
        by_name["autoscaling", "v1", "HorizontalPodAutoscaler"],
        by_name["autoscaling", "v2", "HorizontalPodAutoscaler"],
    )
    events.share_storage(by_name["events.k8s.io", "v1", "Event"], by_name["", "v1", "Event"])
    return kinds
