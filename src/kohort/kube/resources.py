"""API resources: group, version and plural, and the paths that follow from them."""

import msgspec

from kohort.kube import errors
from kohort.objects.names import path_segment


class Resource(msgspec.Struct, frozen=True):
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.group, self.kind

    @property
    def qualified(self) -> str:
        """`statefulsets.apps`, or `pods` for the core group: how error messages and CRDs name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Raises NotFound for what cannot be the name of an object: users name objects of their namespace in fields
        and annotations, and `../../other/secrets/token` must not lead out of it."""
        if path_segment(namespace) or path_segment(name):
            raise errors.not_found(self.plural, name, self.group)
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        tail = (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")
        return f"{root}{scope}/{self.plural}{tail}"

    def object_path(self, namespace: str, name: str, subresource: str = "") -> str:
        """Of one object. Without a name, the path would be that of all objects."""
        if not name:
            raise errors.not_found(self.plural, name, self.group)
        return self.path(namespace, name, subresource)


class Key(msgspec.Struct, frozen=True, order=True):
    """An object's name within its resource; `namespace` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
HORIZONTAL_POD_AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
VOLUME_ATTRIBUTES_CLASSES = Resource(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", namespaced=False
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
ROLLOUTS = Resource("rollouts.kruise.io", "v1beta1", "rollouts", "Rollout")
BATCH_RELEASES = Resource("rollouts.kruise.io", "v1beta1", "batchreleases", "BatchRelease")
TRAFFIC_ROUTINGS = Resource("rollouts.kruise.io", "v1alpha1", "trafficroutings", "TrafficRouting")
ROLLOUT_HISTORIES = Resource("rollouts.kruise.io", "v1alpha1", "rollouthistories", "RolloutHistory")
RELEASE_ANALYSES = Resource("kohort.dev", "v1alpha1", "releaseanalyses", "ReleaseAnalysis")
ANALYSIS_RUNS = Resource("kohort.dev", "v1alpha1", "analysisruns", "AnalysisRun")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute")
HTTP_ROUTES_V1BETA1 = Resource("gateway.networking.k8s.io", "v1beta1", "httproutes", "HTTPRoute")
HTTP_ROUTE_VERSIONS = (HTTP_ROUTES, HTTP_ROUTES_V1BETA1)
"""The same routes; Gateway API before 1.0 serves only the second."""
