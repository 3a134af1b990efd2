"""The status of a pod, from the states of its containers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.pod_status import (
    ALL_RESTARTING,
    CONTAINER_LOST,
    NODE_CONDITIONS,
    ContainerObservation,
    ContainerProgress,
    ContainerState,
    PodCondition,
    PodObservation,
    Running,
    Terminated,
    Waiting,
    all_containers_restarting,
    container_state,
    container_status,
    crash_loop_backoff,
    duration,
    exit_reason,
    pod_conditions,
    pod_phase,
    pod_status,
    rejected_status,
    reported_conditions,
    says_ready,
    status_patch,
)
from kohort.rules.resize_conditions import PENDING, ResizeState, accepted

NOT_STARTED, ACTIVE = ContainerProgress.NOT_STARTED, ContainerProgress.ACTIVE
SUCCEEDED, FAILED = ContainerProgress.SUCCEEDED, ContainerProgress.FAILED
PHASES = ("Pending", "Running", "Succeeded", "Failed")
RUNS = Running("t1")
ENDED = Terminated(1, "Error", "t1", "t2", "process://i")


def a_pod(**fields: object) -> Pod:
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "generation": 3},
        "spec": {
            "containers": [{"name": "main", "image": "app"}],
            **{key: value for key, value in fields.items() if key != "status"},
        },
        "status": fields.get("status", {}),
    }
    return msgspec.convert(document, Pod)


def main(*, ready: bool = True, name: str = "main", state: ContainerState = RUNS) -> ContainerObservation:
    return ContainerObservation(name, "app", state, container_id="process://i", ready=ready, started=True)


READY = PodObservation("Running", "t9", "t0", [main()], sandbox_ready=True)


def seen(**changes: object) -> PodObservation:
    return msgspec.structs.replace(READY, **changes)


def conditions(pod: Pod, observed: PodObservation, reported: JsonObject | None = None) -> dict[str, JsonObject]:
    return {each["type"]: each for each in pod_conditions(pod, observed, reported or {})}


def brief(condition: JsonObject) -> tuple[str, str, str]:
    return condition["status"], condition.get("reason", ""), condition.get("message", "")


# Phase


@pytest.mark.parametrize(
    ("mains", "phase"),
    [
        ([], "Pending"),
        ([NOT_STARTED], "Pending"),
        ([NOT_STARTED, ACTIVE], "Pending"),
        ([NOT_STARTED, FAILED], "Pending"),
        ([ACTIVE], "Running"),
        ([ACTIVE, FAILED], "Running"),
        ([ACTIVE, SUCCEEDED], "Running"),
        ([SUCCEEDED], "Succeeded"),
        ([SUCCEEDED, SUCCEEDED], "Succeeded"),
        ([SUCCEEDED, FAILED], "Failed"),
        ([FAILED], "Failed"),
    ],
)
def test_the_phase_follows_from_the_main_containers(mains: list[ContainerProgress], phase: str) -> None:
    assert pod_phase(mains) == phase


def test_a_failed_init_container_fails_the_pod() -> None:
    assert pod_phase([NOT_STARTED], init_failed=True) == "Failed"


@given(st.lists(st.sampled_from(list(ContainerProgress)), min_size=1))
def test_the_phase_does_not_depend_on_the_order_of_containers(mains: list[ContainerProgress]) -> None:
    assert pod_phase(mains) == pod_phase(sorted(mains)) == pod_phase(reversed(mains))


@given(st.lists(st.sampled_from(list(ContainerProgress)), min_size=1))
def test_a_pod_ends_only_when_no_container_can_run_any_more(mains: list[ContainerProgress]) -> None:
    over = pod_phase(mains) in ("Succeeded", "Failed")
    assert over == all(each in (SUCCEEDED, FAILED) for each in mains)


# States


BLOCKED = Waiting("ErrImagePull", "no such image")
BACKOFF = Waiting("CrashLoopBackOff", "later")


@pytest.mark.parametrize(
    ("running", "blocked", "backoff", "ended", "pod_ended", "initializing", "expected"),
    [
        (RUNS, BLOCKED, BACKOFF, ENDED, True, True, RUNS),
        (None, BLOCKED, BACKOFF, ENDED, False, False, BLOCKED),
        (None, None, BACKOFF, ENDED, False, False, BACKOFF),
        (None, None, None, ENDED, True, False, ENDED),
        (None, None, None, None, True, True, CONTAINER_LOST),
        (None, None, None, None, False, True, Waiting("PodInitializing")),
        (None, None, None, None, False, False, Waiting("ContainerCreating")),
    ],
)
def test_the_first_row_that_applies_is_the_state(
    running: Running | None,
    blocked: Waiting | None,
    backoff: Waiting | None,
    ended: Terminated | None,
    pod_ended: bool,
    initializing: bool,
    expected: ContainerState,
) -> None:
    state = container_state(
        running=running,
        blocked=blocked,
        backoff=backoff,
        ended=ended,
        pod_ended=pod_ended,
        initializing=initializing,
    )
    assert state == expected


def test_a_container_that_was_never_started_is_reported_as_killed() -> None:
    status = container_status(ContainerObservation("main", "app", CONTAINER_LOST))
    assert status["state"] == {
        "terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
        }
    }


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (10, "10s"), (80, "1m20s"), (300, "5m0s")])
def test_the_pause_before_a_restart_is_in_the_words_of_the_kubelet(seconds: float, text: str) -> None:
    assert crash_loop_backoff(a_pod(), "main", seconds) == Waiting(
        "CrashLoopBackOff", f"back-off {text} restarting failed container=main pod=web_shop(u-1)"
    )


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (1, "Error"), (137, "Error")])
def test_an_exit_code_has_a_reason(code: int, reason: str) -> None:
    assert exit_reason(code) == reason


# Container statuses


def test_the_status_of_a_container_has_every_field_that_clients_read() -> None:
    observed = ContainerObservation(
        "main",
        "app",
        RUNS,
        last=ENDED,
        container_id="process://j",
        image_id="process://app",
        ready=True,
        started=True,
        restarts=2,
        resources={"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}},
    )
    assert container_status(observed) == {
        "name": "main",
        "image": "app",
        "imageID": "process://app",
        "containerID": "process://j",
        "ready": True,
        "started": True,
        "restartCount": 2,
        "state": {"running": {"startedAt": "t1"}},
        "lastState": {
            "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "startedAt": "t1",
                "finishedAt": "t2",
                "containerID": "process://i",
            }
        },
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
    }


def test_a_container_before_its_first_start_has_no_id() -> None:
    status = container_status(ContainerObservation("main", "app", Waiting("ContainerCreating"), started=False))
    assert "containerID" not in status and status["imageID"] == "" and status["lastState"] == {}


def test_an_ephemeral_container_does_not_say_whether_it_has_started() -> None:
    assert "started" not in container_status(ContainerObservation("debug", "app", RUNS))


def test_a_waiting_container_has_a_message_only_if_there_is_one() -> None:
    assert container_status(main(state=Waiting("X")))["state"] == {"waiting": {"reason": "X"}}
    assert container_status(main(state=Waiting("X", "why")))["state"] == {"waiting": {"reason": "X", "message": "why"}}


# Conditions


def test_a_pod_whose_containers_are_ready_is_ready() -> None:
    found = conditions(a_pod(), seen())
    assert {type: brief(each) for type, each in found.items()} == {
        "PodScheduled": ("True", "", ""),
        "PodReadyToStartContainers": ("True", "", ""),
        "Initialized": ("True", "", ""),
        "Ready": ("True", "", ""),
        "ContainersReady": ("True", "", ""),
    }
    assert all(each["observedGeneration"] == 3 for each in found.values())


def test_containers_that_are_not_ready_are_named_sidecars_first() -> None:
    pod = a_pod(
        initContainers=[{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
        containers=[{"name": "main"}, {"name": "other"}],
    )
    observed = seen(
        containers=[main(ready=False), main(name="other")],
        init_containers=[main(name="setup", ready=False), main(name="proxy", ready=False)],
    )
    found = conditions(pod, observed)
    expected = ("False", "ContainersNotReady", "containers with unready status: [proxy main]")
    assert brief(found["Ready"]) == brief(found["ContainersReady"]) == expected


def test_readiness_gates_hold_back_the_pod_but_not_its_containers() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]
    status = {"conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]}
    found = conditions(a_pod(readinessGates=gates, status=status), seen())
    text = "; ".join(f'corresponding condition of pod readiness gate "{name}" does not exist.' for name in "bc")
    assert brief(found["Ready"]) == ("False", "ReadinessGatesNotReady", text)
    assert brief(found["ContainersReady"]) == ("True", "", "")


@pytest.mark.parametrize(("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")])
def test_a_pod_that_has_ended_is_not_ready_whatever_its_containers_say(phase: str, reason: str) -> None:
    found = conditions(a_pod(), seen(phase=phase))
    assert brief(found["Ready"]) == brief(found["ContainersReady"]) == ("False", reason, "")
    assert brief(found["PodReadyToStartContainers"]) == ("False", "", "")
    assert brief(found["Initialized"]) == ("True", "PodCompleted" if phase == "Succeeded" else "", "")


def test_init_containers_that_are_not_through_are_named() -> None:
    found = conditions(a_pod(), seen(phase="Pending", uninitialized=["one", "two"]))
    expected = ("False", "ContainersNotInitialized", "containers with incomplete status: [one two]")
    assert brief(found["Initialized"]) == expected


def test_conditions_about_a_resize_end_with_the_pod() -> None:
    resize, _ = accepted(a_pod(), "t5")
    assert "PodResizeInProgress" in conditions(a_pod(), seen(resize=resize))
    assert "PodResizeInProgress" not in conditions(a_pod(), seen(resize=resize, phase="Failed"))


def test_a_node_can_add_conditions() -> None:
    more = [PodCondition("DisruptionTarget", True, "TerminationByKubelet", "low on memory")]
    found = conditions(a_pod(), seen(more_conditions=more))
    assert brief(found["DisruptionTarget"]) == ("True", "TerminationByKubelet", "low on memory")


def test_a_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    reported = {
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "t4"},
            {"type": "ContainersReady", "status": "False", "lastTransitionTime": "t4"},
        ]
    }
    found = conditions(a_pod(), seen(), reported)
    assert found["Ready"]["lastTransitionTime"] == "t4"
    assert found["ContainersReady"]["lastTransitionTime"] == "t9"
    assert found["Initialized"]["lastTransitionTime"] == "t9"


@given(
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]), st.booleans(), st.lists(st.booleans(), min_size=1)
)
def test_ready_implies_that_containers_are_ready_and_the_pod_runs(phase: str, sandbox: bool, ready: list[bool]) -> None:
    containers = [main(name=f"c{number}", ready=each) for number, each in enumerate(ready)]
    found = conditions(a_pod(), seen(phase=phase, sandbox_ready=sandbox, containers=containers))
    if found["Ready"]["status"] == "True":
        assert found["ContainersReady"]["status"] == "True" and all(ready)
        assert phase not in ("Succeeded", "Failed")


# The whole status


def test_the_whole_status_of_a_pod() -> None:
    observed = seen(
        init_containers=[main(name="setup")],
        ephemeral_containers=[ContainerObservation("debug", "tools", RUNS)],
        host="10.0.0.1",
        address="10.1.0.2",
        reason="Evicted",
        message="low on memory",
        resources={"resources": {}, "allocatedResources": {"cpu": "1"}},
    )
    status = pod_status(a_pod(), observed, {})
    assert status["phase"] == "Running" and status["startTime"] == "t0" and status["observedGeneration"] == 3
    assert (status["hostIP"], status["hostIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}])
    assert (status["podIP"], status["podIPs"]) == ("10.1.0.2", [{"ip": "10.1.0.2"}])
    assert (status["reason"], status["message"]) == ("Evicted", "low on memory")
    assert [each["name"] for each in status["containerStatuses"]] == ["main"]
    assert [each["name"] for each in status["initContainerStatuses"]] == ["setup"]
    assert [each["name"] for each in status["ephemeralContainerStatuses"]] == ["debug"]
    assert status["allocatedResources"] == {"cpu": "1"}


def test_fields_without_a_value_are_absent() -> None:
    status = pod_status(a_pod(), seen(), {})
    absent = {"reason", "message", "hostIP", "podIP", "initContainerStatuses", "ephemeralContainerStatuses"}
    assert absent.isdisjoint(status)


def test_a_rejected_pod_has_failed_without_containers() -> None:
    assert rejected_status(a_pod(), "OutOfcpu", "Pod was rejected: too much", "t0") == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: too much",
        "observedGeneration": 3,
        "startTime": "t0",
    }


# From one status to the next


def test_conditions_of_others_are_not_the_nodes_own() -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "example.com/gate", "status": "True"}]}
    assert [each["type"] for each in reported_conditions(a_pod(status=status))["conditions"]] == ["Ready"]
    assert PENDING in NODE_CONDITIONS


def test_the_patch_names_what_is_gone() -> None:
    before = {"conditions": [{"type": "Ready", "status": "False", "reason": "X"}, {"type": "PodResizePending"}]}
    after = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert status_patch(before, after)["conditions"] == [
        {"type": "Ready", "status": "True", "reason": None},
        {"type": "PodResizePending", "$patch": "delete"},
    ]


@pytest.mark.parametrize(
    ("before", "after", "patched"),
    [
        ({"requests": {"cpu": "1"}}, {"limits": {"cpu": "1"}}, {"$patch": "replace", "limits": {"cpu": "1"}}),
        ({"requests": {"cpu": "1"}}, None, None),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, {"requests": {"cpu": "1"}}),
    ],
)
def test_resources_are_replaced_as_a_whole(before: JsonObject, after: JsonObject | None, patched: JsonObject) -> None:
    status: JsonObject = {} if after is None else {"resources": after}
    assert status_patch({"resources": before}, status)["resources"] == patched


def test_a_status_without_conditions_is_patched_as_it_is() -> None:
    assert status_patch({}, {"phase": "Failed"}) == {"phase": "Failed"}


def test_a_pod_without_a_resize_has_no_condition_about_one() -> None:
    assert not {"PodResizePending", "PodResizeInProgress"} & set(conditions(a_pod(), seen(resize=ResizeState())))


def test_an_address_that_has_changed_replaces_the_one_before() -> None:
    before = {"podIP": "198.18.0.2", "podIPs": [{"ip": "198.18.0.2"}], "hostIPs": [{"ip": "192.0.2.1"}]}
    after = {"podIP": "198.18.0.3", "podIPs": [{"ip": "198.18.0.3"}], "hostIPs": [{"ip": "192.0.2.1"}]}
    assert status_patch(before, after) == {**after, "podIPs": [{"$patch": "replace"}, {"ip": "198.18.0.3"}]}
    assert status_patch({}, after) == after
    assert status_patch(before, {"phase": "Failed"}) == {"phase": "Failed"}, "what is not said stays"


def test_a_pod_that_names_its_node_itself_is_reported_as_scheduled() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "t1"}
    assert conditions(a_pod(), READY)["PodScheduled"]["status"] == "True"
    written = conditions(a_pod(status={"conditions": [scheduled]}), READY)["PodScheduled"]
    assert (written["lastTransitionTime"], written["observedGeneration"]) == ("t1", 3), "the scheduler looks only once"


def test_a_condition_that_the_node_has_added_stays() -> None:
    first = conditions(a_pod(), READY)
    pod = a_pod(status={"conditions": list(first.values())})
    later = conditions(pod, seen(now="t99"), {"conditions": list(first.values())})
    assert later["PodScheduled"] == first["PodScheduled"]


@pytest.mark.parametrize(
    ("restarting", "phase", "expected"),
    [
        (True, "Running", (True, "RestartAllContainersStarted")),
        (False, "Running", (False, "")),
        (True, "Failed", (False, "PodFailed")),
        (False, "Succeeded", (False, "PodCompleted")),
    ],
)
def test_a_condition_says_that_all_containers_are_restarted(
    restarting: bool, phase: str, expected: tuple[bool, str]
) -> None:
    found = all_containers_restarting(restarting, phase)
    assert (found.type, found.holds, found.reason) == (ALL_RESTARTING, *expected)
    assert ALL_RESTARTING in NODE_CONDITIONS


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], False),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "ContainersReady", "status": "True"}], False),
        ([{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}], False),
        ([{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "True"}], True),
    ],
)
def test_a_status_says_ready_only_by_that_condition(conditions: list[JsonObject], ready: bool) -> None:
    assert says_ready({"conditions": conditions}) is ready
    assert says_ready({}) is False


@given(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_container_is_in_the_state_of_the_highest_row(
    running: bool, blocked: bool, backoff: bool, ended: bool, pod_ended: bool, initializing: bool
) -> None:
    """All combinations of the table, also those that no node observes."""
    runs, cannot, waits = Running("now"), Waiting("ErrImagePull"), Waiting("CrashLoopBackOff")
    end = Terminated(1, "Error")
    found = container_state(
        running=runs if running else None,
        blocked=cannot if blocked else None,
        ended=end if ended else None,
        backoff=waits if backoff else None,
        pod_ended=pod_ended,
        initializing=initializing,
    )
    rows: list[tuple[bool, ContainerState]] = [
        (running, runs),
        (blocked, cannot),
        (backoff, waits),
        (ended, end),
        (pod_ended, CONTAINER_LOST),
        (initializing, Waiting("PodInitializing")),
        (True, Waiting("ContainerCreating")),
    ]
    assert found == next(state for applies, state in rows if applies)


@given(st.integers(0, 10_000))
def test_a_pause_is_written_in_minutes_and_seconds(seconds: int) -> None:
    minutes, _, rest = duration(seconds).rpartition("m")
    assert rest.endswith("s")
    assert int(minutes or 0) * 60 + int(rest[:-1]) == seconds
    assert 0 <= int(rest[:-1]) < 60
    assert bool(minutes) == (seconds >= 60)


texts = st.sampled_from(["", "a", "b"])
one_condition = st.fixed_dictionaries({"status": st.sampled_from(["True", "False"])}, optional={"reason": texts})
some_conditions = st.dictionaries(st.sampled_from(["Ready", "Initialized", PENDING]), one_condition)


@given(some_conditions, some_conditions)
def test_a_patch_leads_from_any_conditions_to_any_others(
    before: dict[str, JsonObject], after: dict[str, JsonObject]
) -> None:
    """Applied as a strategic merge by type, as the API server does it."""
    reported, status = (
        {"conditions": [{"type": type, **fields} for type, fields in each.items()]} for each in (before, after)
    )
    merged = {type: dict(fields) for type, fields in before.items()}
    for entry in status_patch(reported, status).get("conditions", ()):
        fields = {key: value for key, value in entry.items() if key != "type"}
        if fields.pop("$patch", "") == "delete":
            merged.pop(entry["type"])
            continue
        live = merged.setdefault(entry["type"], {})
        live.update(fields)
        for key in [key for key, value in fields.items() if value is None]:
            del live[key]
    wanted = {type: {key: text for key, text in fields.items() if text} for type, fields in after.items()}
    assert {type: {key: text for key, text in fields.items() if text} for type, fields in merged.items()} == wanted
