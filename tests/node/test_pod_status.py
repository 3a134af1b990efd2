"""What is reported of resources, conditions and states."""

import msgspec
import pytest
from tests.node.resizing import block, sized

from kohort.node.container_order import ContainerRun
from kohort.node.pod_status import Report, pod_resources, pod_status
from kohort.node.resource_views import Applied, Figures, figures_of
from kohort.node.runtimes.interface import Instance
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod

MI = 1 << 20


def held(pod: Pod, **changes: int | None) -> Applied:
    """What the kernel holds: what was allocated, except for these figures of the pod."""
    target = figures_of(pod)
    whole = {name: getattr(target.pod, name) for name in Figures.__struct_fields__}
    return Applied(Figures(**{**whole, **changes}), target.containers)


def test_figures_that_the_kernel_holds_are_in_the_users_words() -> None:
    pod = sized(pod="50m/100Mi:-/200Mi", c1="")
    assert pod_resources(pod, figures_of(pod), held(pod)) == {
        "resources": block("50m/100Mi:-/200Mi"),
        "allocatedResources": {"cpu": "50m", "memory": "100Mi"},
    }


def test_what_is_not_applied_yet_is_reported_as_it_is() -> None:
    pod = sized(pod="50m/100Mi:200m/200Mi", c1="")
    found = pod_resources(pod, figures_of(pod), held(pod, memory_limit=300 * MI, cpu_limit=400, cpu_request=100))
    assert found["resources"] == block("100m/100Mi:400m/300Mi")
    assert found["allocatedResources"] == {"cpu": "50m", "memory": "100Mi"}


def test_w7_all_names_are_there_whatever_was_resized() -> None:
    pod = sized(pod="50m:-", c1="10m/64Mi:20m/64Mi", c2="10m/64Mi:20m/64Mi")
    found = pod_resources(pod, figures_of(pod), held(pod))
    assert found["resources"] == block("50m/128Mi:40m/128Mi")


def test_w1_overhead_is_not_part_of_what_is_reported() -> None:
    pod = sized(pod="500m/100Mi:600m/200Mi", c1="")
    costly = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, overhead={"cpu": "100m"}))
    assert figures_of(costly).pod.cpu_request == 600
    found = pod_resources(costly, figures_of(costly), held(costly))
    assert found["resources"]["requests"]["cpu"] == "500m" and found["allocatedResources"]["cpu"] == "500m"


def test_no_limit_is_reported_when_a_container_has_none() -> None:
    pod = sized(c1="-:200m/200Mi", c2="")
    assert "limits" not in pod_resources(pod, figures_of(pod), None)["resources"]


def reported(pod: NodePod, run: ContainerRun, said: JsonObject | None = None, **more: object) -> JsonObject:
    report = Report(pod, pod, {"c1": run}, "Running", "t2", "t1", "process://", **more)  # type: ignore[arg-type]
    return pod_status(report, said or {})


RUNNING = Instance("i", 1, 1, "t1")


def test_termination_messages_of_a_pod_have_a_limit_together() -> None:
    ended = Instance("i", 1, 1, "t1", "t2", 1)
    pod = sized(c1="", c2="", c3="", c4="", c5="", c6="")
    runs = {
        f"c{number}": ContainerRun(f"c{number}", 0, ended, termination_message="ä" * 2048) for number in range(1, 7)
    }
    report = Report(pod, pod, runs, "Failed", "t2", "t1", "process://")
    messages = [each["state"]["terminated"]["message"] for each in pod_status(report, {})["containerStatuses"]]
    assert messages == ["ä" * 1024] * 6, "12 KiB in six parts of 2 KiB"


def test_an_inherited_limit_is_not_the_containers_own() -> None:
    pod = sized(pod="100m/100Mi:200m/200Mi", c1="")
    status = reported(pod, ContainerRun("c1", 0, RUNNING, started=True, ready=True), actual=held(pod))
    assert status["containerStatuses"][0]["resources"] == {}


@pytest.mark.parametrize(
    ("run", "state"),
    [
        (ContainerRun("c1"), {"waiting": {"reason": "ContainerCreating"}}),
        (ContainerRun("c1", 0, RUNNING), {"running": {"startedAt": "t1"}}),
        (
            ContainerRun("c1", waiting_reason="ErrImagePull", waiting_message="no"),
            {"waiting": {"reason": "ErrImagePull", "message": "no"}},
        ),
        (ContainerRun("c1", 0, RUNNING, post_start_done=False), {"waiting": {"reason": "ContainerCreating"}}),
    ],
)
def test_the_state_of_a_container(run: ContainerRun, state: JsonObject) -> None:
    assert reported(sized(c1=""), run)["containerStatuses"][0]["state"] == state


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    pod = sized(c1="", generation=4)
    first = reported(pod, ContainerRun("c1", 0, RUNNING))
    before = {each["type"]: each for each in first["conditions"]}
    assert before["Ready"]["reason"] == "ContainersNotReady" and before["Ready"]["observedGeneration"] == 4
    old = {"conditions": [{**each, "lastTransitionTime": "t0"} for each in first["conditions"]]}
    again = reported(pod, ContainerRun("c1", 0, RUNNING, started=True, ready=True), old)
    times = {each["type"]: each["lastTransitionTime"] for each in again["conditions"]}
    assert times["Ready"] == "t2" and times["Initialized"] == "t0"


@pytest.mark.parametrize(
    ("size", "actual", "expected"),
    [
        pytest.param("100m/64Mi:200m/128Mi", (100, 200, 64, 128), "100m/64Mi:200m/128Mi", id="Z1-applied"),
        pytest.param("100m/64Mi:200m/128Mi", (50, 100, 32, 64), "50m/32Mi:100m/64Mi", id="Z1-resizing"),
        pytest.param("-/64Mi:-/128Mi", (2, None, 64, 64), "-/64Mi:-/64Mi", id="Z1-without-cpu"),
        pytest.param("1m:5m", (1, 5, None, None), "1m:5m", id="Z1-below-the-least"),
        pytest.param("", (2, None, None, None), "", id="Z1-best-effort"),
        pytest.param("100m/64Mi:200m/128Mi", (100, None, 64, None), "100m/64Mi", id="Z1-limits-not-there-yet"),
        pytest.param("100m/64Mi:200m/128Mi", None, "100m/64Mi:200m/128Mi", id="Z1-unknown"),
    ],
)
def test_z1_the_resources_of_a_container(
    size: str, actual: tuple[int | None, int | None, int | None, int | None] | None, expected: str
) -> None:
    pod = sized(c1=size)
    applied = None
    if actual is not None:
        cpu, quota, memory, most = actual
        inside = Figures(cpu, quota, None if memory is None else memory * MI, None if most is None else most * MI)
        applied = Applied(figures_of(pod).pod, {"c1": inside})
    running = ContainerRun("c1", attempt=0, instance=Instance("i", 1, 1, "t1"))
    (status,) = reported(pod, running, actual=applied)["containerStatuses"]
    assert status["resources"] == block(expected)
    assert status.get("allocatedResources", {}) == block(size).get("requests", {})


def test_z1_what_has_ended_reports_what_is_allocated() -> None:
    pod = sized(c1="100m/64Mi:200m/128Mi")
    applied = Applied(figures_of(pod).pod, {"c1": Figures(1, 1, 1, 1)})
    ended = ContainerRun("c1", attempt=0, instance=Instance("i", 1, 1, "t1", "t2", 0))
    (status,) = reported(pod, ended, actual=applied)["containerStatuses"]
    assert status["resources"] == block("100m/64Mi:200m/128Mi")


@pytest.mark.parametrize(
    ("reason", "message"),
    [("the runtime forgot it", "the exit status was lost: the runtime forgot it"), ("", "the exit status was lost")],
)
def test_the_runtime_says_why_an_exit_status_is_unknown(reason: str, message: str) -> None:
    ended = Instance("i", 1, 1, "t1", "t2", 137, lost=True, lost_reason=reason)
    (status,) = reported(sized(c1=""), ContainerRun("c1", 0, ended))["containerStatuses"]
    state = status["state"]["terminated"]
    assert (state["reason"], state["message"]) == ("ContainerStatusUnknown", message)
