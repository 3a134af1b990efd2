"""What the operator may do: only what it does.

`tests/kubernetes/test_roles.py` runs the operator with exactly these rules through the life of a set and compares them
with the requests that the API server saw: nothing is refused, and what is not used is listed there with its reason.

Against the roles that LeaderWorkerSet ships: no Secrets of others, no writes to nodes, no pods created.
"""

from typing import Final

from kohort.admission import rollout_webhooks as releases
from kohort.admission.webhook_configurations import CONVERTED, MUTATING, VALIDATING
from kohort.install.options import InstallOptions
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.manager.capabilities import STATUS
from kohort.manager.configuration import LEASE, SECRET
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS, labelled
from kohort.rollouts.traffic.annotations import CONFIGURATION as SCRIPTS
from kohort.rules import rollout_labels
from kohort.rules.user_roles import user_roles

ACCOUNT: Final = "lws-controller-manager"
MANAGER: Final = "lws-manager-role"
OWN_NAMESPACE: Final = "lws-leader-election-role"
GANGS: Final = "lws-gang-scheduling-role"
METRICS_AUTH: Final = "lws-metrics-auth-role"
METRICS_READER: Final = "lws-metrics-reader"

_SETS: Final = LEADER_WORKER_SETS.group
_ANALYSES: Final = "kohort.dev"


def rule(groups: list[str], resources: list[str], verbs: list[str], names: list[str] | None = None) -> JsonObject:
    found: JsonObject = {"apiGroups": groups, "resources": resources, "verbs": verbs}
    return {**found, "resourceNames": names} if names else found


def workload_rules(options: InstallOptions) -> list[JsonObject]:
    """Where sets live."""
    rules = [
        rule([_SETS], ["leaderworkersets"], ["get", "list", "watch"]),
        rule([_SETS], ["leaderworkersets/status"], ["patch"]),
        rule([_SETS], ["leaderworkersets/finalizers"], ["update"]),
        rule(["apps"], ["statefulsets"], ["create", "list", "patch", "watch"]),
        rule(["apps"], ["controllerrevisions"], ["create", "delete", "get", "list", "patch", "watch"]),
        rule([""], ["services"], ["create", "delete", "get", "list", "patch", "watch"]),
        rule([""], ["pods"], ["delete", "get", "list", "patch", "watch"]),
        rule(["policy"], ["poddisruptionbudgets"], ["create", "delete", "get", "list", "patch", "watch"]),
        rule([""], ["pods/resize"], ["patch"]),
        rule([""], ["pods/log"], ["get"]),
        rule([""], ["configmaps"], ["create", "get", "patch"]),
        rule([""], ["resourcequotas"], ["list"]),
        rule([""], ["pods/finalizers"], ["update"]),
        rule([""], ["persistentvolumeclaims"], ["delete", "list"]),
        rule([""], ["events"], ["create", "list", "patch"]),
    ]
    return rules + rollout_rules() if options.rollouts else rules


def gang_rules(scheduler: str) -> list[JsonObject]:
    if scheduler == "kubernetes":
        native = ["scheduling.k8s.io"]
        return [rule(native, ["podgroups"], ["create", "get"]), rule(native, ["workloads"], ["create"])]
    if scheduler == "volcano":
        return [rule(["scheduling.volcano.sh"], ["podgroups"], ["create", "get"])]
    return []


def rollout_rules() -> list[JsonObject]:
    """What releases need beyond: canary copies of workloads, their traffic, and autoscalers held still meanwhile."""
    return [
        rule([rollout_labels.GROUP], ["rollouts"], ["get", "list", "patch", "watch"]),
        rule([rollout_labels.GROUP], ["batchreleases"], ["create", "delete", "list", "patch", "watch"]),
        rule([rollout_labels.GROUP], ["trafficroutings"], ["get", "list", "patch", "watch"]),
        rule([rollout_labels.GROUP], ["rollouthistories"], ["create", "delete", "list", "patch", "watch"]),
        rule([rollout_labels.GROUP], ["rollouts/status", "batchreleases/status", "trafficroutings/status"], ["patch"]),
        rule([rollout_labels.GROUP], ["rollouthistories/status"], ["patch"]),
        rule(
            [rollout_labels.GROUP],
            ["rollouts/finalizers", "batchreleases/finalizers", "trafficroutings/finalizers"],
            ["update"],
        ),
        rule([_ANALYSES], ["releaseanalyses"], ["list", "watch"]),
        rule([_ANALYSES], ["analysisruns"], ["create", "delete", "list", "watch"]),
        rule([_ANALYSES], ["releaseanalyses/status", "analysisruns/status"], ["patch"]),
        rule([_SETS], ["leaderworkersets"], ["create", "delete", "get", "patch"]),
        rule([""], ["pods"], ["patch"]),
        rule(["apps"], ["deployments"], ["create", "delete", "get", "list", "patch", "watch"]),
        rule(["apps"], ["replicasets"], ["create", "list", "patch", "watch"]),
        rule(["apps"], ["statefulsets"], ["get", "list", "patch", "watch"]),
        rule(["autoscaling"], ["horizontalpodautoscalers"], ["list", "patch"]),
        rule(["discovery.k8s.io"], ["endpointslices"], ["list"]),
        rule(["networking.k8s.io"], ["ingresses"], ["create", "delete", "get", "patch"]),
        rule(["gateway.networking.k8s.io"], ["httproutes"], ["get", "patch"]),
        rule(["networking.istio.io"], ["destinationrules", "virtualservices"], ["get", "patch"]),
    ]


def cluster_rules(options: InstallOptions) -> list[JsonObject]:
    """Of the cluster itself."""
    group = "admissionregistration.k8s.io"
    mutating, validating = [MUTATING], [VALIDATING]
    if options.rollouts:
        mutating, validating = [*mutating, releases.MUTATING], [*validating, releases.VALIDATING]
    rules = [
        rule([""], ["nodes"], ["get"]),
        rule([group], ["mutatingwebhookconfigurations"], ["get", "patch"], mutating),
        rule([group], ["validatingwebhookconfigurations"], ["get", "patch"], validating),
    ]
    if options.rollouts:
        # Their conversion must trust the certificate, as the webhooks do.
        converted = rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], ["get", "patch"], [*CONVERTED])
        # Whether the groups that a release adds have room.
        room = rule([""], ["nodes"], ["list"])
        # Whether a user may read the Secrets that this user's ReleaseAnalysis names.
        reviews = rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"])
        rules += [converted, room, reviews]
    return rules


def own_rules(options: InstallOptions) -> list[JsonObject]:
    """In the operator's own namespace."""
    rules = [
        rule(["coordination.k8s.io"], ["leases"], ["create"]),
        rule(["coordination.k8s.io"], ["leases"], ["get", "update", "watch"], [LEASE]),
        rule([""], ["secrets"], ["get", "update", "watch"], [SECRET]),
        rule([""], ["configmaps"], ["create"]),
        rule([""], ["configmaps"], ["patch"], [STATUS]),
    ]
    return [*rules, rule([""], ["configmaps"], ["get"], [SCRIPTS])] if options.rollouts else rules


def access(options: InstallOptions) -> list[JsonObject]:
    """The service account, its roles, and the roles for people."""
    namespace = options.namespace
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(ACCOUNT, namespace)},
        *role_with_binding("Role", OWN_NAMESPACE, own_rules(options), namespace, namespace),
        *role_with_binding(
            "ClusterRole",
            METRICS_AUTH,
            [
                rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]),
                rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
            ],
            namespace,
        ),
    ]
    if options.namespaces:
        objects += role_with_binding("ClusterRole", MANAGER, cluster_rules(options), namespace)
        for one in options.namespaces:
            objects += role_with_binding("Role", MANAGER, workload_rules(options), namespace, one)
    else:
        objects += role_with_binding(
            "ClusterRole", MANAGER, [*workload_rules(options), *cluster_rules(options)], namespace
        )
    reader: list[JsonObject] = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    users = [labelled(one) for one in user_roles(rollouts=options.rollouts)]
    return [*objects, *users, _role("ClusterRole", METRICS_READER, reader)]


def gang_access(options: InstallOptions) -> list[JsonObject]:
    """A role of its own, so that choosing a gang scheduler adds to an installation and changes nothing else in it."""
    rules = gang_rules(options.gang_scheduler)
    if not rules:
        return []
    if not options.namespaces:
        return role_with_binding("ClusterRole", GANGS, rules, options.namespace)
    return [
        found for one in options.namespaces for found in role_with_binding("Role", GANGS, rules, options.namespace, one)
    ]


def _metadata(name: str, namespace: str = "") -> JsonObject:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": {**LABELS}}


def _role(kind: str, name: str, rules: list[JsonObject], namespace: str = "") -> JsonObject:
    metadata = _metadata(name, namespace)
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


def role_with_binding(
    kind: str,
    name: str,
    rules: list[JsonObject],
    account_namespace: str,
    namespace: str = "",
    *,
    account: str = ACCOUNT,
) -> list[JsonObject]:
    """A role and its binding to a service account, by default that of the operator."""
    binding: JsonObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": _metadata(f"{name}binding", namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    }
    return [_role(kind, name, rules, namespace), binding]
