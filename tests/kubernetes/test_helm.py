"""The chart in the hands of Helm itself: what it renders is what `kohort manifests` prints, a cluster accepts it, and
nothing is left when the release is removed but the definitions."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tools.helm import build

from kohort import __version__
from kohort.install import chart
from kohort.install.manifests import manifests
from kohort.install.options import InstallOptions
from kohort.objects.json_types import JsonObject

CHART = Path(__file__).parents[2] / "deploy" / "chart"
SPACE = "helm-system"
INSIDE = ("Deployment", "Service", "Secret", "ConfigMap", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> "Helm":
    found = build.find()
    if found is None:
        pytest.skip("the chart is not tried with Helm: install Helm, or build it with `make programs`")
    return Helm(found, tmp_path_factory.mktemp("helm"))


class Helm:
    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "HOME": str(home), "HELM_CACHE_HOME": str(home)}

    def __call__(self, *words: str) -> str:
        command = [str(self._program), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=self._environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _key(obj: JsonObject) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@pytest.mark.parametrize(("rollouts", "cert_manager", "monitor"), [*itertools.product((True, False), repeat=3)])
def test_rendered_it_is_the_plain_manifests(helm: Helm, rollouts: bool, cert_manager: bool, monitor: bool) -> None:
    chosen = {"enableRollouts": rollouts, "enableCertManager": cert_manager, "enablePrometheus": monitor}
    values = [f"--set={name}={str(value).lower()}" for name, value in chosen.items()]
    gang = "volcano" if rollouts else "kubernetes" if monitor else ""
    values += ["--set=defaultResizePolicy=Recreate", "--set=replicaCount=3"]
    values.append(f"--set=gangSchedulingManagement.schedulerProvider={gang}")
    text = helm("template", "kohort", str(CHART), "--kube-version", "1.36.0", "--namespace", "somewhere", *values)
    rendered: list[JsonObject] = [one for one in yaml.safe_load_all(text) if one]
    options = InstallOptions(
        namespace="somewhere",
        replicas=3,
        rollouts=rollouts,
        cert_manager=cert_manager,
        service_monitor=monitor,
        gang_scheduler=gang,
        default_resize_policy="Recreate",
    )
    definitions = [one for one in rendered if one["kind"] == "CustomResourceDefinition"]
    for one in definitions:
        assert one["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        one["metadata"] = {name: value for name, value in one["metadata"].items() if value}
    # Helm makes the namespace; definitions that name nobody are in the folder crds.
    plain = [
        one
        for one in manifests(options)
        if one["kind"] not in ("Namespace", "CustomResourceDefinition") or "conversion" in one.get("spec", {})
    ]
    assert sorted(rendered, key=_key) == sorted(plain, key=_key)


@pytest.mark.parametrize(
    ("released", "chosen", "expected"),
    [
        ("", {}, "k:VERSION"),
        ("", {"digest": "sha256:b"}, "k:VERSION@sha256:b"),
        ("sha256:a", {}, "k:VERSION@sha256:a"),
        ("sha256:a", {"tag": "7"}, "k:7"),
        ("sha256:a", {"tag": "7", "digest": "sha256:b"}, "k:7@sha256:b"),
    ],
)
def test_a_digest_names_the_image(
    helm: Helm, tmp_path: Path, released: str, chosen: dict[str, str], expected: str
) -> None:
    chart.write(tmp_path, digest=released)
    values = [f"--set-string=image.manager.{name}={value}" for name, value in {"repository": "k", **chosen}.items()]
    text = helm("template", "kohort", str(tmp_path), "--kube-version", "1.36.0", *values)
    (deployment,) = (one for one in yaml.safe_load_all(text) if one and one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == expected.replace("VERSION", __version__)


@pytest.fixture
def cluster(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Of its own: Helm takes nothing over that it has not made, and the definitions that it brings stay."""
    with control_plane(binaries, tmp_path / "plane") as plane:
        yield plane


def test_a_cluster_takes_it_changes_it_and_gives_it_back(helm: Helm, cluster: ControlPlane) -> None:
    def words(*more: str) -> tuple[str, ...]:
        return (*more, "--kubeconfig", str(cluster.kubeconfig), "--namespace", SPACE)

    helm("lint", str(CHART))
    helm(*words("install", "kohort", str(CHART), "--create-namespace", "--set=replicaCount=0"))
    try:
        wanted = {_key(one) for one in manifests(InstallOptions(namespace=SPACE)) if one["kind"] in INSIDE}
        assert _found(cluster) >= wanted
        helm(*words("upgrade", "kohort", str(CHART), "--set=replicaCount=0", "--set=defaultResizePolicy=Recreate"))
        settings = cluster.kubectl("get", "configmap", "lws-manager-config", "-n", SPACE, "-o", "yaml")
        assert "defaultResizePolicy: Recreate" in settings
    finally:
        helm(*words("uninstall", "kohort"))
    kinds = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations"
    left = cluster.kubectl("get", kinds, "-o", "name").split()
    assert [one for one in left if "lws-" in one or "kruise" in one] == []
    assert not _found(cluster) & wanted


def _found(cluster: ControlPlane) -> set[tuple[str, str, str]]:
    listed: JsonObject = yaml.safe_load(cluster.kubectl("get", ",".join(INSIDE), "-n", SPACE, "-o", "yaml"))
    return {_key(one) for one in listed["items"]}
