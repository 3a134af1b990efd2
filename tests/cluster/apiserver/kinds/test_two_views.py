"""Kinds that are served in two versions and stored in one."""

from tests.cluster.apiserver.caller import Api

CORE_EVENTS = "/api/v1/namespaces/d/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/d/events"
SCALERS = "/apis/autoscaling/{}/namespaces/d/horizontalpodautoscalers"


async def test_an_event_in_its_two_forms(admitting: Api) -> None:
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "d", "name": "p"},
        "reason": "Started",
        "note": "well",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Start",
        "eventTime": "2026-01-02T03:04:05.000006Z",
    }
    assert (await admitting.post(EVENTS, body)).code == 201
    old = (await admitting.get(f"{CORE_EVENTS}/e")).json
    assert old["involvedObject"] == {"kind": "Pod", "namespace": "d", "name": "p"}
    assert (old["message"], old["reportingComponent"]) == ("well", "example.com/c")
    assert old["eventTime"] == "2026-01-02T03:04:05.000006Z"


async def test_an_old_event_in_the_new_form(admitting: Api) -> None:
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "d", "name": "p"},
        "reason": "Started",
        "message": "well",
        "source": {"component": "c", "host": "h"},
        "count": 3,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:06Z",
    }
    assert (await admitting.post(CORE_EVENTS, body)).code == 201
    new = (await admitting.get(f"{EVENTS}/e")).json
    assert new["regarding"]["name"] == "p"
    assert new["note"] == "well"
    assert new["deprecatedSource"] == {"component": "c", "host": "h"}
    assert new["deprecatedCount"] == 3
    assert new["deprecatedLastTimestamp"] == "2026-01-02T03:04:06Z"


async def test_an_autoscaler_in_both_versions(admitting: Api) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    old = {"spec": {"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70}}
    assert (await admitting.post(SCALERS.format("v1"), {"metadata": {"name": "h"}, **old})).code == 201
    new = (await admitting.get(SCALERS.format("v2") + "/h")).json
    target_cpu = {"type": "Utilization", "averageUtilization": 70}
    assert new["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target_cpu}}]
    more = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}}
    new["spec"]["metrics"].append(more)
    assert (await admitting.put(SCALERS.format("v2") + "/h", new)).code == 200
    again = (await admitting.get(SCALERS.format("v1") + "/h")).json
    assert again["spec"]["targetCPUUtilizationPercentage"] == 70
    assert "External" in again["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]
    again["spec"]["maxReplicas"] = 6
    assert (await admitting.put(SCALERS.format("v1") + "/h", again)).code == 200
    assert more in (await admitting.get(SCALERS.format("v2") + "/h")).json["spec"]["metrics"], "nothing got lost"
