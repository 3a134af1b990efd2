"""Scenes of single controllers, with the states that Kubernetes 1.36 shows in between."""

import base64

from tests.cluster.workloads.puppet import NS, Puppet, puppet, template

from kohort.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.objects.jsontypes import Json, JsonObject

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


# Jobs


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


# Endpoints


async def service(scene: Puppet, name: str = "web", **spec: Json) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    await scene.create(SERVICES, name, spec={"ports": ports, **spec})


def slices(scene: Puppet, name: str = "web") -> list[JsonObject]:
    found = scene.cluster.objects(ENDPOINT_SLICES, NS)
    return [one for one in found if one["metadata"]["labels"]["kubernetes.io/service-name"] == name]


async def bare_pod(scene: Puppet, name: str) -> None:
    await scene.create(PODS, name, metadata={"labels": WEB}, spec=template(WEB)["spec"])


async def test_endpoints_say_when_their_cause_happened() -> None:
    stamp = "endpoints.kubernetes.io/last-change-trigger-time"
    async with puppet() as scene:
        await service(scene, selector=WEB)
        await bare_pod(scene, "a")
        await scene.run("a")
        (one,) = slices(scene)
        ready = scene.status(PODS, "a")["conditions"]
        since = next(entry["lastTransitionTime"] for entry in ready if entry["type"] == "Ready")
        assert one["metadata"]["annotations"] == {stamp: since}
        await scene.patch(SERVICES, "web", {"metadata": {"labels": {"team": "t"}}})
        await scene.settle()
        (one,) = slices(scene)
        assert stamp not in (one["metadata"].get("annotations") or {}), "no pod is the cause of a label"


async def test_traffic_that_shall_stay_near_gets_hints_for_ready_endpoints() -> None:
    async with puppet() as scene:
        await service(scene, selector=WEB, trafficDistribution="PreferSameNode")
        await bare_pod(scene, "a")
        await bare_pod(scene, "b")
        await scene.run("a")
        await scene.run("b", ready=False)
        found = {one["targetRef"]["name"]: one.get("hints") for one in slices(scene)[0]["endpoints"]}
        assert found == {"a": {"forNodes": [{"name": "puppet"}], "forZones": [{"name": "z1"}]}, "b": None}


async def test_a_pod_without_the_named_port_is_listed_without_ports() -> None:
    async with puppet() as scene:
        ports = [{"name": "http", "port": 80, "targetPort": "nope"}]
        await scene.create(SERVICES, "web", spec={"ports": ports, "selector": WEB, "clusterIP": "None"})
        await bare_pod(scene, "a")
        await scene.run("a")
        (one,) = slices(scene)
        assert [entry["targetRef"]["name"] for entry in one["endpoints"]] == ["a"]
        assert not one.get("ports")
        assert not scene.get(ENDPOINTS, "web").get("subsets")


async def test_a_pod_of_a_missing_node_is_in_no_slice_unless_unready_ones_are_published() -> None:
    async with puppet() as scene:
        await service(scene, "careful", selector=WEB)
        await service(scene, "open", selector=WEB, publishNotReadyAddresses=True)
        spec = {**template(WEB)["spec"], "nodeName": "gone"}
        await scene.create(PODS, "a", metadata={"labels": WEB}, spec=spec)
        await scene.run("a")
        listed = {
            name: [len(one.get("endpoints") or []) for one in slices(scene, name)] for name in ("careful", "open")
        }
        assert listed == {"careful": [0], "open": [1]}


async def test_endpoints_written_by_hand_are_mirrored_and_followed() -> None:
    subset = {"addresses": [{"ip": "10.1.1.1", "hostname": "h"}], "notReadyAddresses": [{"ip": "10.1.1.3"}]}
    async with puppet() as scene:
        await service(scene)
        metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}}
        ports = [{"port": 80, "protocol": "TCP"}]
        await scene.create(ENDPOINTS, "web", metadata=metadata, subsets=[{**subset, "ports": ports}])
        await scene.settle()
        (one,) = slices(scene)
        assert one["endpoints"] == [
            {"addresses": ["10.1.1.1"], "conditions": {"ready": True}, "hostname": "h"},
            {"addresses": ["10.1.1.3"], "conditions": {"ready": False}},
        ]
        assert one["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
        assert one["metadata"]["labels"] == {
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            "kubernetes.io/service-name": "web",
            "l": "1",
        }
        assert one["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
        await scene.patch(
            ENDPOINTS, "web", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        )
        await scene.settle()
        assert slices(scene) == []


# Budgets


async def test_a_budget_does_not_count_pods_that_nobody_wants() -> None:
    async with puppet() as scene:
        for name in ("a", "b", "c"):
            await bare_pod(scene, name)
        await scene.run("a", "b", "c")
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"maxUnavailable": 1, "selector": {"matchLabels": WEB}})
        await scene.settle()
        status = scene.status(POD_DISRUPTION_BUDGETS, "b")
        counters = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        assert [status[name] for name in counters] == [0, 0, 3, 0]
        assert [one["reason"] for one in status["conditions"]] == ["InsufficientPods"]


async def test_a_budget_over_pods_of_a_job_cannot_be_computed() -> None:
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec={"template": template(WEB, restartPolicy="Never")})
        await scene.settle()
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"maxUnavailable": 1, "selector": {"matchLabels": WEB}})
        await scene.settle()
        (found,) = scene.status(POD_DISRUPTION_BUDGETS, "b")["conditions"]
        assert (found["reason"], found["message"]) == (
            "SyncFailed",
            "jobs.batch does not implement the scale subresource",
        )


# Owners


def reference(owner: JsonObject, **over: Json) -> JsonObject:
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    return {**named, "uid": owner["metadata"]["uid"], **over}


async def test_a_reference_means_the_kind_that_it_names() -> None:
    async with puppet() as scene:
        owner = await scene.create(CONFIG_MAPS, "owner")
        await scene.settle()
        wrong = {"ownerReferences": [reference(owner, kind="Secret")]}
        await scene.create(CONFIG_MAPS, "wrong-kind", metadata=wrong)
        await scene.create(CONFIG_MAPS, "right", metadata={"ownerReferences": [reference(owner)]})
        unknown = {"ownerReferences": [reference(owner, apiVersion="v9")]}
        await scene.create(CONFIG_MAPS, "unknown-version", metadata=unknown)
        await scene.settle()
        assert not {"wrong-kind"} & set(scene.names(CONFIG_MAPS))
        assert {"right", "unknown-version"} <= set(scene.names(CONFIG_MAPS))
        await scene.delete(CONFIG_MAPS, "owner")
        assert "right" not in scene.names(CONFIG_MAPS)
        assert "unknown-version" in scene.names(CONFIG_MAPS), "nobody can tell whether a v9 owner exists"


# Tokens


async def test_a_token_secret_is_filled_and_goes_with_its_account() -> None:
    kind = "kubernetes.io/service-account-token"
    name = "kubernetes.io/service-account.name"
    async with puppet() as scene:
        account = await scene.create(SERVICE_ACCOUNTS, "robot")
        await scene.create(SECRETS, "token", type=kind, metadata={"annotations": {name: "robot"}})
        await scene.create(SECRETS, "lost", type=kind, metadata={"annotations": {name: "ghost"}})
        await scene.settle()
        secret = scene.get(SECRETS, "token")
        assert sorted(secret["data"]) == ["ca.crt", "namespace", "token"]
        assert base64.b64decode(secret["data"]["namespace"]).decode() == NS
        assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
        assert "lost" not in scene.names(SECRETS)
        await scene.delete(SERVICE_ACCOUNTS, "robot")
        assert "token" not in scene.names(SECRETS)


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
