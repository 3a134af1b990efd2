"""The operator itself on the cluster: its Deployment and what stands around it."""

import hashlib
from typing import Final

import yaml

from kohort import operator
from kohort.admission.webhook_configurations import Address
from kohort.install.options import InstallOptions
from kohort.install.rendering import render
from kohort.install.roles import ACCOUNT
from kohort.manager.certificates import METRICS_SERVICE
from kohort.manager.configuration import API_VERSION, KIND, SECRET, SERVICE
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS

CONFIGURATION: Final = "lws-manager-config"
CONFIGURATION_FILE: Final = "controller_manager_config.yaml"
DEPLOYMENT: Final = "lws-controller-manager"
SELECTOR: Final = {"control-plane": "controller-manager", well_known_names.APP_NAME: "lws"}
CERTIFICATE: Final = "lws-serving-cert"
ISSUER: Final = "lws-selfsigned-issuer"
CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
RESOURCES: Final[JsonObject] = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
PULL_POLICY: Final = "IfNotPresent"
USER: Final = 65532
"""Of the image, and of its group: not root."""
GRACE_SECONDS: Final = 15
POD_SECURITY: Final[JsonObject] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Final[JsonObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsUser": USER,
    "runAsGroup": USER,
}
"""The operator and the dashboard run with the same rights on their nodes: none."""
CONFIGURED: Final = "kohort.dev/configuration"


def place(options: InstallOptions) -> JsonObject:
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": labels}}


def configuration(options: InstallOptions) -> JsonObject:
    settings: JsonObject = {"apiVersion": API_VERSION, "kind": KIND, "leaderElection": {"leaderElect": True}}
    if options.cert_manager:
        settings["internalCertManagement"] = {"enable": False}
    if options.gang_scheduler:
        settings["gangSchedulingManagement"] = {"schedulerProvider": options.gang_scheduler}
    if not options.rollouts:
        settings["rollouts"] = False
    if options.namespaces:
        settings["namespaces"] = [*options.namespaces]
    if options.default_resize_policy != "None":
        settings["defaultResizePolicy"] = options.default_resize_policy
    text = yaml.safe_dump(settings, sort_keys=False)
    return _object("v1", "ConfigMap", CONFIGURATION, options, {"data": {CONFIGURATION_FILE: text}})


def digest(options: InstallOptions) -> str:
    """Of the configuration. It is read once, at the start, so a change must replace the pods."""
    return hashlib.sha256(render([configuration(options)]).strip().encode()).hexdigest()


def certificate_store(options: InstallOptions) -> list[JsonObject]:
    """An empty Secret for the operator to fill, or what makes cert-manager fill it."""
    if not options.cert_manager:
        return [_object("v1", "Secret", SECRET, options, {"type": "Opaque"})]
    names = [f"{SERVICE}.{options.namespace}.svc", f"{METRICS_SERVICE}.{options.namespace}.svc"]
    certificate = {
        "dnsNames": names,
        "secretName": SECRET,
        "issuerRef": {"kind": "Issuer", "name": ISSUER},
    }
    return [
        _object("cert-manager.io/v1", "Issuer", ISSUER, options, {"spec": {"selfSigned": {}}}),
        _object("cert-manager.io/v1", "Certificate", CERTIFICATE, options, {"spec": certificate}),
    ]


def services(options: InstallOptions) -> list[JsonObject]:
    webhook = {"port": 443, "protocol": "TCP", "targetPort": 9443}
    metrics = {"name": "https", "port": 8443, "protocol": "TCP", "targetPort": 8443}
    of_webhooks = {"ports": [webhook], "selector": SELECTOR}
    of_metrics = {"type": "ClusterIP", "ports": [metrics], "selector": SELECTOR}
    return [
        _object("v1", "Service", SERVICE, options, {"spec": of_webhooks}),
        _object("v1", "Service", METRICS_SERVICE, options, {"spec": of_metrics}),
    ]


def deployment(options: InstallOptions) -> JsonObject:
    spec = {
        "replicas": options.replicas,
        "selector": {"matchLabels": SELECTOR},
        "template": {
            "metadata": {"labels": {**LABELS, **SELECTOR}, "annotations": {CONFIGURED: digest(options)}},
            "spec": {
                "serviceAccountName": ACCOUNT,
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "securityContext": POD_SECURITY,
                "affinity": _anti_affinity(),
                "containers": [_container(options)],
                "volumes": _volumes(options),
            },
        },
    }
    return _object("apps/v1", "Deployment", DEPLOYMENT, options, {"spec": spec})


def budget_and_network_policy(options: InstallOptions) -> list[JsonObject]:
    """What guards the operator: a budget for disruptions, and the ports that others may reach."""
    # A replica that does not come up must not keep its node from being drained.
    budget = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": SELECTOR},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    ports = [{"port": number, "protocol": "TCP"} for number in (9443, 8443, 8081)]
    policy = {"podSelector": {"matchLabels": SELECTOR}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
    return [
        _object("policy/v1", "PodDisruptionBudget", DEPLOYMENT, options, {"spec": budget}),
        _object("networking.k8s.io/v1", "NetworkPolicy", DEPLOYMENT, options, {"spec": policy}),
    ]


def monitor(options: InstallOptions) -> JsonObject:
    """For the Prometheus operator; requests carry the token of Prometheus."""
    endpoint = {
        "port": "https",
        "path": "/metrics",
        "scheme": "https",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {
            "serverName": f"{METRICS_SERVICE}.{options.namespace}.svc",
            "ca": {"secret": {"name": SECRET, "key": "ca.crt"}},
        },
    }
    spec = {"endpoints": [endpoint], "selector": {"matchLabels": LABELS}}
    return _object(
        "monitoring.coreos.com/v1", "ServiceMonitor", "lws-controller-manager-metrics", options, {"spec": spec}
    )


def definitions(options: InstallOptions) -> list[JsonObject]:
    """The operator converts older versions of Rollouts; where cert-manager is used, it injects the authority."""
    found = operator.definitions(_address(options), rollouts=options.rollouts)
    for one in found:
        if options.cert_manager and is_converted(one):
            one["metadata"]["annotations"] = _injected(options)
    return found


def is_converted(definition: JsonObject) -> bool:
    """By the operator, whose address it names."""
    return "conversion" in definition["spec"]


def webhooks(options: InstallOptions) -> list[JsonObject]:
    """The authority is left out: the operator or cert-manager puts it in."""
    found = operator.webhooks(_address(options), rollouts=options.rollouts)
    for one in found:
        if options.cert_manager:
            one["metadata"]["annotations"] = _injected(options)
    return found


def _address(options: InstallOptions) -> Address:
    return Address(
        b"",
        service=(options.namespace, SERVICE),
        exempt_namespace=options.namespace,
        namespaces=options.namespaces,
    )


def _injected(options: InstallOptions) -> JsonObject:
    return {"cert-manager.io/inject-ca-from": f"{options.namespace}/{CERTIFICATE}"}


def _object(api_version: str, kind: str, name: str, options: InstallOptions, rest: JsonObject) -> JsonObject:
    metadata = {"name": name, "namespace": options.namespace, "labels": LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _container(options: InstallOptions) -> JsonObject:
    mounts: list[JsonObject] = [{"name": "config", "mountPath": "/etc/kohort", "readOnly": True}]
    mounts.append({"name": "tmp", "mountPath": "/tmp"})
    if options.cert_manager:
        mounts.append({"name": "cert", "mountPath": CERTIFICATES, "readOnly": True})
    return {
        "name": "manager",
        "image": options.image,
        "imagePullPolicy": PULL_POLICY,
        "command": ["kohort", "operator"],
        "args": [f"--config=/etc/kohort/{CONFIGURATION_FILE}", "--zap-log-level=2"],
        "ports": [
            {"containerPort": 9443, "name": "webhook-server", "protocol": "TCP"},
            {"containerPort": 8443, "name": "metrics", "protocol": "TCP"},
            {"containerPort": 8081, "name": "health", "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz", delay=15, period=20),
        "readinessProbe": _probe("/readyz", delay=1, period=5),
        "resources": RESOURCES,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts,
    }


def _probe(path: str, *, delay: int, period: int) -> JsonObject:
    return {"httpGet": {"path": path, "port": 8081}, "initialDelaySeconds": delay, "periodSeconds": period}


def _volumes(options: InstallOptions) -> list[JsonObject]:
    # Certificates pass through files on their way into OpenSSL; these must never reach a disk.
    volumes: list[JsonObject] = [
        {"name": "config", "configMap": {"name": CONFIGURATION}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
    if options.cert_manager:
        volumes.append({"name": "cert", "secret": {"secretName": SECRET}})
    return volumes


def _anti_affinity() -> JsonObject:
    """Two replicas on one machine fail together."""
    term = {"topologyKey": well_known_names.HOSTNAME, "labelSelector": {"matchLabels": SELECTOR}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
