"""The chart is what its source makes, and rendered it is what `kohort manifests` prints.

Templates use a small part of Helm's language: values, one default, one comparison, if/else and with, if/else within a
line, a value as YAML, and the digest of a file; that much is rendered here.
"""

import hashlib
import itertools
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from kohort import __version__
from kohort.groups.gang_schedulers import PROVIDERS
from kohort.install import chart
from kohort.install.manifests import manifests
from kohort.install.options import TAGGED, InstallOptions
from kohort.objects.json_types import Json, JsonObject

CONFIGURATION = ("ConfigMap", "somewhere", "lws-manager-config")
CHART = Path(__file__).parents[2] / "deploy" / "chart"
_INLINE = re.compile(
    r"\{\{ if (?P<first>\S+) \}\}(?P<yes>.*?)(?:\{\{ else if (?P<second>.+?) \}\}(?P<otherwise>.*?))?\{\{ end \}\}"
)


def test_the_chart_is_up_to_date() -> None:
    """If not: python -m kohort.install.chart deploy/chart"""
    written = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert written == chart.files()


class Rendering:
    def __init__(self, values: JsonObject, namespace: str, folder: Path = CHART) -> None:
        self._folder = folder
        self._scope: JsonObject = {
            "Values": values,
            "Release": {"Namespace": namespace},
            "Chart": {"AppVersion": __version__},
        }

    def objects(self) -> list[JsonObject]:
        templates = sorted((self._folder / "templates").iterdir())
        texts = [self._render(path.read_text()) for path in templates]
        return [one for text in texts for one in yaml.safe_load_all(text) if one]

    def _render(self, text: str) -> str:
        lines, open_branches = [], [True]
        given: Json = None
        for line in text.splitlines(keepends=True):
            if found := re.fullmatch(r"\{\{- (?:if|with) (.+) \}\}\n", line):
                open_branches.append(self._holds(found[1]))
                given = self._value(found[1]) if "with" in line else given
            elif line == "{{- else }}\n":
                open_branches[-1] = not open_branches[-1]
            elif line == "{{- end }}\n":
                open_branches.pop()
            elif not all(open_branches):
                continue
            elif found := re.fullmatch(r"\{\{ toYaml \. \| indent (\d+) \}\}\n", line):
                lines.append(textwrap.indent(yaml.safe_dump(given), " " * int(found[1])))
            else:
                chosen = _INLINE.sub(self._inline, line)
                lines.append(re.sub(r"\{\{ (.*?) \}\}", lambda match: str(self._value(match[1])), chosen))
        assert open_branches == [True]
        return "".join(lines)

    def _inline(self, match: re.Match[str]) -> str:
        if self._holds(match["first"]):
            return match["yes"]
        return match["otherwise"] if match["second"] and self._holds(match["second"]) else ""

    def _holds(self, condition: str) -> bool:
        if found := re.fullmatch(r"not (\S+)", condition):
            return not self._holds(found[1])
        if found := re.fullmatch(r'eq (\S+) "(.+)"', condition):
            return bool(self._value(found[1]) == found[2])
        return bool(self._value(condition))

    def _value(self, expression: str) -> Json:
        if found := re.fullmatch(
            r'include \(print \$\.Template\.BasePath "/(.+)"\) \. \| trim \| sha256sum \| quote', expression
        ):
            text = self._render((self._folder / "templates" / found[1]).read_text()).strip()
            return f'"{hashlib.sha256(text.encode()).hexdigest()}"'
        if expression.startswith('"'):
            return expression.strip('"')
        first, _, default = expression.partition(" | default ")
        place: Json = self._scope
        for step in first.removeprefix(".").split("."):
            place = place[step]
        return self._value(default) if default and not place else place


def _key(obj: JsonObject) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@pytest.mark.parametrize(("rollouts", "cert_manager", "monitor"), [*itertools.product((True, False), repeat=3)])
def test_rendered_it_is_the_plain_manifests(rollouts: bool, cert_manager: bool, monitor: bool) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values |= {"enableRollouts": rollouts, "enableCertManager": cert_manager, "enablePrometheus": monitor}
    values |= {"defaultResizePolicy": "Recreate", "replicaCount": 3}
    values["image"]["manager"] |= {"repository": TAGGED.rpartition(":")[0], "tag": ""}
    rendered = Rendering(values, "somewhere").objects()
    options = InstallOptions(
        namespace="somewhere",
        replicas=3,
        rollouts=rollouts,
        cert_manager=cert_manager,
        service_monitor=monitor,
        default_resize_policy="Recreate",
    )
    # Helm makes the namespace, and takes definitions that name nobody from the folder crds.
    plain = [one for one in manifests(options) if one["kind"] not in ("Namespace", "CustomResourceDefinition")]
    definitions = [one for one in rendered if one["kind"] == "CustomResourceDefinition"]
    rest = [one for one in rendered if one not in definitions]
    assert sorted(rest, key=_key) == sorted(plain, key=_key)
    for one in definitions:
        assert one["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        if not cert_manager:
            del one["metadata"]["annotations"]
    converted = [one for one in manifests(options) if "conversion" in one.get("spec", {})]
    assert sorted(definitions, key=_key) == sorted(converted, key=_key)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_gang_scheduler_can_be_chosen(provider: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["gangSchedulingManagement"] = {"schedulerProvider": provider}
    rendered = {_key(one): one for one in Rendering(values, "somewhere").objects()}
    plain = {_key(one): one for one in manifests(InstallOptions(namespace="somewhere", gang_scheduler=provider))}
    (role,) = (key for key in plain if key[0] == "ClusterRole" and "gang" in key[2])
    assert rendered[role] == plain[role]
    settings = yaml.safe_load(rendered[CONFIGURATION]["data"]["controller_manager_config.yaml"])
    assert settings["gangSchedulingManagement"] == {"schedulerProvider": provider}


def test_where_the_pods_of_the_operator_run_can_be_chosen() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chosen = {
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "resources": {"requests": {"cpu": "1"}},
        "affinity": {"nodeAffinity": {}},
    }
    objects = {one["kind"]: one for one in Rendering({**values, **chosen}, "somewhere").objects()}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert {name: {**pod, **pod["containers"][0]}[name] for name in chosen} == chosen
    assert "priorityClassName" not in pod


def test_names_pods_and_service_of_the_operator_can_be_chosen() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chosen: JsonObject = {
        "nameOverride": "groups",
        "podAnnotations": {"team": "a"},
        "podSecurityContext": {"runAsUser": 7},
        "securityContext": {"privileged": False},
        "service": {"type": "NodePort", "port": 9000},
    }
    values["image"]["manager"]["pullPolicy"] = "Always"
    objects = Rendering({**values, **chosen}, "somewhere").objects()
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert {one["metadata"]["name"] for one in objects if one["kind"] in ("Deployment", "NetworkPolicy")} == {
        "groups-controller-manager"
    }
    assert template["metadata"]["annotations"].items() >= {"team": "a"}.items()
    assert "kohort.dev/configuration" in template["metadata"]["annotations"]
    assert (template["spec"]["securityContext"], container["securityContext"]) == (
        {"runAsUser": 7},
        {"privileged": False},
    )
    assert container["imagePullPolicy"] == "Always"
    (metrics,) = (one for one in objects if one["kind"] == "Service" and "metrics" in one["metadata"]["name"])
    assert (metrics["spec"]["type"], metrics["spec"]["ports"][0]["port"]) == ("NodePort", 9000)
    full = Rendering({**values, **chosen, "fullnameOverride": "mine"}, "somewhere").objects()
    assert "mine-controller-manager" in {one["metadata"]["name"] for one in full if one["kind"] == "Deployment"}


@pytest.mark.parametrize(
    ("released", "tag", "digest", "expected"),
    [
        ("", "", "", f"registry/k:{__version__}"),
        ("", "", "sha256:b", f"registry/k:{__version__}@sha256:b"),
        ("", "7", "sha256:b", "registry/k:7@sha256:b"),
        ("sha256:a", "", "", f"registry/k:{__version__}@sha256:a"),
        ("sha256:a", "", "sha256:b", f"registry/k:{__version__}@sha256:b"),
        ("sha256:a", "7", "", "registry/k:7"),
        ("sha256:a", "7", "sha256:b", "registry/k:7@sha256:b"),
    ],
)
def test_a_digest_names_the_image(tmp_path: Path, released: str, tag: str, digest: str, expected: str) -> None:
    """That of the release, which another tag or digest replaces."""
    chart.write(tmp_path, digest=released)
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    values["image"]["manager"] |= {"repository": "registry/k", "tag": tag, "digest": digest}
    for cert_manager in (False, True):
        objects = Rendering({**values, "enableCertManager": cert_manager}, "somewhere", tmp_path).objects()
        (deployment,) = (one for one in objects if one["kind"] == "Deployment")
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == expected


def test_another_configuration_means_other_pods() -> None:
    """The operator reads it once, at the start."""

    def digest(policy: str) -> str:
        values = yaml.safe_load((CHART / "values.yaml").read_text()) | {"defaultResizePolicy": policy}
        (found,) = [one for one in Rendering(values, "somewhere").objects() if one["kind"] == "Deployment"]
        return str(found["spec"]["template"]["metadata"]["annotations"]["kohort.dev/configuration"])

    assert digest("None") != digest("Recreate")


def test_definitions_are_in_their_folder() -> None:
    found = {_key(one) for path in (CHART / "crds").iterdir() for one in yaml.safe_load_all(path.read_text())}
    defined = (one for one in manifests(InstallOptions()) if one["kind"] == "CustomResourceDefinition")
    assert found == {_key(one) for one in defined if "conversion" not in one["spec"]}
