"""The dashboard on the cluster: its account, what it may read, its Deployment and its Service.

Users log in with tokens of their own. The dashboard lists and watches what it shows, asks the API server what a user
may list, and writes events; whatever a user has it do is done with the token of that user, so its own account has no
other right to write.
"""

from typing import Final

from kohort.install.operator_deployment import PULL_POLICY
from kohort.install.options import Options
from kohort.install.roles import bound, rule
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS
from kohort.rules import rollout_labels

NAME: Final = "kohort-dashboard"
ROLE: Final = "kohort-dashboard-role"
REVIEWS: Final = "kohort-dashboard-reviews-role"
SELECTOR: Final = {"control-plane": "dashboard", "app.kubernetes.io/name": "lws"}
PORT: Final = 8088
RESOURCES: Final[JsonObject] = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
_READ: Final = ["list", "watch"]


def dashboard(options: Options) -> list[JsonObject]:
    if not options.dashboard:
        return []
    return [*access(options), service(options), deployment(options)]


def access(options: Options) -> list[JsonObject]:
    place = options.namespace
    account: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(options)}
    if options.namespaces:
        objects = bound("ClusterRole", ROLE, [node_rule()], place, account=NAME)
        for one in options.namespaces:
            objects += bound("Role", ROLE, namespaced_rules(), place, one, account=NAME)
    else:
        objects = bound("ClusterRole", ROLE, [*namespaced_rules(), node_rule()], place, account=NAME)
    return [account, *objects, *bound("ClusterRole", REVIEWS, review_rules(), place, account=NAME)]


def namespaced_rules() -> list[JsonObject]:
    """What pages are made of."""
    return [
        rule(["leaderworkerset.x-k8s.io"], ["leaderworkersets"], _READ),
        rule([""], ["pods", "services", "persistentvolumeclaims"], _READ),
        rule(["apps"], ["statefulsets", "controllerrevisions"], _READ),
        rule([rollout_labels.GROUP], ["rollouts"], _READ),
        rule(["kohort.dev"], ["analysisruns"], _READ),
        rule(["networking.k8s.io"], ["ingresses"], _READ),
        rule(["gateway.networking.k8s.io"], ["httproutes"], _READ),
        rule([""], ["events"], ["create", "list", "patch", "watch"]),
    ]


def node_rule() -> JsonObject:
    return rule([""], ["nodes"], _READ)


def review_rules() -> list[JsonObject]:
    """Who a user is, and what that user may list."""
    return [
        rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
    ]


def service(options: Options) -> JsonObject:
    """Plain HTTP within the cluster: an Ingress in front of it brings TLS, or `kubectl port-forward` to a laptop."""
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": PORT}]
    spec = {"type": "ClusterIP", "ports": ports, "selector": SELECTOR}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(options), "spec": spec}


def deployment(options: Options) -> JsonObject:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": SELECTOR},
        "template": {
            "metadata": {"labels": {**LABELS, **SELECTOR}},
            "spec": {
                "serviceAccountName": NAME,
                "terminationGracePeriodSeconds": 15,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [_container(options)],
                "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
            },
        },
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(options), "spec": spec}


def _container(options: Options) -> JsonObject:
    arguments = ["--auth=token", "--host=0.0.0.0", f"--port={PORT}"]
    arguments += [f"--allowed-host={one}" for one in options.dashboard_hosts]
    arguments += [f"--namespaces={','.join(options.namespaces)}"] if options.namespaces else []
    arguments += ["--allow-actions"] if options.dashboard_actions else []
    # Probes name the address of the pod as their host, which the dashboard does not answer for.
    probe: JsonObject = {"httpHeaders": [{"name": "Host", "value": "localhost"}], "port": PORT}
    return {
        "name": "dashboard",
        "image": options.image,
        "imagePullPolicy": PULL_POLICY,
        "command": ["kohort", "dashboard"],
        "args": arguments,
        "ports": [{"containerPort": PORT, "name": "http", "protocol": "TCP"}],
        "livenessProbe": {"httpGet": {"path": "/dashboard/healthz", **probe}, "initialDelaySeconds": 60},
        "readinessProbe": {"httpGet": {"path": "/dashboard/healthz", **probe}, "periodSeconds": 5},
        "resources": RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _metadata(options: Options) -> JsonObject:
    return {"name": NAME, "namespace": options.namespace, "labels": LABELS}
