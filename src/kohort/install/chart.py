"""The Helm chart, made from the same objects as the plain manifests.

    python -m kohort.install.chart deploy/chart

Objects are rendered with marks in the places of what a user may choose, and the marks are then replaced by Helm's
expressions. Where a choice changes the shape of an object, both shapes stand in the template, one in each branch.
Values that only the chart offers, such as affinity, are inserted at their places.

Helm renders nothing in its folder `crds`. Definitions that name the operator, because it converts their versions, are
therefore templates. They carry the annotation that makes Helm keep them on uninstall, as it keeps the others: otherwise
it would delete the objects of users.
"""

import re
import sys
import textwrap
from pathlib import Path
from typing import Final

import msgspec
import yaml

from kohort import __version__
from kohort.groups.gang_schedulers import PROVIDERS
from kohort.install import dashboard_deployment, operator_deployment, roles
from kohort.install.options import TAGGED, InstallOptions, released_digest
from kohort.install.rendering import render
from kohort.objects.json_types import JsonObject

_CHOSEN_DIGEST: Final = "{{ if .Values.image.manager.digest }}@{{ .Values.image.manager.digest }}"
MARKS: Final = {
    "mark-namespace": "{{ .Release.Namespace }}",
    "mark-image": "{{ .Values.image.manager.repository }}:{{ .Values.image.manager.tag | default .Chart.AppVersion }}"
    f"{_CHOSEN_DIGEST}{{{{ end }}}}",
    "mark-hosts": "{{ .Values.dashboard.hosts }}",
    "mark-tls-secret": "{{ .Values.dashboard.tlsSecret }}",
    "mark-resize-policy": "{{ .Values.defaultResizePolicy }}",
    "mark-gang": "{{ .Values.gangSchedulingManagement.schedulerProvider }}",
    "1000007": "{{ .Values.replicaCount }}",
}
"""What stands for what while an object is rendered."""
CONFIGURATION: Final = "templates/configuration.yaml"
_DIGEST: Final = (
    f'{{{{ include (print $.Template.BasePath "/{CONFIGURATION.partition("/")[2]}") . | trim | sha256sum | quote }}}}'
)
_PLACED: Final = ("imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName")
_BEFORE_PLACED: Final = "serviceAccountName: "
KEPT: Final = {"helm.sh/resource-policy": "keep"}

_MARKED: Final = InstallOptions(
    namespace="mark-namespace", image="mark-image", replicas=1000007, default_resize_policy="mark-resize-policy"
)
_GANG: Final = ".Values.gangSchedulingManagement.schedulerProvider"
REPOSITORY, _, _TAG = TAGGED.rpartition(":")
_NAME: Final = '{{ .Values.fullnameOverride | default .Values.nameOverride | default "lws" }}-controller-manager'
_POD: Final[JsonObject] = operator_deployment.deployment(_MARKED)["spec"]["template"]["spec"]
_CHOSEN: Final = {
    "podSecurityContext": ("securityContext", "      ", _POD["securityContext"]),
    "affinity": ("affinity", "      ", _POD["affinity"]),
    "resources": ("resources", "        ", operator_deployment.RESOURCES),
    "securityContext": ("securityContext", "        ", _POD["containers"][0]["securityContext"]),
}
"""Values whose default is what `kohort manifests` writes: the field, its margin in the Deployment, and that default."""
METRICS_PORT: Final = 8443

VALUES: Final = f"""\
# Of the operator; all of them answer webhooks, one of them works.
replicaCount: 2
image:
  manager:
    repository: {REPOSITORY}
    tag: ""
    # Such as sha256:..., and decides what is pulled. By default that of the release, unless a tag is given.
    digest: ""
    pullPolicy: {operator_deployment.PULL_POLICY}
# The Deployment is called NAME-controller-manager; NAME is fullnameOverride, else nameOverride, else lws.
nameOverride: ""
fullnameOverride: ""
# Look after Rollouts, too; not where another operator does.
enableRollouts: true
# cert-manager makes the webhook certificate, instead of the operator itself.
enableCertManager: false
# A ServiceMonitor for the Prometheus operator.
enablePrometheus: false
# Groups are placed as a whole, by this scheduler: volcano, or kubernetes where it serves scheduling.k8s.io/v1alpha2.
gangSchedulingManagement:
  schedulerProvider: ""
# The dashboard. Users log in with tokens; actions are done with their own rights. Hosts are names by which browsers
# reach it, besides localhost, such as that of an Ingress. With the name of a Secret that has tls.crt and tls.key it
# serves HTTPS, and users may show client certificates of the cluster, too.
dashboard:
  enabled: false
  allowActions: false
  hosts: ""
  tlsSecret: ""
# What a set without resizePolicy gets when its size changes: None or Recreate.
defaultResizePolicy: None
# The Service of the metrics. That of the webhooks is a ClusterIP with port 443: only the API server calls it.
service:
  type: ClusterIP
  port: {METRICS_PORT}
# Of the operator's pods, as in any pod.
podAnnotations: {{}}
{"".join(yaml.safe_dump({name: default}, sort_keys=False) for name, (_, _, default) in _CHOSEN.items())}\
imagePullSecrets: []
nodeSelector: {{}}
tolerations: []
priorityClassName: ""
"""


def files(digest: str | None = None) -> dict[str, str]:
    """Path in the chart to content. The digest is that of the released image, by default the one in this package."""
    found = {
        "Chart.yaml": yaml.safe_dump(_description(), sort_keys=False),
        "values.yaml": VALUES,
        "templates/access.yaml": _either(".Values.enableRollouts", *(_access(one) for one in (True, False))),
        "templates/gangs.yaml": "".join(_gang_access(one) for one in PROVIDERS),
        "templates/definitions.yaml": _only(
            ".Values.enableRollouts", _either(".Values.enableCertManager", _converted(True), _converted(False))
        ),
        CONFIGURATION: _either(".Values.enableCertManager", _settings(True), _settings(False)),
        "templates/manager.yaml": _either(".Values.enableCertManager", _manager(True), _manager(False)),
        "templates/servicemonitor.yaml": _only(
            ".Values.enablePrometheus", _template([operator_deployment.monitor(_MARKED)])
        ),
        "templates/dashboard.yaml": _only(".Values.dashboard.enabled", _dashboard()),
        "templates/webhooks.yaml": _either(".Values.enableCertManager", _webhooks(True), _webhooks(False)),
    }
    for definition in operator_deployment.definitions(InstallOptions()):
        if not operator_deployment.is_converted(definition):
            found[f"crds/{definition['metadata']['name']}.yaml"] = render([definition])
    if released := released_digest() if digest is None else digest:
        # A tag of the user's names another image, so the digest of the release must not follow it.
        fallback = f"{_CHOSEN_DIGEST}{{{{ else if not .Values.image.manager.tag }}}}@{released}{{{{ end }}}}"
        for name in ("templates/manager.yaml", "templates/dashboard.yaml"):
            found[name] = found[name].replace(f"{_CHOSEN_DIGEST}{{{{ end }}}}", fallback)
    return found


def write(folder: Path, digest: str | None = None) -> None:
    for path, content in files(digest).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def _description() -> JsonObject:
    return {
        "apiVersion": "v2",
        "name": "kohort",
        "description": "Multi-host inference groups on Kubernetes: created, rolled, resized and released as one unit",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.27.0-0",
    }


def _choose(*, rollouts: bool = True, cert_manager: bool = False, gang: str = "") -> InstallOptions:
    return msgspec.structs.replace(_MARKED, rollouts=rollouts, cert_manager=cert_manager, gang_scheduler=gang)


def _dashboard() -> str:
    """Hosts, actions and the certificate are arguments of its own container."""

    def shape(hosts: tuple[str, ...], secret: str, actions: bool) -> str:
        options = msgspec.structs.replace(
            _MARKED, dashboard=True, dashboard_hosts=hosts, dashboard_actions=actions, dashboard_tls_secret=secret
        )
        return _template(dashboard_deployment.dashboard(options))

    def with_secret(secret: str) -> str:
        with_hosts = (
            _either(".Values.dashboard.allowActions", shape(hosts, secret, True), shape(hosts, secret, False))
            for hosts in (("mark-hosts",), ())
        )
        return _either(".Values.dashboard.hosts", *with_hosts)

    return _either(".Values.dashboard.tlsSecret", with_secret("mark-tls-secret"), with_secret(""))


def _access(rollouts: bool) -> str:
    return _template(roles.access(_choose(rollouts=rollouts)))


def _gang_access(provider: str) -> str:
    return _only(f'eq {_GANG} "{provider}"', _template(roles.gang_access(_choose(gang=provider))))


def _settings(cert_manager: bool) -> str:
    """The configuration, alone in its file: its rendered text decides whether pods must be replaced."""

    def shape(rollouts: bool, gang: str) -> str:
        options = _choose(rollouts=rollouts, cert_manager=cert_manager, gang=gang)
        return _template([operator_deployment.configuration(options)])

    each = (_either(_GANG, shape(rollouts, "mark-gang"), shape(rollouts, "")) for rollouts in (True, False))
    return _either(".Values.enableRollouts", *each)


def _manager(cert_manager: bool) -> str:
    """Everything but access, configuration, webhooks, definitions and the namespace, which is Helm's own affair."""
    options = _choose(cert_manager=cert_manager)
    return (
        _deployment(options)
        + _template(operator_deployment.certificate_store(options))
        + _services(options)
        + _renamed(_template(operator_deployment.budget_and_network_policy(options)))
    )


def _services(options: InstallOptions) -> str:
    webhooks, metrics = operator_deployment.services(options)
    text = _replaced(_template([metrics]), f"port: {METRICS_PORT}\n", "port: {{ .Values.service.port }}\n")
    return _template([webhooks]) + _replaced(text, "type: ClusterIP\n", "type: {{ .Values.service.type }}\n")


def _replaced(text: str, written: str, expression: str) -> str:
    """Something that stands in the text once."""
    assert len(re.findall(rf"^ *{re.escape(written)}", text, flags=re.MULTILINE)) == 1, written
    return re.sub(rf"^( *){re.escape(written)}", rf"\g<1>{expression}", text, flags=re.MULTILINE)


def _renamed(text: str) -> str:
    """Objects that are named after the Deployment; its service account is not."""
    return re.sub(rf"^  name: {operator_deployment.DEPLOYMENT}$", f"  name: {_NAME}", text, flags=re.MULTILINE)


def _deployment(options: InstallOptions) -> str:
    text = _renamed(_template([operator_deployment.deployment(options)]))
    noted = f"{operator_deployment.CONFIGURED}: {operator_deployment.digest(options)}\n"
    (place,) = (line for line in text.splitlines(keepends=True) if line.endswith(noted))
    margin = place[: -len(place.lstrip())]
    annotations = "".join(
        f"{line}\n" for line in ("{{- with .Values.podAnnotations }}", _nested(len(margin)), "{{- end }}")
    )
    text = text.replace(place, place.replace(operator_deployment.digest(options), _DIGEST) + annotations)
    (place,) = (line for line in text.splitlines(keepends=True) if line.strip().startswith(_BEFORE_PLACED))
    margin = place[: -len(place.lstrip())]
    text = text.replace(place, place + "".join(_insertion(name, name, margin) for name in _PLACED))
    pulling = "imagePullPolicy: {{ .Values.image.manager.pullPolicy }}\n"
    text = _replaced(text, f"imagePullPolicy: {operator_deployment.PULL_POLICY}\n", pulling)
    for value, (field, margin, default) in _CHOSEN.items():
        written = textwrap.indent(yaml.safe_dump({field: default}, sort_keys=False), margin)
        assert text.count(written) == 1, written
        text = text.replace(written, _insertion(value, field, margin))
    return text


def _insertion(value: str, field: str, margin: str) -> str:
    """A field whose value is what the user gave, if anything."""
    lines = (f"{{{{- with .Values.{value} }}}}", f"{margin}{field}:", _nested(len(margin) + 2), "{{- end }}")
    return "".join(f"{line}\n" for line in lines)


def _nested(width: int) -> str:
    return f"{{{{ toYaml . | indent {width} }}}}"


def _webhooks(cert_manager: bool) -> str:
    both = (
        _template(operator_deployment.webhooks(_choose(rollouts=one, cert_manager=cert_manager)))
        for one in (True, False)
    )
    return _either(".Values.enableRollouts", *both)


def _converted(cert_manager: bool) -> str:
    found = [
        one
        for one in operator_deployment.definitions(_choose(cert_manager=cert_manager))
        if operator_deployment.is_converted(one)
    ]
    for one in found:
        one["metadata"]["annotations"] = {**one["metadata"].get("annotations", {}), **KEPT}
    return _template(found)


def _template(objects: list[JsonObject]) -> str:
    text = render(objects)
    for mark, expression in MARKS.items():
        text = text.replace(mark, expression)
    return text


def _either(condition: str, yes: str, no: str) -> str:
    return f"{{{{- if {condition} }}}}\n{yes}{{{{- else }}}}\n{no}{{{{- end }}}}\n"


def _only(condition: str, yes: str) -> str:
    return f"{{{{- if {condition} }}}}\n{yes}{{{{- end }}}}\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
