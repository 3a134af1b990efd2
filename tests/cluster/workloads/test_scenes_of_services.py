"""Scenes of Services and their endpoints, budgets, owners and tokens, as Kubernetes 1.36 plays them."""

import base64

import pytest
from tests.cluster.workloads.puppet import NS, Puppet, puppet, template

from kohort.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kohort.objects.json_types import Json, JsonObject

WEB = {"app": "web"}


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


async def test_a_slice_that_is_deleted_before_it_is_updated_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    async with puppet() as scene:
        await service(scene, selector=WEB)
        await bare_pod(scene, "a")
        await scene.run("a")
        (one,) = slices(scene)
        held = scene.cluster.faults("workloads").hold(ENDPOINT_SLICES)
        await scene.delete(ENDPOINT_SLICES, one["metadata"]["name"])
        await scene.run("a", ready=False)
        scene.cluster.faults("workloads").release(held)
        await scene.settle()
        (one,) = slices(scene)
        assert [entry["conditions"]["ready"] for entry in one["endpoints"]] == [False]
        assert "reconcile failed" not in capsys.readouterr().err


async def test_a_named_port_is_that_of_a_container_that_lasts() -> None:
    def named(name: str, port: int, **more: Json) -> JsonObject:
        return {"name": name, "image": "i", "ports": [{"name": "web", "containerPort": port}], **more}

    async with puppet() as scene:
        await scene.create(
            SERVICES, "web", spec={"ports": [{"name": "h", "port": 80, "targetPort": "web"}], "selector": WEB}
        )
        before = [named("once", 98), named("beside", 99, restartPolicy="Always")]
        spec = {**template(WEB)["spec"], "initContainers": before}
        await scene.create(PODS, "a", metadata={"labels": WEB}, spec=spec)
        await scene.run("a")
        assert [port["port"] for port in slices(scene)[0]["ports"]] == [99]


async def test_annotations_of_endpoints_and_slices_are_kept() -> None:
    async with puppet() as scene:
        await scene.create(ENDPOINTS, "web", metadata={"annotations": {"mine": "1"}})
        await service(scene, selector=WEB)
        await scene.settle()
        (one,) = slices(scene)
        await scene.patch(ENDPOINT_SLICES, one["metadata"]["name"], {"metadata": {"annotations": {"mine": "2"}}})
        await bare_pod(scene, "a")
        await scene.run("a")
        (one,) = slices(scene)
        assert scene.get(ENDPOINTS, "web")["metadata"]["annotations"]["mine"] == "1"
        assert one["metadata"]["annotations"]["mine"] == "2"


async def test_endpoints_written_by_hand_leave_with_their_service() -> None:
    async with puppet() as scene:
        for name in ("web", "alone"):
            await scene.create(ENDPOINTS, name)
        await service(scene)
        await scene.settle()
        await scene.delete(SERVICES, "web")
        assert "alone" in scene.names(ENDPOINTS)
        assert "web" not in scene.names(ENDPOINTS)


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


async def test_a_pod_whose_eviction_was_granted_and_never_happened_is_reported() -> None:
    async with puppet() as scene:
        for name in ("a", "b"):
            await bare_pod(scene, name)
        await scene.run("a", "b")
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"minAvailable": 1, "selector": {"matchLabels": WEB}})
        await scene.settle()
        long_ago = {"a": "2020-01-01T00:00:00Z", "gone": "2020-01-01T00:00:00Z"}
        body = {"status": {"disruptedPods": long_ago}}
        await scene.client.patch(POD_DISRUPTION_BUDGETS, "b", NS, body, subresource="status")
        await scene.settle()
        assert not scene.status(POD_DISRUPTION_BUDGETS, "b").get("disruptedPods")
        message = "Pod was expected by PDB default/default to be deleted but it wasn't"
        assert scene.events("Pod") == {("Warning", "NotDeleted", message)}


async def test_a_budget_does_not_count_surplus_pods() -> None:
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
        status = scene.status(POD_DISRUPTION_BUDGETS, "b")
        (found,) = status["conditions"]
        words = "jobs.batch does not implement the scale subresource"
        assert (found["reason"], found["message"]) == ("SyncFailed", words)
        assert "observedGeneration" not in status
        assert "observedGeneration" not in found
        message = f"Failed to calculate the number of expected pods: {words}"
        assert ("Warning", "CalculateExpectedPodCountFailed", message) in scene.events("PodDisruptionBudget")


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        (("example.com/v1", "Widget"), 'no matches for kind "Widget" in version "example.com/v1"'),
        (("apps/v1", "DaemonSet"), "daemonsets.apps does not implement the scale subresource"),
        (("apps/v1", "ReplicaSet"), 'found no controllers for pod "a"'),
        (("apps/v1", "StatefulSet"), 'found no controllers for pod "a"'),
    ],
)
async def test_a_budget_over_pods_whose_controller_does_not_count(owner: tuple[str, str], words: str) -> None:
    async with puppet() as scene:
        api_version, kind = owner
        reference = {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": True}
        metadata = {"labels": WEB, "ownerReferences": [reference], "finalizers": ["example.com/keep"]}
        await scene.create(PODS, "a", metadata=metadata, spec=template(WEB)["spec"])
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"maxUnavailable": 1, "selector": {"matchLabels": WEB}})
        await scene.settle()
        assert scene.status(POD_DISRUPTION_BUDGETS, "b")["conditions"][0]["message"] == words


async def test_a_budget_reports_missing_and_surplus_pods() -> None:
    selector = {"matchLabels": WEB, "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}
    async with puppet() as scene:
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"maxUnavailable": 1, "selector": selector})
        await scene.settle()
        assert scene.events("PodDisruptionBudget") == {("Normal", "NoPods", "No matching pods found")}
        await bare_pod(scene, "a")
        await scene.settle()
        found = scene.events("PodDisruptionBudget")
        (words,) = [message for _, reason, message in found if reason == "UnmanagedPods"]
        assert words == (
            "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{"
            "app: web,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:app,Operator:In,"
            "Values:[web x],},},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated "
            "correctly, which may result in undefined behavior. To account for these pods please set "
            '".spec.minAvailable" field of the PDB to an integer value.'
        )


async def test_a_budget_expects_pods_that_have_finished() -> None:
    """As in Kubernetes: they are there, though they are not healthy."""
    async with puppet() as scene:
        for name in ("a", "b"):
            await bare_pod(scene, name)
        await scene.run("a")
        await scene.run("b", ready=False, phase="Succeeded", exit_code=0)
        await scene.create(POD_DISRUPTION_BUDGETS, "b", spec={"minAvailable": 1, "selector": {"matchLabels": WEB}})
        await scene.settle()
        status = scene.status(POD_DISRUPTION_BUDGETS, "b")
        assert (status["expectedPods"], status["currentHealthy"]) == (2, 1)


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
