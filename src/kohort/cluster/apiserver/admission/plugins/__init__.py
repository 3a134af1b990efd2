"""The admission steps that are built in, in the order in which they run."""

from collections.abc import Mapping

from kohort.cluster.apiserver.admission.model import Plugin
from kohort.cluster.apiserver.admission.plugins.ingress import DefaultIngressClass
from kohort.cluster.apiserver.admission.plugins.limitranger import LimitRanger
from kohort.cluster.apiserver.admission.plugins.namespaces import NamespaceLifecycle
from kohort.cluster.apiserver.admission.plugins.noderestriction import NodeRestriction
from kohort.cluster.apiserver.admission.plugins.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from kohort.cluster.apiserver.admission.plugins.podsecurity.step import PodSecurity
from kohort.cluster.apiserver.admission.plugins.priority import Priority
from kohort.cluster.apiserver.admission.plugins.quota.step import ResourceQuota
from kohort.cluster.apiserver.admission.plugins.runtimeclass import RuntimeClass
from kohort.cluster.apiserver.admission.plugins.scheduling import (
    DefaultTolerationSeconds,
    PodTopologyLabels,
    TaintNodesByCondition,
)
from kohort.cluster.apiserver.admission.plugins.serviceaccount import ServiceAccount
from kohort.cluster.apiserver.admission.plugins.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from kohort.cluster.apiserver.storage.model import Store


def default_plugins(
    store: Store, *, gates: Mapping[str, bool] | None = None, service_accounts: bool = True
) -> list[Plugin]:
    """`service_accounts` needs the controller that gives every namespace its `default` account."""
    gates = gates or {}
    return [
        NamespaceLifecycle(store),
        LimitRanger(),
        *([ServiceAccount()] if service_accounts else []),
        NodeRestriction(),
        TaintNodesByCondition(),
        PodSecurity(store),
        Priority(),
        DefaultTolerationSeconds(),
        DefaultStorageClass(),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(),
        RuntimeClass(),
        DefaultIngressClass(),
        PodTopologyLabels(store),
        NodeDeclaredFeatureValidator(gates),
        PodResizeValidator(gates),
        ResourceQuota(store, gates),
    ]
