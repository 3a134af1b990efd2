"""What people type: every kubectl verb against a running cluster, with each kubectl that is here."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests import children

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {app: NAME}}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: "img:1"}]}
"""


def programs() -> list[str]:
    built = sorted((Path.home() / ".cache" / "kohort").glob("kubernetes-*/kubectl"))
    named = os.environ.get("KUBECTL")
    found = [named, shutil.which("kubectl"), *map(str, built)]
    return list(dict.fromkeys(one for one in found if one))


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cluster with three simulated nodes for all tests."""
    data = tmp_path_factory.mktemp("kubectl") / "data"
    command = [sys.executable, "-m", "kohort", "up", "--data-dir", str(data), "--port", "0", "--simulated-nodes", "3"]
    process = subprocess.Popen(command, env=children.environment(), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        yield data / "kubeconfig"
    finally:
        process.terminate()
        process.wait(timeout=120)


class Kubectl:
    def __init__(self, program: str, kubeconfig: Path, directory: Path) -> None:
        self._base = [program, "--kubeconfig", str(kubeconfig), "--cache-dir", str(directory / "cache")]
        self.directory = directory
        self.name = f"web-{abs(hash(directory)) % 10**6}"

    def result(self, *words: str, text: str | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._base, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env=children.environment(**environment),
        )

    def __call__(self, *words: str, text: str | None = None, **environment: str) -> str:
        done = self.result(*words, text=text, **environment)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def manifest(self) -> str:
        return DEPLOYMENT.replace("NAME", self.name)


@pytest.fixture(params=programs() or ["none"])
def kubectl(request: pytest.FixtureRequest, kubeconfig: Path, tmp_path: Path) -> Kubectl:
    if request.param == "none":
        pytest.skip("needs kubectl: install it, or name it in KUBECTL")
    return Kubectl(request.param, kubeconfig, tmp_path)


def test_a_deployment_from_creation_to_deletion(kubectl: Kubectl) -> None:
    name = kubectl.name
    subject = f"deployment/{name}"
    assert kubectl("create", "-f", "-", text=kubectl.manifest()) == f"deployment.apps/{name} created\n"
    kubectl("rollout", "status", subject, "--timeout=120s")
    kubectl("wait", "--for=condition=Available", subject, "--timeout=120s")
    wide = kubectl("get", subject, "-o", "wide")
    assert wide.split()[:9] == [
        "NAME",
        "READY",
        "UP-TO-DATE",
        "AVAILABLE",
        "AGE",
        "CONTAINERS",
        "IMAGES",
        "SELECTOR",
        name,
    ]
    assert "2/2" in wide
    assert kubectl("get", subject, "-o", "jsonpath={.spec.replicas}") == "2"
    assert json.loads(kubectl("get", subject, "-o", "json"))["kind"] == "Deployment"
    assert yaml.safe_load(kubectl("get", subject, "-o", "yaml"))["spec"]["replicas"] == 2
    described = kubectl("describe", subject)
    assert "2 desired | 2 updated | 2 total | 2 available" in described
    assert "ScalingReplicaSet" in kubectl("events", "--for", subject)

    kubectl("set", "image", subject, "main=img:2")
    kubectl("rollout", "status", subject, "--timeout=120s")
    assert "REVISION" in kubectl("rollout", "history", subject)
    kubectl("rollout", "undo", subject)
    kubectl("rollout", "status", subject, "--timeout=120s")
    assert kubectl("get", subject, "-o", "jsonpath={.spec.template.spec.containers[0].image}") == "img:1"
    kubectl("rollout", "restart", subject)
    kubectl("rollout", "status", subject, "--timeout=120s")

    kubectl("scale", subject, "--replicas=1")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=1", subject, "--timeout=120s")
    kubectl("label", subject, "team=x")
    kubectl("annotate", subject, "note=y")
    assert kubectl("get", "deployments", "-l", "team=x", "-o", "name") == f"{subject.replace('/', '.apps/')}\n"
    kubectl("patch", subject, "--type=merge", "-p", '{"spec":{"paused":true}}')
    kubectl("delete", subject, "--cascade=foreground", "--timeout=120s")
    assert "NotFound" in kubectl.result("get", subject).stderr


def test_applies_and_differences(kubectl: Kubectl) -> None:
    manifest = kubectl.manifest()
    assert kubectl("apply", "-f", "-", text=manifest).endswith("created\n")
    assert kubectl("apply", "-f", "-", text=manifest).endswith("unchanged\n")
    changed = manifest.replace("replicas: 2", "replicas: 1")
    different = kubectl.result("diff", "-f", "-", text=changed)
    assert different.returncode == 1
    assert "+  replicas: 1" in different.stdout
    assert kubectl("apply", "-f", "-", text=changed).endswith("configured\n")
    assert kubectl("apply", "--server-side", "--field-manager=kubectl", "-f", "-", text=changed).endswith("applied\n")
    conflict = kubectl.result("apply", "--server-side", "--field-manager=other", "-f", "-", text=manifest)
    assert "conflict" in conflict.stderr
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=manifest)
    assert kubectl("get", f"deployment/{kubectl.name}", "-o", "jsonpath={.spec.replicas}") == "2"
    typo = kubectl.result("apply", "-f", "-", text=manifest.replace("replicas", "replica"))
    assert 'unknown field "spec.replica"' in typo.stderr
    dry = kubectl("create", "--dry-run=server", "-f", "-", text=manifest.replace(kubectl.name, f"{kubectl.name}-dry"))
    assert "server dry run" in dry
    kubectl("delete", f"deployment/{kubectl.name}", "--cascade=orphan")
    kubectl("delete", "replicasets", "-l", f"app={kubectl.name}")


def test_editing_as_a_person_would(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", kubectl.name, "--from-literal=a=1")
    editor = kubectl.directory / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i \'s/a: "1"/a: "2"/\' "$1"\n')
    editor.chmod(0o755)
    kubectl("edit", "configmap", kubectl.name, KUBE_EDITOR=str(editor))
    assert kubectl("get", "configmap", kubectl.name, "-o", "jsonpath={.data.a}") == "2"
    kubectl("delete", "configmap", kubectl.name)


def test_watching(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", kubectl.name, "--from-literal=a=1")
    command = [*kubectl._base, "get", "configmap", kubectl.name, "-w", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == f"configmap/{kubectl.name}\n"
        kubectl("label", "configmap", kubectl.name, "seen=yes")
        assert watching.stdout.readline() == f"configmap/{kubectl.name}\n"
        watching.terminate()
    kubectl("delete", "configmap", kubectl.name)


def test_what_there_is_and_what_one_may(kubectl: Kubectl) -> None:
    assert "leaderworkersets" in kubectl("api-resources")
    assert "leaderworkerset.x-k8s.io/v1" in kubectl("api-versions")
    assert "rollingUpdateConfiguration" in kubectl("explain", "lws.spec.rolloutStrategy")
    assert "partition" in kubectl("explain", "statefulset.spec.updateStrategy", "--recursive")
    assert "<no description>" not in kubectl("explain", "pod.spec.containers")
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    refused = kubectl.result("auth", "can-i", "create", "pods", "--as=system:serviceaccount:default:nobody")
    assert refused.stdout == "no\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert "current-context" in kubectl("config", "view")
    assert "is running at" in kubectl("cluster-info")
    assert "Server Version: v1.36" in kubectl("version")
    assert "sim-0" in kubectl("get", "all,nodes", "-A")


def test_objects_made_by_words(kubectl: Kubectl) -> None:
    name = kubectl.name
    kubectl("create", "namespace", name)
    words = [
        ("secret", "generic", "s", "--from-literal=k=v"),
        ("service", "clusterip", "c", "--tcp=80:8080"),
        ("job", "j", "--image=img:1"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "b", "--role=r", f"--serviceaccount={name}:default"),
        ("quota", "q", "--hard=pods=10"),
        ("poddisruptionbudget", "p", "--selector=a=b", "--min-available=1"),
        ("ingress", "i", "--rule=x.example.com/=c:80"),
        ("token", "default"),
    ]
    for one in words:
        kubectl("-n", name, "create", *one)
    kubectl("-n", name, "run", "one", "--image=img:1")
    kubectl("-n", name, "wait", "--for=condition=Ready", "pod/one", "--timeout=120s")
    kubectl("-n", name, "expose", "pod", "one", "--port=80")
    kubectl("cordon", "sim-2")
    assert "SchedulingDisabled" in kubectl("get", "node", "sim-2")
    kubectl("uncordon", "sim-2")
    kubectl("delete", "namespace", name, "--timeout=120s")
