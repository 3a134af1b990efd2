"""The simulated of a simulated pod, in numbers."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.simulation.annotations import SimulatedBehavior
from kohort.cluster.simulation.pod_lifecycle import PodLifecycle, SimulatedTime
from kohort.objects.meta import ObjectMeta
from kohort.objects.pods import Container, Pod, PodSpec
from kohort.rules.pod_admission import Rejection


def pod(*names: str, policy: str = "Always", sidecar: str = "") -> Pod:
    init = (Container(name=sidecar, restart_policy="Always"),) if sidecar else ()
    containers = tuple(Container(name=name) for name in names or ("main",))
    spec = PodSpec(containers=containers, init_containers=init, restart_policy=policy)
    return Pod(ObjectMeta(name="x", uid="u"), spec)


def at(now: float) -> SimulatedTime:
    return SimulatedTime(now, f"t{now:g}")


class Story:
    """A lifecycle and the moments at which it was looked at."""

    def __init__(self, behavior: SimulatedBehavior, subject: Pod | None = None) -> None:
        self.pod = subject or pod()
        self.orders = behavior
        self.lifecycle = PodLifecycle.accept(self.pod, behavior, at(0))
        self.wait: float | None = None

    def to(self, now: float) -> "Story":
        self.wait = self.lifecycle.advance(self.orders, self.pod.spec.restart_policy, at(now))
        return self

    def restarts(self, name: str = "main") -> int:
        return self.lifecycle.containers[name].restarts

    def ready(self, now: float, name: str = "main") -> bool:
        self.to(now)
        return self.lifecycle.is_ready(name, self.orders, now)


def test_without_orders_a_pod_runs_and_is_ready_at_once() -> None:
    story = Story(SimulatedBehavior()).to(0)
    assert (story.lifecycle.phase, story.wait) == ("Running", None)
    assert story.ready(0)


def test_latencies() -> None:
    story = Story(SimulatedBehavior(start_latency=2, ready_latency=3)).to(0)
    assert (story.lifecycle.phase, story.wait) == ("Pending", 2)
    assert (story.to(2).lifecycle.phase, story.wait) == ("Running", 3)
    assert not story.ready(4.9)
    assert story.ready(5)
    assert story.wait is None


def test_never_ready_and_flips() -> None:
    assert not Story(SimulatedBehavior(never_ready=True)).ready(1000)
    story = Story(SimulatedBehavior(readiness_flips=(10, 5)))
    assert [story.ready(moment) for moment in (0, 9, 10, 14, 15, 1000)] == [True, True, False, False, True, True]
    assert Story(SimulatedBehavior(readiness_flips=(10, 5))).to(0).wait == 10
    assert Story(SimulatedBehavior(readiness_flips=(10, 5))).to(0).to(10).wait == 5


def test_orders_for_one_container_leave_the_others_alone() -> None:
    story = Story(SimulatedBehavior(never_ready=True, exit_after=1, exit_code=1, container="b"), pod("a", "b"))
    assert (story.ready(0, "a"), story.ready(0, "b")) == (True, False)
    story.to(1)
    assert (story.restarts("a"), story.restarts("b")) == (0, 1)


def test_a_container_that_waits_never_starts() -> None:
    story = Story(SimulatedBehavior(waiting="ImagePullBackOff")).to(1000)
    assert (story.lifecycle.phase, story.wait) == ("Pending", None)


def test_a_rejected_pod_has_failed() -> None:
    assert Story(SimulatedBehavior(fail=Rejection("OutOfcpu", "not today"))).to(0).lifecycle.phase == "Failed"


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [
        ("Always", 0, "Running", 1),
        ("Always", 1, "Running", 1),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 1, "Running", 1),
        ("Never", 0, "Succeeded", 0),
        ("Never", 3, "Failed", 0),
    ],
)
def test_what_follows_the_end_of_a_container(policy: str, code: int, phase: str, restarts: int) -> None:
    story = Story(SimulatedBehavior(exit_after=5, exit_code=code), pod(policy=policy)).to(0).to(5)
    assert (story.lifecycle.phase, story.restarts()) == (phase, restarts)


def test_one_failed_container_makes_a_failed_pod_only_when_all_have_ended() -> None:
    story = (
        Story(SimulatedBehavior(exit_after=5, exit_code=2, container="a"), pod("a", "b", policy="Never")).to(0).to(5)
    )
    assert story.lifecycle.phase == "Running"


def test_restarts_wait_longer_and_longer_as_kubelets_do() -> None:
    story = Story(SimulatedBehavior(exit_after=0, exit_code=1)).to(0)
    moments = [0.0]
    while len(moments) < 16:
        assert story.wait is not None
        moments.append(moments[-1] + story.wait)
        story.to(moments[-1])
    pauses = [later - earlier for earlier, later in pairwise(moments) if later - earlier > 1]
    assert pauses == pytest.approx([10, 20, 40, 80, 160, 300, 300])


def test_a_container_that_ran_long_starts_again_without_delay() -> None:
    story = Story(SimulatedBehavior(exit_after=700, exit_code=1)).to(0)
    for moment in (700, 1400, 2100):
        story.to(moment)
    assert story.restarts() == 3
    assert story.lifecycle.containers["main"].running


def test_so_many_crashes_and_then_peace() -> None:
    story = Story(SimulatedBehavior(crashes=3, exit_after=1, exit_code=1, restart_delay=0)).to(0)
    for moment in range(1, 20):
        story.to(moment)
    assert (story.restarts(), story.wait) == (3, None)
    assert story.ready(20)


def test_a_changed_word_crashes_a_running_container_once() -> None:
    story = Story(SimulatedBehavior(crash="from the start")).to(0).to(5)
    assert story.restarts() == 0
    story.orders = SimulatedBehavior(crash="now")
    assert story.to(6).to(7).restarts() == 1
    last = story.lifecycle.containers["main"].last
    assert last is not None
    assert (last.code, last.started, last.finished) == (1, "t0", "t6")


def test_deletion_ends_containers_within_the_grace_period() -> None:
    story = Story(SimulatedBehavior(termination_latency=10)).to(0)
    story.lifecycle.stop(story.orders, 30, at(1))
    assert (story.to(2).wait, story.lifecycle.stopped) == (9, False)
    story.lifecycle.stop(story.orders, 2, at(3))
    assert (story.to(3).wait, story.lifecycle.stopped) == (2, False)
    assert story.to(5).lifecycle.stopped
    assert story.lifecycle.phase == "Succeeded"


def test_sidecars_run_beside_the_containers() -> None:
    story = Story(SimulatedBehavior(never_ready=True), pod("main", sidecar="proxy")).to(0)
    assert story.lifecycle.is_ready("proxy", story.orders, 0)
    assert not story.lifecycle.is_ready("main", story.orders, 0)


some_orders = st.builds(
    SimulatedBehavior,
    start_latency=st.sampled_from([0.0, 1.0]),
    ready_latency=st.sampled_from([0.0, 2.0]),
    readiness_flips=st.lists(st.sampled_from([1.0, 3.0]), max_size=3).map(tuple),
    exit_after=st.none() | st.sampled_from([0.0, 4.0]),
    exit_code=st.sampled_from([0, 1]),
    crashes=st.none() | st.integers(0, 3),
    restart_delay=st.none() | st.just(1.0),
)


@given(some_orders, st.sampled_from(["Always", "OnFailure", "Never"]), st.lists(st.floats(0.01, 5.0), max_size=8))
def test_looking_more_often_changes_nothing(behavior: SimulatedBehavior, policy: str, extra: list[float]) -> None:
    """Who looks only when told to sees the same as who looks in between as well."""
    rare, often = Story(behavior, pod(policy=policy)), Story(behavior, pod(policy=policy))
    now = 0.0
    pauses = list(extra)
    for _ in range(12):
        rare.to(now)
        often.to(now)
        assert rare.wait == often.wait
        assert (rare.lifecycle.phase, rare.restarts()) == (often.lifecycle.phase, often.restarts())
        assert rare.ready(now) == often.ready(now)
        if rare.wait is None:
            return
        if pauses:
            often.to(now + min(pauses.pop(), rare.wait * 0.9))
        now += rare.wait
