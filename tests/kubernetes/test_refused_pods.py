"""Groups whose pods are refused by their nodes, on real Kubernetes: not made again as fast as they are refused."""

import asyncio
from collections import Counter

from tests.builders import lws, pod
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.test_groups import running, settled

from kohort.kube.client import Client
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.kube.tasks import cancel_all

SPACE = "refused-pods"
LOOK, MOST = 25.0, 8
"""Without a back-off there were 45 of each in this time."""
REFUSED = {"simulation.kohort.dev/fail": "PodLevelResourcesNotSupported: pod-level resources need cgroup v2"}


async def _note_pods(client: Client, made: Counter[str]) -> None:
    async for event in client.watch(PODS, SPACE):
        if event.type == "ADDED":
            made[event.object["metadata"]["name"]] += 1


async def test_refused_pods_come_back_ever_more_slowly_until_the_template_is_mended(kubernetes: ControlPlane) -> None:
    """The StatefulSet controller of Kubernetes replaces a failed pod at once."""
    made = Counter[str]()
    async with running(kubernetes, SPACE) as client:
        counting = asyncio.create_task(_note_pods(client, made))
        subject = lws("llm", SPACE).replicas(1).size(2).workers(pod().annotations(REFUSED))
        await client.create(LEADER_WORKER_SETS, subject)
        await asyncio.sleep(LOOK)
        assert 2 <= made["llm-0"] <= MOST, made
        assert made["llm-0-1"] <= MOST, made
        mended = {"metadata": {"annotations": dict.fromkeys(REFUSED)}}
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": mended}}}
        await client.patch(LEADER_WORKER_SETS, "llm", SPACE, body)
        await settled(client, SPACE, 1)
        await cancel_all(counting)
        await client.delete(LEADER_WORKER_SETS, "llm", SPACE, propagation="Foreground")
