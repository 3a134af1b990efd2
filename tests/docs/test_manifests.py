"""Manifests that pages show are accepted by the API server and the webhooks, as a dry run."""

import re
from pathlib import Path

import pytest
import yaml
from tests.docs.pages import ROOT
from tests.installed import installed

from kohort.kube.resources import (
    CLUSTER_ROLES,
    LEADER_WORKER_SETS,
    NODES,
    RELEASE_ANALYSES,
    ROLLOUTS,
    TRAFFIC_ROUTINGS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

DOCS = ROOT / "docs"
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
KINDS = (LEADER_WORKER_SETS, NODES, ROLLOUTS, TRAFFIC_ROUTINGS, RELEASE_ANALYSES, AUTOSCALERS, CLUSTER_ROLES)
RESOURCES = {one.kind: one for one in KINDS}
OF_OTHERS = {"ScaledObject": "https://keda.sh"}
"""Kinds whose definitions are not installed here: only their form is checked."""


def manifests(page: Path) -> list[JsonObject]:
    found = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [document for block in found for document in yaml.safe_load_all(block)]


SHOWN = [(page.name, one) for page in sorted(DOCS.rglob("*.md")) for one in manifests(page)]


async def accept(cluster: Cluster, document: JsonObject) -> JsonObject:
    resource = RESOURCES[document["kind"]]
    stored: JsonObject = await cluster.client.create(
        resource, document, "default" if resource.namespaced else "", dry_run=True
    )
    return stored


def test_pages_show_manifests() -> None:
    assert len(SHOWN) >= 5


@pytest.mark.parametrize(("page", "document"), SHOWN, ids=lambda one: one if isinstance(one, str) else one["kind"])
async def test_a_manifest_of_a_page_is_accepted(page: str, document: JsonObject) -> None:
    if document["kind"] in OF_OTHERS:
        assert document["apiVersion"] and document["metadata"]["name"] and document["spec"]
        return
    async with Cluster(parts=("workloads", "operator"), nodes=1, contents=installed("workloads")) as cluster:
        document["metadata"].pop("namespace", None)
        stored = await accept(cluster, document)
    assert stored["metadata"]["name"] == document["metadata"]["name"]


async def test_the_autoscaler_scales_a_set_that_can_be_scaled() -> None:
    """The object that it names is that of examples/llm.yaml, whose scale selects leaders."""
    (autoscaler,) = yaml.safe_load_all((ROOT / "examples" / "autoscaler.yaml").read_text())
    applied = list(yaml.safe_load_all((ROOT / "examples" / "llm.yaml").read_text()))
    (group_set,) = [one for one in applied if one["kind"] == "LeaderWorkerSet"]
    target = autoscaler["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == (group_set["apiVersion"], group_set["kind"])
    assert target["name"] == group_set["metadata"]["name"]
    async with Cluster(
        parts=("workloads", "scheduler", "operator"), nodes=8, contents=installed("workloads")
    ) as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, group_set, "default")
        stored = await accept(cluster, autoscaler)
        assert stored["spec"]["maxReplicas"] == 8
        await cluster.settle()
        found = cluster.find(LEADER_WORKER_SETS, target["name"], "default") or {}
        assert "worker-index=0" in found["status"]["hpaPodSelector"]
