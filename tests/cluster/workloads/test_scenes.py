"""Scenes of single controllers, with the states that Kubernetes 1.36 shows in between."""

import asyncio

from tests.cluster.workloads.puppet import NODE, NS, Puppet, puppet, template

from kohort.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from kohort.objects.json_types import Json, JsonObject

WEB = {"app": "web"}


def workload(replicas: int, **spec: Json) -> JsonObject:
    return {"replicas": replicas, "selector": {"matchLabels": WEB}, "template": template(WEB), **spec}


async def quota(scene: Puppet, **hard: str) -> None:
    await scene.create(RESOURCE_QUOTAS, "q", spec={"hard": hard})
    await scene.settle()


# StatefulSets


async def test_a_set_says_what_it_does_in_the_words_of_kubernetes() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
    async with puppet() as scene:
        await quota(scene, persistentvolumeclaims="1")
        spec = workload(2, serviceName="web", podManagementPolicy="Parallel", volumeClaimTemplates=[claim])
        await scene.create(STATEFUL_SETS, "web", spec=spec)
        await scene.settle()
        told = {
            (kind, reason, message.split(" is forbidden")[0]) for kind, reason, message in scene.events("StatefulSet")
        }
        assert told == {
            ("Normal", "SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success"),
            ("Normal", "SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
            (
                "Warning",
                "FailedCreate",
                "Create Claim data-web-1 for Pod web-1 in StatefulSet web failed error: "
                'persistentvolumeclaims "data-web-1"',
            ),
            (
                "Warning",
                "FailedCreate",
                "Create Pod web-1 in StatefulSet web failed error: failed to create PVC data-web-1: "
                'persistentvolumeclaims "data-web-1"',
            ),
        }
        assert scene.names(PERSISTENT_VOLUME_CLAIMS) == ["data-web-0"]


async def test_a_set_gives_a_pod_its_name_and_its_number_back() -> None:
    name, index = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
    async with puppet() as scene:
        await scene.create(STATEFUL_SETS, "web", spec=workload(1, serviceName="web"))
        await scene.settle()
        await scene.run("web-0")
        await scene.patch(PODS, "web-0", {"metadata": {"labels": {name: None, index: None}}})
        await scene.settle()
        labels = scene.get(PODS, "web-0")["metadata"]["labels"]
        assert (labels[name], labels[index]) == ("web-0", "0")


async def test_a_lost_revision_is_missed_only_when_something_else_happens() -> None:
    async with puppet() as scene:
        await scene.create(STATEFUL_SETS, "web", spec=workload(1, serviceName="web"))
        await scene.settle()
        (revision,) = scene.names(CONTROLLER_REVISIONS)
        await scene.delete(CONTROLLER_REVISIONS, revision)
        assert scene.names(CONTROLLER_REVISIONS) == []
        await scene.run("web-0")
        assert scene.names(CONTROLLER_REVISIONS) == [revision]


# Deployments and ReplicaSets


async def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    async with puppet() as scene:
        spec = workload(2, strategy={"type": "Recreate"})
        await scene.create(DEPLOYMENTS, "web", spec=spec)
        await scene.settle()
        old = scene.names(PODS)
        await scene.run(*old)
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        assert len(scene.names(REPLICA_SETS)) == 1, "both pods still terminate"
        await scene.delete(PODS, old[0], grace=0)
        assert scene.names(PODS) == [old[1]]
        await scene.delete(PODS, old[1], grace=0)
        assert len(scene.names(REPLICA_SETS)) == 2
        assert len(scene.names(PODS)) == 2


async def test_scaling_down_in_the_middle_of_a_roll_keeps_what_must_be_available() -> None:
    async with puppet() as scene:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await scene.create(DEPLOYMENTS, "web", spec=workload(10, strategy=rolling))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        await _finish_deletions(scene)
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        await scene.settle()
        sizes = sorted(one["spec"]["replicas"] for one in scene.cluster.objects(REPLICA_SETS, NS))
        assert sizes == [3, 5]
        assert scene.status(DEPLOYMENTS, "web")["availableReplicas"] == 3


async def _finish_deletions(scene: Puppet) -> None:
    for pod in scene.cluster.objects(PODS, NS):
        if "deletionTimestamp" in pod["metadata"]:
            await scene.delete(PODS, pod["metadata"]["name"], grace=0)


async def test_a_set_that_may_not_create_pods_says_so_once() -> None:
    async with puppet() as scene:
        await quota(scene, pods="1")
        await scene.create(REPLICA_SETS, "web", spec=workload(3))
        await scene.settle()
        (failure,) = scene.status(REPLICA_SETS, "web")["conditions"]
        assert (failure["type"], failure["status"], failure["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
        version = scene.get(REPLICA_SETS, "web")["metadata"]["resourceVersion"]
        await scene.settle()
        assert scene.get(REPLICA_SETS, "web")["metadata"]["resourceVersion"] == version


async def test_a_pod_that_is_lost_after_a_rollout_does_not_begin_another() -> None:
    async with puppet() as scene:
        await scene.create(DEPLOYMENTS, "web", spec=workload(2))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        assert _progress(scene) == ("True", "NewReplicaSetAvailable")
        await scene.delete(PODS, scene.names(PODS)[0], grace=0)
        await scene.run(*scene.names(PODS))
        assert _progress(scene) == ("True", "NewReplicaSetAvailable")
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        assert _progress(scene) == ("True", "ReplicaSetUpdated")


def _progress(scene: Puppet) -> tuple[str, str]:
    found = scene.status(DEPLOYMENTS, "web")["conditions"]
    return next((one["status"], one["reason"]) for one in found if one["type"] == "Progressing")


# Jobs


async def test_progress_is_the_last_that_a_deployment_says_of_itself() -> None:
    async with puppet() as scene:
        await scene.create(DEPLOYMENTS, "web", spec=workload(2))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        await scene.settle()
        found = [(one["type"], one["status"]) for one in scene.status(DEPLOYMENTS, "web")["conditions"]]
        assert found == [("Available", "False"), ("Progressing", "True")]


def job(**spec: Json) -> JsonObject:
    return {"template": template({"j": "x"}, restartPolicy="Never"), **spec}


def conditions(scene: Puppet, name: str = "job") -> list[tuple[str, str]]:
    return [(one["type"], one["reason"]) for one in scene.status(JOBS, name).get("conditions") or []]


async def test_a_pod_that_fails_as_a_rule_says_fails_its_job() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec=job(completions=2, parallelism=2, podFailurePolicy={"rules": rules}))
        await scene.settle()
        first, second = scene.names(PODS)
        await scene.run(second)
        await scene.run(first, phase="Failed", exit_code=42)
        assert conditions(scene) == [("FailureTarget", "PodFailurePolicy")], "the other pod still terminates"
        await scene.delete(PODS, second, grace=0)
        assert conditions(scene)[-1] == ("Failed", "PodFailurePolicy")
        assert scene.status(JOBS, "job")["failed"] == 2


async def test_failures_count_for_each_index() -> None:
    spec = job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec=spec)
        await scene.settle()
        failing = next(name for name in scene.names(PODS) if name.startswith("job-0"))
        await scene.run(failing, phase="Failed", exit_code=1)
        assert scene.status(JOBS, "job")["failedIndexes"] == ""
        await scene.cluster.until(lambda: len(scene.names(PODS)) == 3)
        again = next(name for name in scene.names(PODS) if name.startswith("job-0") and name != failing)
        count = scene.get(PODS, again)["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
        assert count == "1"
        await scene.run(again, phase="Failed", exit_code=1)
        assert scene.status(JOBS, "job")["failedIndexes"] == "0"
        last = next(name for name in scene.names(PODS) if name.startswith("job-1"))
        await scene.run(last, phase="Succeeded", exit_code=0)
        assert conditions(scene)[-1] == ("Failed", "FailedIndexes")


async def test_enough_indexes_end_a_job_by_its_success_policy() -> None:
    spec = job(completions=3, parallelism=3, completionMode="Indexed")
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec={**spec, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}})
        await scene.settle()
        await scene.run(next(name for name in scene.names(PODS) if name.startswith("job-1")), phase="Succeeded")
        assert conditions(scene) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
        assert "failed" not in scene.status(JOBS, "job"), "pods that are not needed any more have not failed"


async def test_a_suspended_job_says_so_and_when_it_goes_on() -> None:
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec=job(suspend=True))
        await scene.settle()
        assert scene.names(PODS) == []
        await scene.patch(JOBS, "job", {"spec": {"suspend": False}})
        await scene.settle()
        assert len(scene.names(PODS)) == 1
        told = {(reason, message) for _, reason, message in scene.events("Job")}
        assert {("Suspended", "Job suspended"), ("Resumed", "Job resumed")} <= told


async def test_a_pod_that_leaves_its_job_leaves_the_finalizer_behind() -> None:
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec=job())
        await scene.settle()
        (name,) = scene.names(PODS)
        gone = dict.fromkeys(("controller-uid", "batch.kubernetes.io/controller-uid"), "another")
        await scene.patch(PODS, name, {"metadata": {"labels": gone}})
        await scene.settle()
        metadata = scene.get(PODS, name)["metadata"]
        assert "ownerReferences" not in metadata and "finalizers" not in metadata
        assert len(scene.names(PODS)) == 2


# Nodes


async def test_a_node_that_says_it_is_not_ready_speaks_for_its_pods() -> None:
    async with puppet() as scene:
        await scene.create(PODS, "p", spec=template({})["spec"])
        await scene.run("p")
        await report(scene, "False")
        taints = (scene.cluster.find(NODES, NODE) or {})["spec"]["taints"]
        assert sorted((one["key"], one["effect"]) for one in taints) == [
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node.kubernetes.io/not-ready", "NoSchedule"),
        ]
        assert [one["status"] for one in scene.status(PODS, "p")["conditions"] if one["type"] == "Ready"] == ["True"]


async def taint(scene: Puppet, key: str) -> None:
    await scene.client.patch(NODES, NODE, "", {"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}})
    await scene.settle()


async def test_pods_that_have_finished_leave_a_tainted_node_as_well() -> None:
    async with puppet() as scene:
        await scene.create(PODS, "done", spec=template({})["spec"])
        await scene.run("done", phase="Succeeded")
        await taint(scene, "k")
        assert scene.names(PODS) == []


async def report(scene: Puppet, ready: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready, "reason": "Told"}]}
    await scene.client.patch(NODES, NODE, "", {"status": status}, subresource="status")
    await scene.settle()


async def test_a_node_that_never_reports_is_not_tainted_for_ever() -> None:
    async with puppet() as scene:

        def taints() -> list[tuple[str, str]]:
            found = (scene.cluster.find(NODES, "mute") or {})["spec"].get("taints") or []
            return [(one["key"].removeprefix("node.kubernetes.io/"), one["effect"]) for one in found]

        await scene.client.create(NODES, {"metadata": {"name": "mute"}})
        await asyncio.sleep(0.5)
        assert taints() == [("not-ready", "NoSchedule")], "it may be about to report"
        await asyncio.sleep(2)
        assert taints() == []
        await asyncio.sleep(60)
        assert ("unreachable", "NoSchedule") in taints()


async def test_pods_of_a_node_out_of_service_are_not_waited_for() -> None:
    async with puppet() as scene:
        await report(scene, "True")
        await scene.create(PODS, "p", spec=template({})["spec"])
        await scene.run("p")
        await taint(scene, "node.kubernetes.io/out-of-service")
        await asyncio.sleep(25)
        assert "deletionTimestamp" in scene.get(PODS, "p")["metadata"], "a ready node ends its pods itself"
        await report(scene, "False")
        await scene.cluster.until(lambda: scene.names(PODS) == [])


# Namespaces


async def test_a_namespace_keeps_what_its_pods_may_need_until_they_are_gone() -> None:
    async with puppet() as scene:
        await scene.client.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await scene.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "shop")
        pod = {"metadata": {"name": "p"}, "spec": {**template({})["spec"], "nodeName": NODE}}
        await scene.client.create(PODS, pod, "shop")
        for kind in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS):
            await scene.client.create(kind, {"metadata": {"name": "web"}, "spec": workload(1)}, "shop")
        await scene.settle()
        await scene.client.delete(NAMESPACES, "shop")
        await scene.settle()
        assert scene.cluster.find(STATEFUL_SETS, "web", "shop") is not None
        assert scene.cluster.find(CONFIG_MAPS, "c", "shop") is not None
        remaining = next(
            one["message"]
            for one in (scene.cluster.find(NAMESPACES, "shop") or {})["status"]["conditions"]
            if one["type"] == "NamespaceContentRemaining"
        )
        assert remaining == "Some resources are remaining: pods. has 1 resource instances"
        await scene.client.delete(PODS, "p", "shop", grace_seconds=0)
        await scene.cluster.until(lambda: scene.cluster.find(NAMESPACES, "shop") is None)
