"""Gangs: what is asked for, and Kubernetes' own objects for it."""

from tests.builders import container, lws
from tests.groups.bare import NAME, NAMESPACE, bare, install, pod_group_definition, sample
from tests.groups.test_pod_mutation import leader, worker

from kohort.groups import leaderworkerset
from kohort.groups.gang import VOLCANO_POD_GROUPS, group_requests
from kohort.groups.native_gang import KubernetesPodGroups
from kohort.groups.pod_mutation import mutated
from kohort.groups.revisions import Revision
from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels

LEADER = ObjectMeta(
    name="llm-0",
    namespace="ns",
    uid="u",
    labels={group_labels.NAME: "llm", group_labels.GROUP_INDEX: "0", group_labels.REVISION: "abc"},
)
REVISION = Revision(
    metadata=ObjectMeta(name="llm-abc-1", namespace="ns", uid="r", labels={group_labels.REVISION: "abc"})
)


def requests(worker_spec: JsonObject, size: int = 1) -> dict[str, str]:
    subject = lws("llm").size(size).workers({"metadata": {}, "spec": worker_spec})
    return group_requests(subject.as_view(leaderworkerset.LeaderWorkerSet))


def needing(**amounts: str) -> JsonObject:
    return container("main") | {"resources": {"requests": amounts}}


def test_what_a_group_asks_for() -> None:
    pod = {"containers": [needing(cpu="100m"), needing(cpu="200m", memory="1Gi")]}
    assert requests(pod, size=4) == {"cpu": "1200m", "memory": "4Gi"}
    init = {"containers": [needing(cpu="100m")], "initContainers": [needing(cpu="500m")]}
    assert requests(init) == {"cpu": "500m"}
    sidecar = {
        "containers": [needing(cpu="100m")],
        "initContainers": [needing(cpu="50m") | {"restartPolicy": "Always"}],
    }
    assert requests(sidecar) == {"cpu": "150m"}
    assert requests(pod | {"overhead": {"cpu": "10m"}}) == {"cpu": "310m", "memory": "1Gi"}
    assert requests(pod | {"resources": {"requests": {"cpu": "2"}}}) == {"cpu": "2", "memory": "1Gi"}


def test_a_limit_alone_is_the_request() -> None:
    limited = container("main") | {"resources": {"limits": {"google.com/tpu": "4"}}}
    assert requests({"containers": [limited]}, size=2) == {"google.com/tpu": "8"}


def native(subject: object) -> tuple[int, JsonObject]:
    view = subject.as_view(leaderworkerset.LeaderWorkerSet)  # type: ignore[attr-defined]
    group = KubernetesPodGroups().pod_group(view, LEADER)
    return group["spec"]["schedulingPolicy"]["gang"]["minCount"], group


def test_kubernetes_own_pod_group() -> None:
    count, group = native(lws("llm", "ns").size(4))
    assert count == 4
    assert (group["apiVersion"], group["kind"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup")
    metadata = group["metadata"]
    assert metadata["name"] == "llm-0-abc"
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["blockOwnerDeletion"]) == ("u", False), "it lives as long as the last pod of the group"
    assert group["spec"]["podGroupTemplateRef"] == {
        "workload": {"workloadName": "llm-abc", "podGroupTemplateName": "group"}
    }


def test_where_workers_wait_for_their_leader_it_may_come_alone() -> None:
    assert native(lws("llm", "ns").size(4).startup("LeaderReady"))[0] == 1
    assert native(lws("llm", "ns").size(4).exclusive("rack"))[0] == 1


def test_kubernetes_own_workload_goes_with_its_revision() -> None:
    view = lws("llm", "ns").size(4).as_view(leaderworkerset.LeaderWorkerSet)
    ((resource, workload),) = KubernetesPodGroups().shared(view, REVISION)
    assert resource.qualified == "workloads.scheduling.k8s.io"
    assert workload["metadata"]["name"] == "llm-abc"
    (owner,) = workload["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("ControllerRevision", "r")
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "leaderworkerset.x-k8s.io", "kind": "LeaderWorkerSet", "name": "llm"},
        "podGroupTemplates": [{"name": "group", "schedulingPolicy": {"gang": {"minCount": 4}}}],
    }


def test_pods_join_by_a_field() -> None:
    for subject in (leader("test-0"), worker("test-0-1")):
        found = mutated(subject, "default", gang=KubernetesPodGroups())
        assert found["spec"]["schedulingGroup"] == {"podGroupName": "test-0-1"}
        assert group_labels.POD_GROUP not in found["metadata"]["annotations"]


async def test_where_the_api_is_not_served_groups_come_up_without_it_and_it_is_told() -> None:
    async with bare(sample(), gang="kubernetes") as world:
        assert world.worker_sets == [f"{NAME}-0", f"{NAME}-1"]
        told = [one for one in world.events if one.startswith("Warning FailedCreate Failed to create the gang")]
        assert told
        assert "feature gates GenericWorkload and GangScheduling" in told[0]


async def test_volcano_that_is_installed_later_is_found() -> None:
    async with bare(sample(), gang="volcano") as world:
        await install(world.cluster, pod_group_definition("scheduling.volcano.sh", "v1beta1"))
        await world.cluster.until(lambda: len(world.cluster.objects(VOLCANO_POD_GROUPS, NAMESPACE)) == 2, timeout=120)
        leaders = {one["metadata"]["uid"] for one in world.objects(PODS)}
        owners = {one["metadata"]["ownerReferences"][0]["uid"] for one in world.objects(VOLCANO_POD_GROUPS)}
        assert owners == leaders
