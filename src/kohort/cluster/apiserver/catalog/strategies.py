"""Which strategy a kind has. One module per API group (or per big kind) holds the rules themselves.

Strategies may hold state of one server (the addresses of services), so every server gets its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kohort.cluster.apiserver.crd.definition_strategy import DefinitionStrategy
from kohort.cluster.apiserver.kinds import (
    admissionpolicies,
    apiservices,
    autoscaler_rules,
    batch,
    certificates,
    claims,
    configuration,
    daemonsets,
    deployments,
    disruption_and_priority,
    endpoints,
    event_rules,
    flowcontrol,
    ingresses,
    ipaddresses,
    leases,
    namespaces,
    networkpolicies,
    nodes,
    quotas,
    rbac,
    replication,
    resourceclaims,
    runtimeclasses,
    statefulsets,
    storage,
    volumes,
    webhooks,
)
from kohort.cluster.apiserver.kinds.model import Strategy
from kohort.cluster.apiserver.kinds.pod.strategy import PodStrategy
from kohort.cluster.apiserver.kinds.service.strategy import ServiceStrategy

_BY_GROUP: Final[Mapping[str, Mapping[str, Callable[[], Strategy]]]] = {
    "": {
        "ConfigMap": configuration.ConfigMapStrategy,
        "Endpoints": endpoints.EndpointsStrategy,
        "Event": event_rules.CoreEventStrategy,
        "LimitRange": quotas.LimitRangeStrategy,
        "Namespace": namespaces.NamespaceStrategy,
        "Node": nodes.NodeStrategy,
        "PersistentVolumeClaim": claims.PersistentVolumeClaimStrategy,
        "PersistentVolume": volumes.PersistentVolumeStrategy,
        "Pod": PodStrategy,
        "PodTemplate": replication.PodTemplateStrategy,
        "ReplicationController": replication.ReplicationControllerStrategy,
        "ResourceQuota": quotas.ResourceQuotaStrategy,
        "Secret": configuration.SecretStrategy,
        "ServiceAccount": configuration.ServiceAccountStrategy,
        "Service": ServiceStrategy,
    },
    "apiregistration.k8s.io": {"APIService": apiservices.ApiServiceStrategy},
    "apps": {
        "ControllerRevision": replication.ControllerRevisionStrategy,
        "DaemonSet": daemonsets.DaemonSetStrategy,
        "Deployment": deployments.DeploymentStrategy,
        "ReplicaSet": deployments.ReplicaSetStrategy,
        "StatefulSet": statefulsets.StatefulSetStrategy,
    },
    "batch": {"CronJob": batch.CronJobStrategy, "Job": batch.JobStrategy},
    "events.k8s.io": {"Event": event_rules.EventStrategy},
    "autoscaling": {"HorizontalPodAutoscaler": autoscaler_rules.AutoscalerStrategy},
    "certificates.k8s.io": {"CertificateSigningRequest": certificates.SigningRequestStrategy},
    "networking.k8s.io": {
        "IngressClass": ingresses.IngressClassStrategy,
        "Ingress": ingresses.IngressStrategy,
        "IPAddress": ipaddresses.IPAddressStrategy,
        "NetworkPolicy": networkpolicies.NetworkPolicyStrategy,
        "ServiceCIDR": ipaddresses.ServiceCidrStrategy,
    },
    "policy": {"PodDisruptionBudget": disruption_and_priority.PodDisruptionBudgetStrategy},
    "rbac.authorization.k8s.io": {
        "ClusterRoleBinding": rbac.ClusterRoleBindingStrategy,
        "ClusterRole": rbac.ClusterRoleStrategy,
        "RoleBinding": rbac.RoleBindingStrategy,
        "Role": rbac.RoleStrategy,
    },
    "storage.k8s.io": {
        "CSIDriver": storage.CsiDriverStrategy,
        "CSINode": storage.CsiNodeStrategy,
        "CSIStorageCapacity": storage.CsiStorageCapacityStrategy,
        "StorageClass": storage.StorageClassStrategy,
        "VolumeAttachment": storage.VolumeAttachmentStrategy,
        "VolumeAttributesClass": storage.VolumeAttributesClassStrategy,
    },
    "admissionregistration.k8s.io": {
        "MutatingAdmissionPolicy": admissionpolicies.MutatingAdmissionPolicyStrategy,
        "MutatingAdmissionPolicyBinding": admissionpolicies.MutatingPolicyBindingStrategy,
        "MutatingWebhookConfiguration": webhooks.MutatingWebhookConfigurationStrategy,
        "ValidatingAdmissionPolicy": admissionpolicies.AdmissionPolicyStrategy,
        "ValidatingAdmissionPolicyBinding": admissionpolicies.PolicyBindingStrategy,
        "ValidatingWebhookConfiguration": webhooks.WebhookConfigurationStrategy,
    },
    "apiextensions.k8s.io": {"CustomResourceDefinition": DefinitionStrategy},
    "scheduling.k8s.io": {"PriorityClass": disruption_and_priority.PriorityClassStrategy},
    "coordination.k8s.io": {"Lease": leases.LeaseStrategy},
    "node.k8s.io": {"RuntimeClass": runtimeclasses.RuntimeClassStrategy},
    "discovery.k8s.io": {"EndpointSlice": endpoints.EndpointSliceStrategy},
    "resource.k8s.io": {
        "DeviceClass": resourceclaims.DeviceClassStrategy,
        "ResourceClaim": resourceclaims.DeviceClaimStrategy,
        "ResourceClaimTemplate": resourceclaims.DeviceClaimTemplateStrategy,
        "ResourceSlice": resourceclaims.DeviceSliceStrategy,
    },
    "flowcontrol.apiserver.k8s.io": {
        "FlowSchema": flowcontrol.FlowSchemaStrategy,
        "PriorityLevelConfiguration": flowcontrol.PriorityLevelStrategy,
    },
}


def strategy_for(group: str, version: str, kind: str) -> Strategy:
    """A new strategy for a kind."""
    if (group, version) == ("autoscaling", "v1"):
        return autoscaler_rules.AutoscalerV1Strategy()
    return _BY_GROUP.get(group, {}).get(kind, Strategy)()
