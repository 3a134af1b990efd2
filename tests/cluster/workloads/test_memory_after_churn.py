"""Pods and Jobs that come and go leave nothing behind: no cache, queue or note grows with those that are gone.

Looks into every live object of the control plane for containers that have grown, so a new memory is found without being
named here. What is bounded on purpose, by number or by bytes, is named in `BOUNDED`.
"""

import asyncio
import gc
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator

from tests.cluster.workloads.test_controllers import at_work, deployment, ready, template

from kohort.kube.resources import DEPLOYMENTS, EVENTS, JOBS, PODS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NS = "default"
PODS_AT_ONCE = 30
ROUNDS = 4
CHURNED = PODS_AT_ONCE * ROUNDS
PLACES = ("kohort.cluster.", "kohort.kube.")
NOT_LOOKED_INTO = "kohort.cluster.apiserver.schema."
"""Schemas are built as far as they are looked into, also by this test."""
BOUNDED = {
    "ChangeWindow._changes": "the recent past, for watches",
    "ChangeWindow._ages": "the recent past, for watches",
    "RevisionAges._recent": "one entry for each second of five minutes",
    "EncodingCache._entries": "encoded answers, by bytes",
    "_Recent._values": "what an event recorder knows, 4096 entries",
    "_Similar.messages": "what an event recorder knows, ten messages for each of 4096 entries",
    "_Field.known": "equal parts of objects, until too many differ",
    "GarbageCollector._absent": "owners that do not exist, 500 entries",
    "Request.headers": "kept by the test's own transport, which notes all writes",
}
CONTAINERS = (dict, set, list, deque, OrderedDict)


def attributes(obj: object) -> Iterator[tuple[str, object]]:
    names = dict.fromkeys(getattr(obj, "__dict__", ()))
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    for name in names:
        try:
            yield name, getattr(obj, name)
        except AttributeError:
            continue


def entries(value: object) -> int:
    """How many things a container holds, those in containers inside of it included."""
    if not isinstance(value, CONTAINERS):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return len(value) + sum(len(each) for each in inside if isinstance(each, CONTAINERS))


def sizes() -> Counter[str]:
    gc.collect()
    found: Counter[str] = Counter()
    for obj in gc.get_objects():
        kind = type(obj)
        module = getattr(kind, "__module__", None)
        if not isinstance(module, str):  # a class whose instances have an attribute of that name
            continue
        if not module.startswith(PLACES) or module.startswith(NOT_LOOKED_INTO):
            continue
        for name, value in attributes(obj):
            found[f"{kind.__qualname__}.{name}"] += entries(value)
    return found


async def churn_pods(cluster: Cluster) -> None:
    for _ in range(ROUNDS):
        gone = {pod["metadata"]["uid"] for pod in cluster.objects(PODS, NS)}
        await cluster.client.delete_collection(PODS, NS)
        await cluster.until(lambda: not gone & {pod["metadata"]["uid"] for pod in cluster.objects(PODS, NS)})  # noqa: B023
        await ready(cluster, DEPLOYMENTS, "web", PODS_AT_ONCE)


def job(number: int) -> JsonObject:
    done: Json = template("done", restartPolicy="Never")
    done["metadata"]["annotations"] = {"simulation.kohort.dev/exit-after": "1s"}
    return {"metadata": {"name": f"job-{number}", "namespace": NS}, "spec": {"template": done}}


async def churn_jobs(cluster: Cluster) -> None:
    for number in range(CHURNED):
        await cluster.client.create(JOBS, job(number))
    await cluster.until(lambda: all("completionTime" in one.get("status", {}) for one in cluster.objects(JOBS, NS)))
    await cluster.client.delete_collection(JOBS, NS, propagation="Background")
    await cluster.until(lambda: not cluster.objects(JOBS, NS) and len(cluster.objects(PODS, NS)) == PODS_AT_ONCE)


async def test_nothing_grows_with_pods_and_jobs_that_are_gone() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment("web", PODS_AT_ONCE))
        await ready(cluster, DEPLOYMENTS, "web", PODS_AT_ONCE)
        await churn_pods(cluster)
        await churn_jobs(cluster)
        await asyncio.sleep(4000)
        before = sizes()
        assert before, "the search finds something to look into"
        await churn_pods(cluster)
        await churn_jobs(cluster)
        assert cluster.objects(EVENTS, NS)
        await asyncio.sleep(4000)
        assert not cluster.objects(EVENTS, NS), "events go an hour after they were written"
        grown = {
            place: (before[place], size)
            for place, size in sizes().items()
            if size - before[place] > CHURNED // 4 and place not in BOUNDED
        }
        assert grown == {}
