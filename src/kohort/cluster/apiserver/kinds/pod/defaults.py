"""What a pod spec contains when its author did not say.

`default_spec` is shared by pods and by every template of a pod. `default_pod` adds what Kubernetes fills in for pods
only, so that templates stay as their authors wrote them: requests from limits, host ports, service links. Pod-level
resources are defaulted later, in `pod_level_resources`, when injected containers are known.

Everything here runs on every decode of every pod, on objects that have already been conformed to the schema, and
changes nothing the second time.
"""

from collections.abc import Iterable
from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import DEFAULT_GRACE_SECONDS
from kohort.objects.quantity import Quantity
from kohort.rules.image_pull_policy import default_pull_policy
from kohort.rules.stored_requests import requests_from_limits

FILE_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600


def default_pod(pod: JsonObject) -> None:
    spec = pod.get("spec")
    if spec is None:
        spec = pod["spec"] = {}
    default_spec(spec)
    host_network = spec.get("hostNetwork")
    for container in _containers(spec):
        requests_from_limits(container["resources"])
        if host_network:
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def default_template(template: JsonObject) -> None:
    """The template inside a workload: its spec only."""
    spec = template.get("spec")
    if spec is None:
        spec = template["spec"] = {}
    template.setdefault("metadata", {})
    default_spec(spec)


def default_spec(spec: JsonObject) -> None:
    get = spec.get
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if get("securityContext") is None:
        spec["securityContext"] = {}
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = DEFAULT_GRACE_SECONDS
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    _mirror_service_account(spec)
    for volume in get("volumes") or ():
        _default_volume(volume)
    for container in get("containers") or ():
        _default_container(container)
    for container in get("initContainers") or ():
        _default_container(container)
    for container in get("ephemeralContainers") or ():
        _default_container(container)
    if get("overhead"):
        round_up(spec["overhead"])
    if get("resources"):
        round_up_block(spec["resources"])


def _mirror_service_account(spec: JsonObject) -> None:
    """The old name of the field always shows what the new one says."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    elif "serviceAccount" in spec or "serviceAccountName" in spec:
        spec.pop("serviceAccount", None)
        spec.pop("serviceAccountName", None)


def _containers(spec: JsonObject) -> Iterable[JsonObject]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _default_container(container: JsonObject) -> None:
    get = container.get
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(get("image") or "")
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        round_up_block(resources)
    for port in get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in get("env") or ():
        if "valueFrom" in variable:
            _default_variable(variable["valueFrom"])
    if get("livenessProbe") is not None:
        _default_probe(container["livenessProbe"])
    if get("readinessProbe") is not None:
        _default_probe(container["readinessProbe"])
    if get("startupProbe") is not None:
        _default_probe(container["startupProbe"])
    lifecycle = get("lifecycle")
    if lifecycle:
        for moment in ("postStart", "preStop"):
            _default_http((lifecycle.get(moment) or {}).get("httpGet"))


def _default_variable(source: JsonObject) -> None:
    reference = source.get("fieldRef")
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"
    file_key = source.get("fileKeyRef")
    if file_key is not None and file_key.get("optional") is None:
        file_key["optional"] = False


_PROBE_NUMBERS: Final = (
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
)


def _default_probe(probe: JsonObject) -> None:
    for field, number in _PROBE_NUMBERS:
        if not probe.get(field):
            probe[field] = number
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http(action: JsonObject | None) -> None:
    if action is None:
        return
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


_WITH_MODE: Final = ("configMap", "secret", "downwardAPI", "projected")

_LEGACY_SOURCES: Final[dict[str, JsonObject]] = {
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "iscsi": {"iscsiInterface": "default"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Also the defaults of the same sources in PersistentVolumes."""


def _default_volume(volume: JsonObject) -> None:
    if len(volume) <= ("name" in volume):
        volume["emptyDir"] = {}
        return
    for name in _WITH_MODE:
        source = volume.get(name)
        if source is not None:
            if source.get("defaultMode") is None:
                source["defaultMode"] = FILE_MODE
            if name == "downwardAPI":
                _default_files(source.get("items"))
            elif name == "projected":
                _default_projection(source)
            return
    if "hostPath" in volume:
        if volume["hostPath"].get("type") is None:
            volume["hostPath"]["type"] = ""
    elif "image" in volume:
        image = volume["image"]
        if not image.get("pullPolicy"):
            image["pullPolicy"] = default_pull_policy(image.get("reference") or "")
    elif "ephemeral" in volume:
        template = volume["ephemeral"].get("volumeClaimTemplate")
        if template is not None:
            default_claim_spec(template.setdefault("spec", {}))
    else:
        default_legacy_sources(volume)


def default_legacy_sources(sources: JsonObject) -> None:
    for name, values in _LEGACY_SOURCES.items():
        source = sources.get(name)
        if source is not None:
            for field, value in values.items():
                if source.get(field) is None or (source[field] == "" and name != "azureDisk"):
                    source[field] = value


def default_claim_spec(spec: JsonObject) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    if spec.get("resources"):
        round_up_block(spec["resources"])


def _default_projection(projected: JsonObject) -> None:
    for source in projected.get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = TOKEN_SECONDS
        downward = source.get("downwardAPI")
        if downward is not None:
            _default_files(downward.get("items"))


def _default_files(files: Iterable[JsonObject] | None) -> None:
    for file in files or ():
        reference = file.get("fieldRef")
        if reference is not None and not reference.get("apiVersion"):
            reference["apiVersion"] = "v1"


def round_up_block(resources: JsonObject) -> None:
    if resources.get("requests"):
        round_up(resources["requests"])
    if resources.get("limits"):
        round_up(resources["limits"])


def round_up(amounts: JsonObject) -> None:
    """Amounts finer than a thousandth are stored as the next thousandth."""
    for name, text in amounts.items():
        if text[-1:] in ("u", "n"):
            amounts[name] = str(Quantity.parse(text).rounded_up_to_milli())
