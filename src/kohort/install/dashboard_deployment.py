"""The dashboard on the cluster: its account, what it may read, its Deployment and its Service.

Users log in with tokens of their own. The dashboard lists and watches what it shows, asks the API server what a user
may list, and writes events; whatever a user has it do is done with the token of that user, so its own account has no
other right to write.

With a Secret of a TLS certificate it serves HTTPS, and users may show client certificates of the cluster instead. What
those users have it do needs the right to impersonate them. That right is not given here: it is the administrator's
decision whom the dashboard may act for.
"""

from typing import Final

from kohort.install.operator_deployment import CONTAINER_SECURITY, GRACE_SECONDS, POD_SECURITY, PULL_POLICY, USER
from kohort.install.options import InstallOptions
from kohort.install.roles import role_with_binding, rule
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS
from kohort.rules import rollout_labels

NAME: Final = "kohort-dashboard"
ROLE: Final = "kohort-dashboard-role"
REVIEWS: Final = "kohort-dashboard-reviews-role"
SELECTOR: Final = {"control-plane": "dashboard", well_known_names.APP_NAME: "lws"}
PORT: Final = 8088
TLS_FOLDER: Final = "/etc/kohort-dashboard"
AUTHENTICATION_READER: Final = "extension-apiserver-authentication-reader"
"""A Role that every cluster has in kube-system: its holders may read the authority of the cluster's clients."""
RESOURCES: Final[JsonObject] = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
_READ: Final = ["list", "watch"]


def dashboard(options: InstallOptions) -> list[JsonObject]:
    if not options.dashboard:
        return []
    return [*access(options), service(options), deployment(options)]


def access(options: InstallOptions) -> list[JsonObject]:
    place = options.namespace
    account: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(options)}
    if options.namespaces:
        objects = role_with_binding("ClusterRole", ROLE, [node_rule()], place, account=NAME)
        for one in options.namespaces:
            objects += role_with_binding("Role", ROLE, namespaced_rules(), place, one, account=NAME)
    else:
        objects = role_with_binding("ClusterRole", ROLE, [*namespaced_rules(), node_rule()], place, account=NAME)
    reader = [authority_reader(options)] if options.dashboard_tls_secret else []
    return [account, *objects, *role_with_binding("ClusterRole", REVIEWS, review_rules(), place, account=NAME), *reader]


def authority_reader(options: InstallOptions) -> JsonObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{NAME}-authority", "namespace": "kube-system", "labels": LABELS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": AUTHENTICATION_READER},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": options.namespace}],
    }


def namespaced_rules() -> list[JsonObject]:
    """What pages are made of."""
    return [
        rule([LEADER_WORKER_SETS.group], [LEADER_WORKER_SETS.plural], _READ),
        rule([""], ["pods", "services", "persistentvolumeclaims"], _READ),
        rule(["apps"], ["statefulsets", "controllerrevisions", "deployments", "replicasets"], _READ),
        rule([rollout_labels.GROUP], ["rollouts"], _READ),
        rule(["kohort.dev"], ["analysisruns"], _READ),
        rule(["networking.k8s.io"], ["ingresses"], _READ),
        rule(["policy"], ["poddisruptionbudgets"], _READ),
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


def service(options: InstallOptions) -> JsonObject:
    """Without a certificate plain HTTP within the cluster: an Ingress brings TLS, or `kubectl port-forward`."""
    name, port = ("https", 443) if options.dashboard_tls_secret else ("http", 80)
    ports = [{"name": name, "port": port, "protocol": "TCP", "targetPort": PORT}]
    spec = {"type": "ClusterIP", "ports": ports, "selector": SELECTOR}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(options), "spec": spec}


def deployment(options: InstallOptions) -> JsonObject:
    volumes: list[JsonObject] = [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}]
    if options.dashboard_tls_secret:
        volumes.append({"name": "tls", "secret": {"secretName": options.dashboard_tls_secret, "defaultMode": 0o440}})
    security = {**POD_SECURITY, "fsGroup": USER} if options.dashboard_tls_secret else POD_SECURITY
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": SELECTOR},
        "template": {
            "metadata": {"labels": {**LABELS, **SELECTOR}},
            "spec": {
                "serviceAccountName": NAME,
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "securityContext": security,
                "containers": [_container(options)],
                "volumes": volumes,
            },
        },
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(options), "spec": spec}


def _container(options: InstallOptions) -> JsonObject:
    arguments = ["--auth=token", "--host=0.0.0.0", f"--port={PORT}"]
    arguments += [f"--allowed-host={one}" for one in options.dashboard_hosts]
    arguments += [f"--namespaces={','.join(options.namespaces)}"] if options.namespaces else []
    arguments += ["--allow-actions"] if options.dashboard_actions else []
    mounts: list[JsonObject] = [{"name": "tmp", "mountPath": "/tmp"}]
    # Probes name the address of the pod as their host, which the dashboard does not answer for.
    probe: JsonObject = {"httpHeaders": [{"name": "Host", "value": "localhost"}], "port": PORT}
    if options.dashboard_tls_secret:
        arguments += [f"--tls-cert={TLS_FOLDER}/tls.crt", f"--tls-key={TLS_FOLDER}/tls.key", "--client-ca=cluster"]
        mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
        probe["scheme"] = "HTTPS"
    return {
        "name": "dashboard",
        "image": options.image,
        "imagePullPolicy": PULL_POLICY,
        "command": ["kohort", "dashboard"],
        "args": arguments,
        "ports": [
            {"containerPort": PORT, "name": "https" if options.dashboard_tls_secret else "http", "protocol": "TCP"}
        ],
        "livenessProbe": {"httpGet": {"path": "/dashboard/healthz", **probe}, "initialDelaySeconds": 60},
        "readinessProbe": {"httpGet": {"path": "/dashboard/healthz", **probe}, "periodSeconds": 5},
        "resources": RESOURCES,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts,
    }


def _metadata(options: InstallOptions) -> JsonObject:
    return {"name": NAME, "namespace": options.namespace, "labels": LABELS}
