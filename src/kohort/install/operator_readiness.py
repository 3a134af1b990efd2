"""Whether the operator that was asked for is there: all its replicas, of the template that was applied last.

Replicas of the template before do not count. They go on working while an image cannot be pulled, which is what a
rolling update is for, and exactly why they say nothing about the new one.
"""

import asyncio
from typing import Final

import msgspec

from kohort.install.operator_deployment import DEPLOYMENT, SELECTOR
from kohort.kube.client import Client
from kohort.kube.resources import DEPLOYMENTS, PODS
from kohort.objects.container_reasons import ORDINARY_WAITS
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import agreeing, counted
from kohort.objects.json_types import JsonObject
from kohort.rules.pod_scheduling import without_node

LOOK_SECONDS: Final = 0.25
"""Between two looks at something that is waited for."""
_PODS: Final = ",".join(f"{name}={value}" for name, value in SELECTOR.items())


class NotAvailable(Exception):
    """The message is shown to the user."""


async def wait_available(client: Client, namespace: str, seconds: float) -> None:
    problem = "it has not been looked at"
    try:
        async with asyncio.timeout(seconds):
            while True:
                deployment = await client.get(DEPLOYMENTS, DEPLOYMENT, namespace)
                problem = missing(deployment)
                if not problem:
                    return
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        pods = (await client.list(PODS, namespace, label_selector=_PODS)).items
        pods.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
        reasons = [reason for pod in pods if (reason := unready_reason(pod))]
        because = reasons[0] if reasons else f"see kubectl -n {namespace} describe deployment {DEPLOYMENT}"
        raise NotAvailable(f"the operator is not available after {seconds:g} s: {problem}; {because}") from None


def missing(deployment: JsonObject) -> str:
    """What a Deployment lacks; empty if it is rolled out.

    | observed | replicas | updated | available | all | missing                                   |
    |----------|---------:|--------:|----------:|----:|-------------------------------------------|
    | no       |        2 |       2 |         2 |   2 | the change has not been observed yet       |
    | yes      |        2 |       1 |         2 |   3 | 1 of 2 replicas updated                    |
    | yes      |        2 |       2 |         1 |   3 | 1 replica of the old version is left       |
    | yes      |        2 |       2 |         1 |   2 | 1 of 2 replicas available                  |
    """
    status, wanted = deployment.get("status") or {}, deployment["spec"]["replicas"]
    updated, all_of_them = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if status.get("observedGeneration") != deployment["metadata"]["generation"]:
        return "the change has not been observed yet"
    if updated < wanted:
        return f"{updated} of {counted(wanted, 'replica')} updated"
    if all_of_them > updated:
        old = all_of_them - updated
        return f"{counted(old, 'replica')} of the old version {agreeing(old, 'is', 'are')} left"
    return "" if available >= wanted else f"{available} of {counted(wanted, 'replica')} available"


def unready_reason(pod: JsonObject) -> str:
    """Why a pod is not ready, from its status; empty if that gives no reason."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    scheduled = without_node(msgspec.convert(pod, Pod))
    if scheduled is not None and scheduled.message:
        return f"pod {name} has no node: {scheduled.message}"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        ended = (container.get("lastState") or {}).get("terminated") or state.get("terminated") or {}
        waiting = state.get("waiting") or {}
        message = ended.get("message") or waiting.get("message") or ""
        reason = waiting.get("reason") or ended.get("reason")
        if reason and reason not in ORDINARY_WAITS:
            return f"pod {name}: {reason}{': ' if message else ''}{message.strip()}"
    return ""
