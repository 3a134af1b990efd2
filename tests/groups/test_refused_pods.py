"""Groups whose pods are refused by their nodes are not made again as fast as they are refused."""

import asyncio
from collections import Counter

import pytest
from tests.builders import lws, pod
from tests.groups.test_lifecycle import create, groups_cluster, patch, settled

from kohort.kube.resources import PODS
from kohort.kube.tasks import cancel_all
from kohort.testing import Cluster

REFUSED = {"simulation.kohort.dev/fail": "PodLevelResourcesNotSupported: pod-level resources need cgroup v2"}


async def note_pods(cluster: Cluster, made: Counter[str]) -> None:
    async for event in cluster.client.watch(PODS, "default"):
        if event.type == "ADDED":
            made[event.object["metadata"]["name"]] += 1


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
@pytest.mark.parametrize("leaders", [True, False], ids=["all", "workers"])
async def test_refused_pods_come_back_slower_until_the_template_is_mended(policy: str, leaders: bool) -> None:
    subject = lws("llm").replicas(1).size(2).restart(policy).workers(pod().annotations(REFUSED))
    made = Counter[str]()
    async with groups_cluster() as cluster:
        counting = asyncio.create_task(note_pods(cluster, made))
        await create(cluster, subject if leaders else subject.leader(pod()))
        await asyncio.sleep(120)
        assert 2 <= made["llm-0-1"] <= 12, "some of them with a new leader"
        assert made["llm-0"] <= 6
        note = {"metadata": {"annotations": dict.fromkeys(REFUSED)}}
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"workerTemplate": note}}})
        begun = asyncio.get_running_loop().time()
        await cluster.until(lambda: settled(cluster, 1))
        assert asyncio.get_running_loop().time() - begun < 60
        await cancel_all(counting)
