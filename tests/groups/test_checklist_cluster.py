"""The end-to-end checklist, E1 to E17 and G1 to G5: on a whole cluster in this process, with its controllers, scheduler
and simulated nodes. The rows of the proposals, S1 to S8, are in test_checklist_proposals.py, U1 is in test_takeover.py;
against processes and against real Kubernetes a selection runs in tests/e2e and tests/kubernetes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.builders import LeaderWorkerSet, container, lws
from tests.groups.bare import install, pod_group_definition
from tests.groups.test_lifecycle import NAMESPACE, conditions, create, images, patch, pods, settled, status
from tests.installed import installed

from kohort.groups.gang import VOLCANO_POD_GROUPS
from kohort.kube.resources import (
    LEADER_WORKER_SETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.objects.json_types import JsonObject
from kohort.operator import register
from kohort.rules import group_labels
from kohort.testing import Cluster

CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "110", "google.com/tpu": "64"}


@asynccontextmanager
async def whole(*, gang: str = "", latency: float = 0.3) -> AsyncIterator[Cluster]:
    operator = {"operator": lambda manager: register(manager, gang_scheduler=gang, rollouts=False)}
    settings = {"capacity": CAPACITY, "start_latency": latency}
    async with Cluster(
        parts=("workloads", "scheduler"),
        nodes=8,
        node_settings=settings,
        extra=operator,
        contents=installed("workloads", rollouts=False),
    ) as cluster:
        yield cluster


def image(name: str) -> JsonObject:
    containers = [container() | {"image": name}]
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}}}}


def leader_count(cluster: Cluster) -> int:
    found = cluster.find(STATEFUL_SETS, "llm", NAMESPACE)
    return found["spec"]["replicas"] if found else 0


def one_revision_each(cluster: Cluster) -> bool:
    """No group has pods of two revisions, those that are leaving aside."""
    found: dict[str, set[str]] = {}
    for one in pods(cluster).values():
        if "deletionTimestamp" not in one["metadata"]:
            labels = one["metadata"]["labels"]
            found.setdefault(labels[group_labels.GROUP_INDEX], set()).add(labels[group_labels.REVISION])
    return all(len(revisions) == 1 for revisions in found.values())


async def rolled(cluster: Cluster, count: int, new: str, watch: Callable[[], object] = lambda: None) -> None:
    """Change the image and wait until all groups have it, looking at every step."""
    await patch(cluster, "llm", image(new))

    def done() -> bool:
        watch()
        assert one_revision_each(cluster)
        return settled(cluster, count) and images(cluster) == {new} and leader_count(cluster) == count

    await cluster.until(done)


def owned_services(cluster: Cluster) -> list[str]:
    found = [one["metadata"] for one in cluster.objects(SERVICES, NAMESPACE)]
    return sorted(one["name"] for one in found if group_labels.NAME in (one.get("labels") or {}))


def env(pod: JsonObject, index: int = 0) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][index].get("env", [])}


def with_tpus(subject: LeaderWorkerSet, containers: int = 1) -> LeaderWorkerSet:
    limits = {"resources": {"limits": {"google.com/tpu": "4"}}}
    return subject.but(
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers",
        [container(f"tpu-{number}") | limits for number in range(containers)],
    )


async def test_e1_deploy_with_replicas_size_and_restart_policy() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(4).size(5).restart("None"))
        await cluster.until(lambda: settled(cluster, 4))
        assert conditions(cluster)["Available"] == "True"
        assert len(cluster.objects(STATEFUL_SETS, NAMESPACE)) == 5
        assert len(pods(cluster)) == 20
        for name, pod in pods(cluster).items():
            group, _, worker = name.removeprefix("llm-").partition("-")
            labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
            assert labels[group_labels.NAME] == "llm"
            assert (labels[group_labels.GROUP_INDEX], labels[group_labels.WORKER_INDEX]) == (group, worker or "0")
            assert annotations[group_labels.SIZE] == "5"
            assert annotations.get(group_labels.LEADER_NAME) == (f"llm-{group}" if worker else None)


async def test_e2_size_1_create_and_update() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(4).size(1).max_surge(1))
        await cluster.until(lambda: settled(cluster, 4))
        seen: set[int] = set()
        await rolled(cluster, 4, "new:2", lambda: seen.add(leader_count(cluster)))
        assert seen == {4, 5}
        assert [one["metadata"]["name"] for one in cluster.objects(STATEFUL_SETS, NAMESPACE)] == ["llm"]
        assert conditions(cluster)["Available"] == "True"


async def test_e3_foreground_delete() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE, propagation="Foreground")
        await cluster.until(lambda: cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) is None)
        assert pods(cluster) == {}


async def test_e4_rolling_update() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(3).size(2))
        await cluster.until(lambda: settled(cluster, 3))
        ready: list[int] = []
        await rolled(cluster, 3, "new:2", lambda: ready.append(status(cluster).get("readyReplicas", 0)))
        key = status(cluster)["updateRevision"]
        assert {one["metadata"]["labels"][group_labels.REVISION] for one in pods(cluster).values()} == {key}
        assert min(ready) >= 2
        assert conditions(cluster)["Available"] == "True"


@pytest.mark.parametrize(
    ("surge", "unavailable", "most"), [pytest.param(4, 1, 7, id="E5"), pytest.param(1, 0, 5, id="E6")]
)
async def test_a_surge_comes_and_goes(surge: int, unavailable: int, most: int) -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(4).size(2).max_surge(surge).max_unavailable(unavailable))
        await cluster.until(lambda: settled(cluster, 4))
        seen: set[int] = set()
        await rolled(cluster, 4, "new:2", lambda: seen.add(leader_count(cluster)))
        assert max(seen) == most
        assert leader_count(cluster) == 4


async def test_e7_update_while_the_old_set_is_broken() -> None:
    async with whole() as cluster:
        subject = lws("llm").replicas(2).size(1).max_unavailable(0).max_surge(1).node_selector(nowhere="x")
        await create(cluster, subject)
        await cluster.until(lambda: len(pods(cluster)) == 2)
        await cluster.settle()
        assert status(cluster).get("readyReplicas", 0) == 0
        spec = {"nodeSelector": None, "containers": [container() | {"image": "new:2"}]}
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}})
        await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})


async def test_e8_subgroup_size() -> None:
    async with whole() as cluster:
        await create(cluster, with_tpus(lws("llm").replicas(2).size(4).subgroups(2)))
        await cluster.until(lambda: settled(cluster, 2))
        for name, pod in pods(cluster).items():
            leader, worker = name[:5], int(pod["metadata"]["labels"][group_labels.WORKER_INDEX])
            assert pod["metadata"]["labels"][group_labels.SUBGROUP_INDEX] == str(worker // 2)
            assert pod["metadata"]["annotations"][group_labels.SUBGROUP_SIZE] == "2"
            variables = env(pod)
            members = [leader, f"{leader}-1"] if worker < 2 else [f"{leader}-2", f"{leader}-3"]
            assert variables["TPU_WORKER_HOSTNAMES"] == ",".join(f"{one}.llm" for one in members)
            assert variables["TPU_WORKER_ID"] == str(worker % 2)


async def test_e9_subgroup_and_surge_update() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(4).size(2).subgroups(1).max_surge(4))
        await cluster.until(lambda: settled(cluster, 4))
        seen: set[int] = set()
        await rolled(cluster, 4, "new:2", lambda: seen.add(leader_count(cluster)))
        assert max(seen) == 7
        assert conditions(cluster)["Available"] == "True"


async def test_e10_tpu_environment() -> None:
    async with whole() as cluster:
        await create(cluster, with_tpus(lws("llm").replicas(1).size(4)))
        await cluster.until(lambda: settled(cluster, 1))
        hosts = ",".join(["llm-0.llm", *(f"llm-0-{number}.llm" for number in (1, 2, 3))])
        assert {env(pod)["TPU_WORKER_HOSTNAMES"] for pod in pods(cluster).values()} == {hosts}
        found = {name: env(pod)["TPU_WORKER_ID"] for name, pod in pods(cluster).items()}
        assert found == {"llm-0": "0", "llm-0-1": "1", "llm-0-2": "2", "llm-0-3": "3"}


async def test_e11_tpu_multi_container() -> None:
    async with whole() as cluster:
        await create(cluster, with_tpus(lws("llm").replicas(1).size(2), containers=2))
        await cluster.until(lambda: settled(cluster, 1))
        doubled = "llm-0.llm,llm-0.llm,llm-0-1.llm,llm-0-1.llm"
        found = [env(pods(cluster)[name], index) for name in ("llm-0", "llm-0-1") for index in (0, 1)]
        assert {one["TPU_WORKER_HOSTNAMES"] for one in found} == {doubled}
        assert [one["TPU_WORKER_ID"] for one in found] == ["0", "1", "2", "3"]
        assert [one["TPU_PROCESS_PORT"] for one in found] == ["8476", "8477", "8476", "8477"]


@pytest.mark.parametrize("policy", [pytest.param("Recreate", id="E12-S1")])
async def test_size_change(policy: str) -> None:
    async with whole() as cluster:
        subject = lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.resizePolicy", policy)
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 2))
        uids = {one["metadata"]["uid"] for one in pods(cluster).values()}
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 3}}})
        await cluster.until(lambda: settled(cluster, 2) and len(pods(cluster)) == 6)
        assert {one["metadata"]["annotations"][group_labels.SIZE] for one in pods(cluster).values()} == {"3"}
        assert {env(one)["LWS_GROUP_SIZE"] for one in pods(cluster).values()} == {"3"}
        assert not uids & {one["metadata"]["uid"] for one in pods(cluster).values()}, "recreated, not resized in place"


async def test_e13_subdomain_policy_change() -> None:
    async with whole() as cluster:
        await create(cluster, with_tpus(lws("llm").replicas(2).size(2)))
        await cluster.until(lambda: settled(cluster, 2))
        for policy, subdomain in (("UniquePerReplica", "llm-1"), ("Shared", "llm")):
            await patch(cluster, "llm", {"spec": {"networkConfig": {"subdomainPolicy": policy}}})
            hosts = f"llm-1.{subdomain},llm-1-1.{subdomain}"
            await cluster.until(lambda hosts=hosts: settled(cluster, 2) and _hosts(cluster) == hosts)  # type: ignore[misc]


def _hosts(cluster: Cluster) -> str:
    pod = pods(cluster).get("llm-1-1")
    return env(pod).get("TPU_WORKER_HOSTNAMES", "") if pod else ""


async def test_e14_services_during_surge() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(4).size(2).max_surge(4).network("UniquePerReplica"))
        await cluster.until(lambda: settled(cluster, 4))
        assert len(owned_services(cluster)) == 4
        seen: set[int] = set()
        await rolled(cluster, 4, "new:2", lambda: seen.add(len(owned_services(cluster))))
        assert max(seen) == 7
        await cluster.until(lambda: len(owned_services(cluster)) == 4)


async def test_e15_no_tpu() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        assert not [name for pod in pods(cluster).values() for name in env(pod) if name.startswith("TPU")]


async def test_e16_group_restart() -> None:
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(1).size(3))
        await cluster.until(lambda: settled(cluster, 1))
        before = {one["metadata"]["uid"] for one in pods(cluster).values()}
        await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
        await cluster.until(
            lambda: settled(cluster, 1) and not before & {one["metadata"]["uid"] for one in pods(cluster).values()}
        )
        assert len(pods(cluster)) == 3


async def test_e17_metrics() -> None:
    """Over HTTPS, with a token: tests/kubernetes/test_roles.py."""
    async with whole() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
        restarts = {"group": "0", "reason": "deleted"}
        await cluster.until(lambda: _figure(cluster, "kohort_group_restarts_total", **restarts) == 1)
        await cluster.until(lambda: settled(cluster, 2))
        await rolled(cluster, 2, "new:2")
        for name, value in {"desired": 2, "existing": 2, "ready": 2, "updated": 2, "surge": 0}.items():
            assert _figure(cluster, f"kohort_groups_{name}") == value
        assert _figure(cluster, "kohort_group_rolls_total") == 1
        assert _figure(cluster, "kohort_group_roll_duration_seconds_count") == 1
        assert (_figure(cluster, "kohort_group_time_to_ready_seconds_count") or 0) >= 3
        for group in ("0", "1"):
            assert _figure(cluster, "kohort_group_ready", group=group) == 1
            assert _figure(cluster, "kohort_group_updated", group=group) == 1
            assert (_figure(cluster, "kohort_group_last_time_to_ready_seconds", group=group) or 0) > 0
        assert _figure(cluster, "kohort_group_ready", group="2") is None
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE)
        await cluster.until(lambda: _figure(cluster, "kohort_groups_ready") is None)
        assert _figure(cluster, "kohort_group_ready", group="0") is None
        assert _figure(cluster, "kohort_group_restarts_total", **restarts) is None


def _figure(cluster: Cluster, name: str, **labels: str) -> float | None:
    manager = cluster.parts["operator"].manager
    assert manager is not None
    value: float | None = manager.metrics.registry.get_sample_value(
        name, {"namespace": NAMESPACE, "name": "llm", **labels}
    )
    return value


# Gangs


@asynccontextmanager
async def with_volcano() -> AsyncIterator[Cluster]:
    async with whole(gang="volcano") as cluster:
        await install(cluster, pod_group_definition("scheduling.volcano.sh", "v1beta1"))
        yield cluster


def gangs(cluster: Cluster) -> list[JsonObject]:
    return cluster.objects(VOLCANO_POD_GROUPS, NAMESPACE)


@pytest.mark.parametrize(
    ("startup", "members"), [pytest.param("LeaderCreated", 4, id="G1"), pytest.param("LeaderReady", 1, id="G2")]
)
async def test_gangs_by_startup_policy(startup: str, members: int) -> None:
    async with with_volcano() as cluster:
        await create(cluster, lws("llm").replicas(2).size(4).startup(startup).requests(cpu="100m"))
        await cluster.until(lambda: settled(cluster, 2))
        assert [one["spec"] for one in gangs(cluster)] == [{"minMember": members, "minResources": {"cpu": "400m"}}] * 2
        names = {one["metadata"]["name"] for one in gangs(cluster)}
        assert {one["metadata"]["annotations"][group_labels.POD_GROUP] for one in pods(cluster).values()} == names
        assert conditions(cluster)["Available"] == "True"


async def test_g3_gang_cleanup() -> None:
    async with with_volcano() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2) and len(gangs(cluster)) == 2)
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE)
        await cluster.until(lambda: gangs(cluster) == [])


async def test_g4_gang_resize() -> None:
    async with with_volcano() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 4, "resizePolicy": "Recreate"}}})
        await cluster.until(lambda: settled(cluster, 2) and len(pods(cluster)) == 8)
        await cluster.until(lambda: [one["spec"]["minMember"] for one in gangs(cluster)] == [4, 4])


async def test_g5_gang_rolling_update() -> None:
    async with with_volcano() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await rolled(cluster, 2, "new:2")
        key = status(cluster)["updateRevision"]
        await cluster.until(
            lambda: sorted(one["metadata"]["name"] for one in gangs(cluster)) == [f"llm-0-{key}", f"llm-1-{key}"]
        )
