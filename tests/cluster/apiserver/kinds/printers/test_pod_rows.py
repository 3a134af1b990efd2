"""Rows of pods: one word for their status, and how often they were restarted."""

import pytest
from tests.cluster.apiserver.kinds.printers.rows import ago, cells

from kohort.cluster.apiserver.kinds.printers.pods import row_conditions
from kohort.objects.json_types import Json, JsonObject


def pod(*states: JsonObject, inits: tuple[JsonObject, ...] = (), **status: Json) -> JsonObject:
    """A pod with a container for each state. A state may have further fields of a container status beside it."""
    return {
        "spec": {
            "containers": [{"name": f"c{n}"} for n, _ in enumerate(states)],
            "initContainers": [{"name": f"i{n}", **init.get("spec", {})} for n, init in enumerate(inits)],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": f"c{n}", **state} for n, state in enumerate(states)],
            "initContainerStatuses": [
                {"name": f"i{n}", **{k: v for k, v in init.items() if k != "spec"}} for n, init in enumerate(inits)
            ],
            **status,
        },
    }


RUNNING: JsonObject = {"ready": True, "state": {"running": {}}}
COMPLETED: JsonObject = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
ERROR: JsonObject = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
SIDECAR: JsonObject = {"spec": {"restartPolicy": "Always"}, "started": True, "ready": True, "state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]


def terminated(**state: Json) -> JsonObject:
    return {"state": {"terminated": state}}


def waiting(reason: str) -> JsonObject:
    return {"state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("obj", "status", "ready"),
    [
        ({"status": {"phase": "Pending"}}, "Pending", "0/0"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted", "0/0"),
        (
            {"status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            "SchedulingGated",
            "0/0",
        ),
        (pod(RUNNING, RUNNING), "Running", "2/2"),
        (pod(waiting("CrashLoopBackOff"), RUNNING), "CrashLoopBackOff", "1/2"),
        (pod(RUNNING, waiting("ImagePullBackOff")), "ImagePullBackOff", "1/2"),
        (pod(waiting("A"), waiting("B")), "A", "0/2"),
        (pod(ERROR), "Error", "0/1"),
        (pod(terminated(exitCode=3)), "ExitCode:3", "0/1"),
        (pod(terminated(exitCode=137, signal=9)), "Signal:9", "0/1"),
        (pod(COMPLETED), "Completed", "0/1"),
        (pod(COMPLETED, RUNNING, conditions=READY), "Running", "1/2"),
        (pod(COMPLETED, RUNNING), "NotReady", "1/2"),
        (pod(COMPLETED, ERROR, RUNNING), "Error", "1/3"),
        (pod({}, inits=(COMPLETED, {"state": {"running": {}}})), "Init:1/2", "0/1"),
        (pod({}, inits=(waiting("PodInitializing"),)), "Init:0/1", "0/1"),
        (pod({}, inits=(waiting("ErrImagePull"),)), "Init:ErrImagePull", "0/1"),
        (pod({}, inits=(terminated(exitCode=2),)), "Init:ExitCode:2", "0/1"),
        (pod({}, inits=(terminated(exitCode=2, signal=15),)), "Init:Signal:15", "0/1"),
        (pod({}, inits=(ERROR,)), "Init:Error", "0/1"),
        (pod(RUNNING, inits=(ERROR,), conditions=[{"type": "Initialized", "status": "True"}]), "Init:Error", "1/1"),
        (pod(RUNNING, inits=(SIDECAR, COMPLETED)), "Running", "2/2"),
        (pod(RUNNING, inits=({**SIDECAR, "ready": False},)), "Running", "1/2"),
        (pod(RUNNING) | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Terminating", "1/1"),
        (pod(RUNNING, reason="NodeLost") | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Unknown", "1/1"),
        (pod(COMPLETED, phase="Succeeded") | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Completed", "0/1"),
    ],
)
def test_the_status_of_a_pod_in_one_word(obj: JsonObject, status: str, ready: str) -> None:
    shown = cells("Pod", obj)
    assert (shown["Status"], shown["Ready"]) == (status, ready)


def restarted(count: int, when: str | None = None, **rest: Json) -> JsonObject:
    last = {"lastState": {"terminated": {"finishedAt": when}}} if when else {}
    return {**RUNNING, "restartCount": count, **last, **rest}


@pytest.mark.parametrize(
    ("obj", "restarts"),
    [
        (pod(RUNNING), "0"),
        (pod(restarted(2), restarted(1)), "3"),
        (pod(restarted(2, ago(hours=9)), restarted(1, ago(minutes=5))), "3 (5m ago)"),
        (pod(restarted(0, ago(minutes=5))), "0"),
        (pod(restarted(1), inits=({**COMPLETED, "restartCount": 4},)), "1"),
        (pod(restarted(1), inits=({**SIDECAR, **restarted(4, ago(minutes=3))},)), "5 (3m ago)"),
        (pod({}, inits=({**ERROR, "restartCount": 4},)), "4"),
    ],
)
def test_restarts_of_a_pod(obj: JsonObject, restarts: str) -> None:
    assert cells("Pod", obj)["Restarts"] == restarts


def test_wide_columns_of_a_pod() -> None:
    obj = pod(
        RUNNING, podIPs=[{"ip": "1.2.3.4"}], nominatedNodeName="n2", conditions=[{"type": "g1", "status": "True"}]
    )
    obj["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "g1"}, {"conditionType": "g2"}]}
    shown = cells("Pod", obj)
    assert [shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "1.2.3.4",
        "n1",
        "n2",
        "1/2",
    ]
    shown = cells("Pod", {})
    assert {shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")} == {"<none>"}


def test_rows_of_finished_pods_say_so() -> None:
    assert row_conditions({"kind": "Pod", "status": {"phase": "Failed"}}) == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]
    assert row_conditions({"kind": "Pod", "status": {"phase": "Running"}}) == []
    assert row_conditions({"kind": "Other", "status": {"phase": "Failed"}}) == []


# --- the others ---
