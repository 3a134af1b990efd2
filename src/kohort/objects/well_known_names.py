"""Names of Kubernetes itself that more than one part reads or writes: labels, annotations, finalizers, values, objects.

A name that only one module needs is defined there. Names of LeaderWorkerSets and of Rollouts are in `rules`.
"""

from typing import Final

# Labels of nodes
HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_OS: Final = "beta.kubernetes.io/os"
BETA_ARCH: Final = "beta.kubernetes.io/arch"
BETA_INSTANCE_TYPE: Final = "beta.kubernetes.io/instance-type"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"

# Of taints and tolerations
TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# On pods
MIRROR_POD: Final = "kubernetes.io/config.mirror"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
"""What a LimitRange has set by default, in words."""
APP_ARMOR_PREFIX: Final = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_PREFIX: Final = "container.seccomp.security.alpha.kubernetes.io/"

# On pods of workloads, given by their controllers
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
POD_TEMPLATE_HASH: Final = "pod-template-hash"
STATEFUL_SET_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

# On ReplicaSets, given by the controller of Deployments
DEPLOYMENT_REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

# On Services, EndpointSlices and Ingresses
SERVICE_NAME: Final = "kubernetes.io/service-name"
"""On EndpointSlices: the Service that they belong to."""
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"

# On volumes, claims and storage classes
DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_STORAGE_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
ATTRIBUTES_CLASS_PROTECTION: Final = "kubernetes.io/vac-protection"

# On Secrets
SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
MOUNTABLE_SECRETS: Final = "kubernetes.io/enforce-mountable-secrets"
SERVICE_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
DOCKER_CONFIG: Final = "kubernetes.io/dockercfg"
DOCKER_CONFIG_JSON: Final = "kubernetes.io/dockerconfigjson"

# On any object
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
APP_NAME: Final = "app.kubernetes.io/name"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""On namespaces: their name, for selectors."""
API_APPROVED: Final = "api-approved.kubernetes.io"
"""On definitions of groups that end in k8s.io: where the API was reviewed."""
AGGREGATE_TO: Final = "rbac.authorization.k8s.io/aggregate-to-"
"""Beginning of labels of ClusterRoles: the rules join those of admin, edit or view."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""On the bookmark that ends what existed when a watch began."""

# Objects that every cluster has
NODE_LEASES: Final = "kube-node-lease"
"""The namespace of leases of nodes."""
CLIENT_AUTHORITIES: Final = "extension-apiserver-authentication"
"""The ConfigMap in kube-system that says whose client certificates are valid, at key `CLIENT_AUTHORITY_KEY`."""
CLIENT_AUTHORITY_KEY: Final = "client-ca-file"
API_CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
