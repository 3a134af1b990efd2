"""Binding and eviction (specification 1.18)."""

import pytest
from tests.cluster.apiserver.caller import Answer, Api

from kohort.cluster.apiserver.endpoints.binding_and_eviction import spent
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def bind(api: Api, name: str, node: str = "n", **metadata: Json) -> Answer:
    body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
    return await api.post(f"{PODS}/{name}/binding", body)


async def evict(api: Api, name: str, **query: str) -> Answer:
    return await api.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}}, **query)


async def test_binding_puts_a_pod_on_its_node_once(api: Api) -> None:
    await api.pod("p")
    bound = await bind(api, "p", annotations={"a": "1"}, labels={"zone": "z"})
    assert (bound.code, bound.json["status"], bound.json["code"]) == (201, "Success", 201)
    pod = await api.get(f"{PODS}/p")
    assert pod.json["spec"]["nodeName"] == "n"
    assert (pod.meta["annotations"], pod.meta["labels"]) == ({"a": "1"}, {"zone": "z"})
    (condition,) = pod.json["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "observedGeneration" not in condition
    again = await bind(api, "p", "m")
    assert (again.code, again.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
    )


async def test_bindings_that_fail(api: Api) -> None:
    await api.pod("p")
    await api.pod("gated", schedulingGates=[{"name": "example.com/x"}])
    assert (await bind(api, "missing")).code == 404
    assert (await bind(api, "p", "")).message == "target.name: Required value"
    assert (await bind(api, "p", uid="other")).code == 409
    assert "non-empty .spec.schedulingGates" in (await bind(api, "gated")).message


async def test_the_older_form_of_binding(api: Api) -> None:
    await api.pod("p")
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await api.post("/api/v1/namespaces/default/bindings", body)).code == 201
    assert (await api.get(f"{PODS}/p")).json["spec"]["nodeName"] == "n"


async def test_eviction_is_a_graceful_deletion_with_a_reason(api: Api) -> None:
    await api.pod("p", nodeName="n")
    evicted = await evict(api, "p")
    assert evicted.json == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    pod = await api.get(f"{PODS}/p")
    assert pod.meta["deletionGracePeriodSeconds"] == 30
    (condition,) = pod.json["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


async def test_a_dry_run_evicts_no_pod(api: Api) -> None:
    await api.pod("p", nodeName="n")
    assert (await evict(api, "p", dryRun="All")).code == 201
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p")).meta


async def running(api: Api, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"app": "w"}}, "spec": {"nodeName": "n", "containers": [CONTAINER]}}
    assert (await api.post(PODS, body)).code == 201
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await api.patch(f"{PODS}/{name}/status", {"status": status})).code == 200


CONTAINER = {"name": "c", "image": "i"}


async def budget(api: Api, name: str, **status: Json) -> None:
    body = {"metadata": {"name": name}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "w"}}}}
    created = await api.post(BUDGETS, body)
    assert created.code == 201, created.raw
    full = {"observedGeneration": created.meta["generation"], "currentHealthy": 2, "desiredHealthy": 1, **status}
    full = {"disruptionsAllowed": 0, "expectedPods": 2, **full}
    assert (await api.patch(f"{BUDGETS}/{name}/status", {"status": full})).code == 200


async def test_a_budget_is_spent_and_then_refuses(api: Api) -> None:
    await running(api, "p")
    await running(api, "q")
    await budget(api, "b", disruptionsAllowed=1)
    assert (await evict(api, "p")).code == 201
    status = (await api.get(f"{BUDGETS}/b")).json["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p"])
    refused = await evict(api, "q")
    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.json["details"]["causes"][0]["reason"] == "DisruptionBudget"


async def test_two_budgets_are_too_many(api: Api) -> None:
    await running(api, "p")
    for name in ("a", "b"):
        await budget(api, name, disruptionsAllowed=1)
    refused = await evict(api, "p")
    assert (refused.code, refused.reason) == (500, "")


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({"observedGeneration": 1}, 429, "The disruption budget b is still being processed by the server."),
        ({"observedGeneration": 2, "disruptionsAllowed": -1}, 403, "pdb disruptions allowed is negative"),
        (
            {"observedGeneration": 2, "desiredHealthy": 3, "currentHealthy": 2},
            429,
            "The disruption budget b needs 3 healthy pods and has 2 currently",
        ),
        (
            {"observedGeneration": 2, "desiredHealthy": 1, "currentHealthy": 2},
            429,
            "The disruption budget b does not allow evicting pods currently",
        ),
    ],
)
def test_why_a_budget_refuses(status: JsonObject, code: int, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        spent({"metadata": {"name": "b", "generation": 2}, "status": status}, "p")
    assert refused.value.code == code
    details = refused.value.status.details
    assert details is not None
    shown = [cause.message for cause in details.causes] + [refused.value.message]
    assert any(text in one for one in shown)


async def test_logs_of_a_simulated_node_cause_no_connection(api: Api) -> None:
    """Its address is made up, and may be that of a machine in somebody's network."""
    labels = {"simulation.kohort.dev/node": "true"}
    addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
    node = {"metadata": {"name": "sim-0", "labels": labels}, "status": {"addresses": addresses}}
    assert (await api.post("/api/v1/nodes", node)).code == 201
    await api.pod("p", nodeName="sim-0")
    for said in (
        await api.get(f"{PODS}/p/log"),
        await api.get(f"{PODS}/p/exec", command="ls", stdout="true"),
        await api.get("/api/v1/nodes/sim-0/proxy/metrics"),
    ):
        assert (said.code, "nothing runs on simulated nodes" in said.message) == (503, True)
