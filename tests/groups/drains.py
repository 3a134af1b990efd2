"""A drain as `kubectl drain` does it: cordon the node, evict every pod on it, and repeat what was answered with 429."""

import asyncio

from kohort.kube.client import Client
from kohort.kube.errors import NotFound, TooManyRequests
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Pod

PAUSE = 5.0


async def drain(client: Client, node: str, timeout: float = 3600.0) -> list[str]:
    """Returns the refusals, when the node is empty."""
    await client.patch(NODES, node, "", {"spec": {"unschedulable": True}})
    refusals: list[str] = []
    async with asyncio.timeout(timeout):
        page = await client.list(PODS, field_selector=f"spec.nodeName={node}", type=Pod)
        await asyncio.gather(*(_evict(client, pod, refusals) for pod in page.items))
    return refusals


async def uncordon(client: Client, node: str) -> None:
    await client.patch(NODES, node, "", {"spec": {"unschedulable": None}})


async def _evict(client: Client, pod: Pod, refusals: list[str]) -> None:
    metadata = pod.metadata
    body = {"metadata": {"name": metadata.name, "namespace": metadata.namespace}}
    while True:
        try:
            live = await client.get(PODS, metadata.name, metadata.namespace, type=Pod)
            if live.metadata.uid != metadata.uid:
                return
            await client.create(PODS, body, metadata.namespace, subresource="eviction", name=metadata.name)
        except NotFound:
            return
        except TooManyRequests as problem:
            refusals.append(problem.message)
            await asyncio.sleep(PAUSE)
            continue
        await asyncio.sleep(1.0)  # evicted: wait until it is gone
