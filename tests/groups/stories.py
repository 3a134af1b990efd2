"""Rows of the end-to-end checklist as stories for any cluster, told through a client in real time.

The same rows run in process on virtual time in test_checklist_cluster.py; here they are kept small, for clusters whose
pods are real processes or whose control plane is the real one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tests.builders import LeaderWorkerSet, lws

from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

PATIENCE = 90.0
STEP = 0.1
TPU = "google.com/tpu"


def process(note: str = "1") -> JsonObject:
    """A container that every kind of node can run; `note` makes a template differ."""
    command = ["sleep", "infinity"]
    return {"name": "main", "image": "host", "command": command, "env": [{"name": "NOTE", "value": note}]}


class Stage:
    """One namespace of a cluster, with a set `llm` in it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def new(self) -> LeaderWorkerSet:
        spec = {"containers": [process()], "terminationGracePeriodSeconds": 1}
        return lws("llm", self.namespace).workers({"metadata": {}, "spec": spec})

    async def create(self, subject: JsonObject) -> None:
        await self.client.create(LEADER_WORKER_SETS, subject, self.namespace)

    async def edit(self, body: JsonObject) -> None:
        await self.client.patch(LEADER_WORKER_SETS, "llm", self.namespace, body)

    async def roll(self, note: str) -> None:
        spec = {"containers": [process(note)]}
        await self.edit({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}})

    async def pods(self) -> dict[str, JsonObject]:
        return {one["metadata"]["name"]: one for one in (await self.client.list(PODS, self.namespace)).items}

    async def leader_set(self) -> JsonObject:
        found: JsonObject = await self.client.get(STATEFUL_SETS, "llm", self.namespace)
        return found

    async def services(self) -> list[str]:
        page = await self.client.list(SERVICES, self.namespace, label_selector=group_labels.NAME)
        return sorted(one["metadata"]["name"] for one in page.items)

    async def settled(self, groups: int, then: Callable[[], Awaitable[bool]] | None = None) -> JsonObject:
        """Wait until all groups are ready and updated, and `then` holds as well."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found: JsonObject = await self.client.get(LEADER_WORKER_SETS, "llm", self.namespace)
                status = found.get("status") or {}
                counters = [status.get(field, 0) for field in ("replicas", "readyReplicas", "updatedReplicas")]
                observed = status.get("observedGeneration") == found["metadata"]["generation"]
                if counters == [groups] * 3 and observed and (then is None or await then()):
                    return found
                await asyncio.sleep(STEP)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if await condition():
                    return
                await asyncio.sleep(STEP)

    async def advertise(self, resource: str) -> None:
        """Nodes say that they have such devices; real ones would be told so by a device plugin."""
        amount = {resource: "64"}
        for node in (await self.client.list(NODES)).items:
            body = {"status": {"capacity": amount, "allocatable": amount}}
            await self.client.patch(NODES, node["metadata"]["name"], "", body, subresource="status")

    async def clear(self) -> None:
        """The next story gets the cluster for itself."""
        await self.client.delete_collection(LEADER_WORKER_SETS, self.namespace)

        async def empty() -> bool:
            return not await self.pods()

        await self.until(empty)

    async def all_have(self, note: str) -> bool:
        return all(env(one)["NOTE"] == note for one in (await self.pods()).values())


def env(pod: JsonObject, index: int = 0) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][index].get("env", [])}


async def e1_deploy(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(3).restart("None"))
    found = await stage.settled(2)
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions["Available"] == "True"
    assert len((await stage.client.list(STATEFUL_SETS, stage.namespace)).items) == 3
    pods = await stage.pods()
    assert sorted(pods) == ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"]
    for name, pod in pods.items():
        group, _, worker = name.removeprefix("llm-").partition("-")
        labels = pod["metadata"]["labels"]
        assert (labels[group_labels.GROUP_INDEX], labels[group_labels.WORKER_INDEX]) == (group, worker or "0")
        variables = env(pod)
        assert variables["LWS_LEADER_ADDRESS"] == f"llm-{group}.llm.{stage.namespace}"
        assert (variables["LWS_GROUP_SIZE"], variables["LWS_WORKER_INDEX"]) == ("3", worker or "0")
        assert not any(one.startswith("TPU") for one in variables)


async def e2_size_1(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(1).max_surge(1))
    await stage.settled(2)
    await stage.roll("2")
    await stage.settled(2, lambda: stage.all_have("2"))
    assert len((await stage.client.list(STATEFUL_SETS, stage.namespace)).items) == 1


async def e3_foreground_delete(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(2))
    await stage.settled(2)
    await stage.client.delete(LEADER_WORKER_SETS, "llm", stage.namespace, propagation="Foreground")

    async def gone() -> bool:
        try:
            await stage.client.get(LEADER_WORKER_SETS, "llm", stage.namespace)
        except NotFound:
            return True
        return False

    await stage.until(gone)
    assert await stage.pods() == {}


async def e4_rolling_update(stage: Stage) -> None:
    await stage.create(stage.new().replicas(3).size(2))
    await stage.settled(3)
    await stage.roll("2")

    async def done() -> bool:
        found = await stage.client.get(LEADER_WORKER_SETS, "llm", stage.namespace)
        assert found["status"].get("readyReplicas", 0) >= 2
        assert await _never_mixed(stage)
        return await stage.all_have("2")

    await stage.until(done)
    found = await stage.settled(3)
    pods = await stage.pods()
    assert {one["metadata"]["labels"][group_labels.REVISION] for one in pods.values()} == {
        found["status"]["updateRevision"]
    }


async def _never_mixed(stage: Stage) -> bool:
    """No leader has workers of another revision. Those of its predecessor, which nobody owns any more, do not count."""
    workers = {one["metadata"]["uid"]: one for one in (await stage.client.list(STATEFUL_SETS, stage.namespace)).items}
    pods = await stage.pods()
    leaders = {one["metadata"]["uid"]: one for one in pods.values()}
    for pod in pods.values():
        made_by = workers.get(pod["metadata"]["ownerReferences"][0]["uid"])
        leader = leaders.get(made_by["metadata"]["ownerReferences"][0]["uid"]) if made_by is not None else None
        if leader is not None and _revision(leader) != _revision(pod):
            return False
    return True


def _revision(pod: JsonObject) -> str:
    return str(pod["metadata"]["labels"][group_labels.REVISION])


async def e5_surge(stage: Stage) -> None:
    """E9 and E14 as well: every group is divided into subgroups and has a Service of its own, which comes with it and
    goes with it."""
    subject = stage.new().replicas(4).size(2).subgroups(1).network(group_labels.UNIQUE).max_surge(4).max_unavailable(1)
    await stage.create(subject)
    await stage.settled(4)
    assert len(await stage.services()) == 4
    groups: list[int] = []
    services: list[int] = []
    await stage.roll("2")

    async def done() -> bool:
        groups.append((await stage.leader_set())["spec"]["replicas"])
        services.append(len(await stage.services()))
        return await stage.all_have("2") and groups[-1] == 4

    await stage.until(done)
    found = await stage.settled(4)
    assert max(groups) == 7
    assert max(services) == 7
    assert {one["type"]: one["status"] for one in found["status"]["conditions"]}["Available"] == "True"
    for pod in (await stage.pods()).values():
        labels = pod["metadata"]["labels"]
        assert labels[group_labels.SUBGROUP_INDEX] == labels[group_labels.WORKER_INDEX]

    async def given_back() -> bool:
        return len(await stage.services()) == 4

    await stage.until(given_back)


async def e6_surge_without_unavailability(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(2).max_surge(1).max_unavailable(0))
    await stage.settled(2)
    seen: set[int] = set()
    await stage.roll("2")

    async def done() -> bool:
        seen.add((await stage.leader_set())["spec"]["replicas"])
        return await stage.all_have("2")

    await stage.until(done)
    await stage.settled(2)
    assert seen >= {3}
    assert (await stage.leader_set())["spec"]["replicas"] == 2


async def e7_update_while_the_old_set_is_broken(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(1).max_unavailable(0).max_surge(1).node_selector(nowhere="x"))

    async def there() -> bool:
        return len(await stage.pods()) == 2

    await stage.until(there)
    spec = {"nodeSelector": None, "containers": [process("2")]}
    await stage.edit({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}})
    await stage.settled(2, lambda: stage.all_have("2"))


async def e8_subgroups_with_tpus(stage: Stage) -> None:
    await stage.advertise(TPU)
    await stage.create(_with_tpus(stage.new().replicas(1).size(4).subgroups(2)))
    await stage.settled(1)
    for pod in (await stage.pods()).values():
        worker = int(pod["metadata"]["labels"][group_labels.WORKER_INDEX])
        assert pod["metadata"]["labels"][group_labels.SUBGROUP_INDEX] == str(worker // 2)
        assert pod["metadata"]["annotations"][group_labels.SUBGROUP_SIZE] == "2"
        hosts = "llm-0.llm,llm-0-1.llm" if worker < 2 else "llm-0-2.llm,llm-0-3.llm"
        variables = env(pod)
        assert (variables["TPU_WORKER_HOSTNAMES"], variables["TPU_WORKER_ID"]) == (hosts, str(worker % 2))


async def e10_tpus(stage: Stage) -> None:
    await stage.advertise(TPU)
    await stage.create(_with_tpus(stage.new().replicas(1).size(4)))
    await stage.settled(1)
    pods = await stage.pods()
    hosts = ",".join(f"{name}.llm" for name in ("llm-0", "llm-0-1", "llm-0-2", "llm-0-3"))
    assert {env(pod)["TPU_WORKER_HOSTNAMES"] for pod in pods.values()} == {hosts}
    assert {
        pod["metadata"]["labels"][group_labels.WORKER_INDEX]: env(pod)["TPU_WORKER_ID"] for pod in pods.values()
    } == {str(number): str(number) for number in range(4)}


async def e11_two_tpu_containers(stage: Stage) -> None:
    await stage.advertise(TPU)
    await stage.create(_with_tpus(stage.new().replicas(1).size(2), "main", "other"))
    await stage.settled(1)
    pods = await stage.pods()
    found = [env(pods[name], index) for name in ("llm-0", "llm-0-1") for index in (0, 1)]
    assert {one["TPU_WORKER_HOSTNAMES"] for one in found} == {"llm-0.llm,llm-0.llm,llm-0-1.llm,llm-0-1.llm"}
    assert [one["TPU_WORKER_ID"] for one in found] == ["0", "1", "2", "3"]
    assert [one["TPU_PROCESS_PORT"] for one in found] == ["8476", "8477", "8476", "8477"]


def _with_tpus(subject: LeaderWorkerSet, *names: str) -> LeaderWorkerSet:
    limits = {"resources": {"limits": {TPU: "4"}}}
    containers = [process() | limits | {"name": name} for name in names or ("main",)]
    return subject.but("spec.leaderWorkerTemplate.workerTemplate.spec.containers", containers)


async def e12_size_change(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(2))
    await stage.settled(2)
    await stage.edit({"spec": {"leaderWorkerTemplate": {"size": 3, "resizePolicy": "Recreate"}}})

    async def grown() -> bool:
        pods = (await stage.pods()).values()
        return len(pods) == 6 and {one["metadata"]["annotations"][group_labels.SIZE] for one in pods} == {"3"}

    await stage.settled(2, grown)


async def e13_subdomain_policy_change(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(2))
    await stage.settled(2)
    assert await stage.services() == ["llm"]
    for policy, subdomain, services in (
        ("UniquePerReplica", "llm-1", ["llm-0", "llm-1"]),
        ("Shared", "llm", ["llm"]),
    ):
        await stage.edit({"spec": {"networkConfig": {"subdomainPolicy": policy}}})

        async def switched(subdomain: str = subdomain, services: list[str] = services) -> bool:
            pod = (await stage.pods()).get("llm-1-1")
            address = env(pod)["LWS_LEADER_ADDRESS"] if pod else ""
            return address == f"llm-1.{subdomain}.{stage.namespace}" and await stage.services() == services

        await stage.settled(2, switched)


async def e16_group_restart(stage: Stage) -> None:
    await stage.create(stage.new().replicas(2).size(3))
    await stage.settled(2)
    before = {name: one["metadata"]["uid"] for name, one in (await stage.pods()).items()}
    await stage.client.delete(PODS, "llm-0-1", stage.namespace)

    async def replaced() -> bool:
        now = {name: one["metadata"]["uid"] for name, one in (await stage.pods()).items()}
        changed = {name for name in before if now.get(name) not in (None, before[name])}
        return len(now) == 6 and changed == {"llm-0", "llm-0-1", "llm-0-2"}

    await stage.settled(2, replaced)


Story = Callable[[Stage], Awaitable[None]]
STORIES: Mapping[str, Story] = {
    "E1-E15": e1_deploy,
    "E2": e2_size_1,
    "E3": e3_foreground_delete,
    "E4": e4_rolling_update,
    "E5-E9-E14": e5_surge,
    "E6": e6_surge_without_unavailability,
    "E7": e7_update_while_the_old_set_is_broken,
    "E8": e8_subgroups_with_tpus,
    "E10": e10_tpus,
    "E11": e11_two_tpu_containers,
    "E12-S1": e12_size_change,
    "E13": e13_subdomain_policy_change,
    "E16": e16_group_restart,
}
