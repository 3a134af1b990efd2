"""From an empty cluster to a ready group and back, with the commands that users have."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.access import AccessLog
from tests.kubernetes.commands import kohort
from tests.kubernetes.controlplane import ControlPlane, control_plane, free_ports
from tests.kubernetes.operators import administrator, operator, outside_service, service_words, simulated_nodes
from tests.kubernetes.test_groups import settled
from tools.lws import build as upstream

from kohort.admission.webhook_configurations import names
from kohort.install.options import InstallOptions
from kohort.install.roles import ACCOUNT
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS, PODS
from kohort.manager.configuration import SERVICE

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def empty(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: what an installation leaves behind can only be seen where nothing else was."""
    directory = tmp_path_factory.mktemp("empty")
    with control_plane(binaries, directory, "kube-controller-manager", "kube-scheduler") as plane:
        yield plane


async def everything(plane: ControlPlane) -> set[str]:
    return await asyncio.to_thread(_everything, plane)


def _everything(plane: ControlPlane) -> set[str]:
    """All that an installation could have touched."""
    kinds = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations,crds"
    inside = "deployments,services,secrets,configmaps,serviceaccounts,leases,roles,rolebindings,pdb,networkpolicies"
    found = plane.kubectl("get", kinds, "-o", "name").split()
    found += plane.kubectl("get", inside, "-n", "lws-system", "-o", "name", "--ignore-not-found").split()
    return set(found + plane.kubectl("get", "namespaces", "-o", "name").split())


async def _story(plane: ControlPlane, client: Client, log: Path) -> None:
    (port,) = free_ports(1)
    kubeconfig = await outside_service(plane, client, InstallOptions(), port)
    with operator(kubeconfig, log, *service_words(port, "lws-system")) as process:
        await process.says("controllers started")
        await asyncio.to_thread(plane.kubectl, "apply", "-f", str(EXAMPLES / "llm.yaml"))
        wanted = (await client.get(LEADER_WORKER_SETS, "llm", "default"))["spec"]["replicas"]
        await settled(client, "default", wanted)
    access = AccessLog(plane.audit_log, "lws-system")
    assert access.used() and access.refused() == []


async def test_install_apply_uninstall(empty: ControlPlane, tmp_path: Path) -> None:
    before = await everything(empty)
    async with administrator(empty) as client, simulated_nodes(empty):
        said = await kohort(empty, "install", "--replicas", "0")
        assert "Deployment lws-controller-manager applied" in said
        first = await everything(empty)
        await kohort(empty, "install", "--replicas", "0")
        assert await everything(empty) == first
        await _story(empty, client, tmp_path / "operator.log")

        pods = {one["metadata"]["uid"] for one in (await client.list(PODS, "default")).items}
        assert pods
        await kohort(empty, "uninstall", "--keep-objects")
        left = (await everything(empty)) - before
        assert left and all(name.startswith("customresourcedefinition") for name in left)
        assert {one["metadata"]["uid"] for one in (await client.list(PODS, "default")).items} == pods
        assert (await client.get(LEADER_WORKER_SETS, "llm", "default"))["status"]["readyReplicas"]

        await kohort(empty, "install", "--replicas", "0")
        await kohort(empty, "uninstall", "--yes")
        assert await everything(empty) == before
        assert (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items == []


def _may(plane: ControlPlane, *words: str) -> bool:
    """Whether the operator's service account may do that, everywhere."""
    account = f"--as=system:serviceaccount:lws-system:{ACCOUNT}"
    command = [str(plane.binaries / "kubectl"), "--kubeconfig", str(plane.kubeconfig), "auth", "can-i", *words, "-A"]
    return subprocess.run([*command, account], capture_output=True, timeout=60).returncode == 0


def _upstream_installation(plane: ControlPlane) -> str:
    if upstream.find() is None and shutil.which("go") is None:
        pytest.skip("no LeaderWorkerSet installation to install over: install Go to get one")
    upstream.build()
    return plane.kubectl("kustomize", str(upstream.installation() / "default"))


async def test_install_over_a_released_leaderworkerset(empty: ControlPlane, tmp_path: Path) -> None:
    """Its kustomize installation is there, with all its rights and hooks; afterwards it is ours, with ours."""
    before = await everything(empty)
    theirs = await asyncio.to_thread(_upstream_installation, empty)
    await asyncio.to_thread(empty.kubectl, "apply", "--server-side", "-f", "-", text=theirs)
    assert _may(empty, "list", "secrets") and _may(empty, "update", "nodes")
    async with administrator(empty) as client, simulated_nodes(empty):
        await kohort(empty, "install", "--replicas", "0")
        refused = [
            words
            for words in (("list", "secrets"), ("get", "secrets"), ("update", "nodes"), ("create", "pods"))
            if _may(empty, *words)
        ]
        assert refused == []
        for resource, name in names():
            for hook in (await client.get(resource, name)).get("webhooks", []):
                assert hook["clientConfig"]["service"]["name"] == SERVICE
        await _story(empty, client, tmp_path / "operator.log")
        # What only they had stays until somebody removes it: nobody but them knows whether it is needed.
        await kohort(empty, "uninstall", "--yes")
        left = {name.partition("/")[2] for name in await everything(empty) - before}
        assert left == {
            "disaggregatedsets.disaggregatedset.x-k8s.io",
            "lws-metrics-reader-rolebinding",
            "lws-proxy-role",
            "lws-proxy-rolebinding",
        }
        await asyncio.to_thread(empty.kubectl, "delete", "--ignore-not-found", "-f", "-", text=theirs)
