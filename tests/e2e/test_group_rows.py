"""Rows of the end-to-end checklist against `kohort up`: pods are processes of this machine, each in its own network."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Kohort, directory
from tests.groups import gangstories
from tests.groups.stories import STORIES, Stage, Story
from tests.kubernetes.operators import OperatorProcess, operator, webhooks_answer

from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import NAMESPACES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="networks of pods need root"),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """A cluster whose only node is this machine, for all rows."""
    with directory(tmp_path_factory.mktemp("rows") / "data") as kohort:
        started = kohort.call("up", "--detach", "--port", "0")
        assert started.returncode == 0, started.stderr
        kohort.server = started.stdout.split()[1]
        yield kohort


@pytest.mark.parametrize("row", STORIES)
def test_a_row_of_the_checklist(machine: Kohort, row: str) -> None:
    asyncio.run(_told(machine.kubeconfig, row, STORIES[row]))


async def _told(kubeconfig: Path, row: str, story: Story) -> None:
    namespace = row.lower()
    client = Client(load(kubeconfig), field_manager="test")
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        stage = Stage(client, namespace)
        await story(stage)
        await stage.clear()
    finally:
        await client.close()


def test_e17_metrics(machine: Kohort) -> None:
    async def story(stage: Stage) -> None:
        await stage.create(stage.new().replicas(1).size(2))
        await stage.settled(1)
        found = machine.request("/metrics/operator").splitlines()
        asked = [line for line in found if line.startswith("controller_runtime_webhook_requests_total{")]
        assert sum(float(line.split()[-1]) for line in asked) >= 4, "for the set, twice, and for each of its pods"
        assert f'kohort_group_ready{{group="0",name="llm",namespace="{stage.namespace}"}} 1.0' in found

    asyncio.run(_told(machine.kubeconfig, "E17", story))


@pytest.fixture(scope="module")
def with_gangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """The same, with an operator of its own that makes gangs."""
    folder = tmp_path_factory.mktemp("gangs")
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "gangSchedulingManagement": {"schedulerProvider": "volcano"},
    }
    (folder / "operator.yaml").write_text(json.dumps(settings))
    with directory(folder / "data") as kohort:
        parts = "apiserver,workloads,scheduler,node,gateway"
        started = kohort.call("up", "--detach", "--port", "0", "--parts", parts)
        assert started.returncode == 0, started.stderr
        words = ("--config", str(folder / "operator.yaml"), "--no-leader-elect", "--no-rollouts")
        with operator(kohort.kubeconfig, folder / "operator.log", *words) as process:
            asyncio.run(_prepared(process, kohort.kubeconfig))
            yield kohort


async def _prepared(process: OperatorProcess, kubeconfig: Path) -> None:
    client = Client(load(kubeconfig), field_manager="test")
    try:
        await gangstories.install(client)
        await webhooks_answer(process, client, "default")
    finally:
        await client.close()


@pytest.mark.parametrize("row", gangstories.STORIES)
def test_a_row_about_gangs(with_gangs: Kohort, row: str) -> None:
    asyncio.run(_told(with_gangs.kubeconfig, row, gangstories.STORIES[row]))
