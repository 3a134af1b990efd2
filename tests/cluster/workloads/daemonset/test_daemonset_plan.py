"""Which pods a DaemonSet creates and deletes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.daemonset.failure_backoff import FailureBackoff
from kohort.cluster.workloads.daemonset.plan import (
    Cause,
    Counts,
    Create,
    DaemonPod,
    Delete,
    Fit,
    Strategy,
    View,
    count,
    plan,
)

FITS = Fit(True, True)
KEEPS = Fit(False, True)
REFUSES = Fit(False, False)
ROLLING = Strategy()
SURGING = Strategy(max_unavailable=0, max_surge=1)


def view(nodes: dict[str, Fit], strategy: Strategy = ROLLING, **pods: list[DaemonPod]) -> View:
    return View(nodes, pods, strategy)


def test_every_node_that_fits_gets_one() -> None:
    assert plan(view({"a": FITS, "b": KEEPS, "c": REFUSES})) == [Create("a")]


def test_pods_leave_nodes_that_do_not_fit_and_stay_where_only_new_ones_are_refused() -> None:
    found = view({"a": KEEPS, "b": REFUSES}, a=[DaemonPod("x")], b=[DaemonPod("y")])
    assert plan(found) == [Delete("y", "b", Cause.UNWANTED)]


def test_a_new_pod_waits_for_the_end_of_the_old_one_unless_it_surges() -> None:
    leaving = [DaemonPod("x", terminating=True)]
    assert plan(view({"a": FITS}, a=leaving)) == []
    assert plan(view({"a": FITS}, SURGING, a=leaving)) == [Create("a")]


def test_finished_pods_are_deleted_failed_ones_not_before_the_delay_is_over() -> None:
    pods = {"a": [DaemonPod("x", phase="Failed", ready=False)], "b": [DaemonPod("y", phase="Succeeded")]}
    both = View({"a": FITS, "b": FITS}, pods)
    assert plan(both) == [Delete("x", "a", Cause.FAILED), Delete("y", "b", Cause.SUCCEEDED)]
    assert plan(msgspec.structs.replace(both, delayed=frozenset("a"))) == [Delete("y", "b", Cause.SUCCEEDED)]


def test_the_oldest_of_several_pods_stays() -> None:
    pods = [
        DaemonPod("young", created="2"),
        DaemonPod("unbound", created="0", bound=False),
        DaemonPod("old", created="1"),
    ]
    deleted = plan(view({"a": FITS}, a=pods))
    assert [each.pod for each in deleted if isinstance(each, Delete)] == ["young", "unbound"]


def test_pods_meant_for_a_node_that_is_gone_are_deleted() -> None:
    found = view({}, gone=[DaemonPod("waits", bound=False), DaemonPod("ran")])
    assert plan(found) == [Delete("waits", "gone", Cause.NODE_GONE)]


def test_outdated_pods_are_replaced_within_the_allowance() -> None:
    nodes = dict.fromkeys("abcd", FITS)
    pods = {name: [DaemonPod(f"{name}0", updated=False)] for name in "abcd"}
    assert [each.node for each in plan(View(nodes, pods, Strategy(max_unavailable=2))) if isinstance(each, Delete)] == [
        "a",
        "b",
    ]
    assert len(plan(View(nodes, pods, Strategy(max_unavailable="30%")))) == 2, "percentages round up"
    pods["a"] = [DaemonPod("a1", available=False)]
    assert plan(View(nodes, pods, Strategy(max_unavailable=1))) == []
    assert plan(View(nodes, pods, Strategy(rolling=False))) == []


def test_outdated_pods_that_do_not_work_are_replaced_at_once() -> None:
    nodes = dict.fromkeys("abc", FITS)
    pods = {name: [DaemonPod(f"{name}0", updated=False, ready=False, available=False)] for name in "abc"}
    assert len(plan(View(nodes, pods))) == 3


def test_with_surge_the_old_pod_goes_when_the_new_one_is_available() -> None:
    old, new = DaemonPod("old", updated=False, created="1"), DaemonPod("new", created="2")
    assert plan(view({"a": FITS}, SURGING, a=[old])) == [Create("a")]
    starting = msgspec.structs.replace(new, ready=False, available=False)
    assert plan(view({"a": FITS}, SURGING, a=[old, starting])) == []
    assert plan(view({"a": FITS}, SURGING, a=[old, new])) == [Delete("old", "a", Cause.OUTDATED)]


def test_unavailable_outdated_pods_are_replaced_on_top_of_max_unavailable() -> None:
    nodes = dict.fromkeys("abcd", FITS)
    pods = {name: [DaemonPod(f"{name}0", updated=False, ready=name in "cd", available=name in "cd")] for name in "abcd"}

    def replaced(max_unavailable: int) -> list[str]:
        return [one.node for one in plan(View(nodes, pods, Strategy(max_unavailable=max_unavailable)))]

    assert replaced(1) == ["a", "b"], "both, though only one node may be unavailable"
    assert replaced(2) == ["a", "b"], "they use up the allowance of the available ones"
    assert replaced(3) == ["a", "b", "c"]


def test_with_surge_no_pod_is_created_where_none_should_run() -> None:
    old, broken = DaemonPod("old", updated=False), DaemonPod("old", updated=False, ready=False, available=False)
    new = DaemonPod("new")
    delete = Delete("old", "kept", Cause.OUTDATED)
    assert plan(view({"kept": KEEPS}, SURGING, kept=[broken])) == [delete]
    assert plan(view({"a": FITS, "kept": KEEPS}, SURGING, a=[new], kept=[old])) == [delete]
    starting = DaemonPod("new", ready=False, available=False)
    assert plan(view({"a": FITS, "kept": KEEPS}, SURGING, a=[starting], kept=[old])) == [], "the only available pod"


def test_the_status_counts_nodes_by_their_oldest_pod() -> None:
    found = view(
        {"a": FITS, "b": FITS, "c": FITS, "d": KEEPS},
        a=[DaemonPod("a0", created="1", updated=False), DaemonPod("a1", created="2", available=False)],
        b=[DaemonPod("b0", ready=False, available=False)],
        d=[DaemonPod("d0")],
    )
    counts = count(found)
    assert counts == Counts(desired=3, current=2, misscheduled=1, ready=1, updated=1, available=1)
    assert counts.unavailable == 2


def test_delays_after_failures_double_and_are_forgotten() -> None:
    delays = FailureBackoff()
    seen = []
    for _ in range(12):
        delays.deleted("u", "n", 1, 0.0)
        seen.append(delays.remaining("u", "n", 1, 0.0))
    assert seen[:4] == [1.0, 2.0, 4.0, 8.0] and seen[-1] == 900.0
    assert delays.remaining("u", "n", 2, 0.0) == 0.0, "another generation begins anew"
    delays.deleted("u", "n", 1, 4000.0)
    assert delays.remaining("u", "n", 1, 4000.0) == 1.0
    delays.forget("u")
    assert delays.remaining("u", "n", 1, 4000.0) == 0.0


class Model:
    """Nodes on which deleted pods end and created ones become available, one step after the other."""

    def __init__(self, fits: list[Fit], strategy: Strategy, outdated: list[bool]) -> None:
        self.nodes = {f"n{number}": fit for number, fit in enumerate(fits)}
        self.strategy = strategy
        self.made = 0
        self.pods = {
            name: [DaemonPod(f"old-{name}", updated=not old, created="0")]
            for name, old in zip(self.nodes, outdated, strict=True)
            if self.nodes[name].may_keep
        }

    def view(self) -> View:
        return View(self.nodes, {node: pods for node, pods in self.pods.items() if pods}, self.strategy)

    def step(self) -> bool:
        actions = plan(self.view())
        changed = bool(actions)
        for action in actions:
            if isinstance(action, Create):
                self.made += 1
                pod = DaemonPod(f"new-{self.made}", ready=False, available=False, created=str(self.made))
                self.pods.setdefault(action.node, []).append(pod)
            else:
                self.pods[action.node] = [
                    msgspec.structs.replace(pod, terminating=True, ready=False, available=False)
                    if pod.name == action.pod
                    else pod
                    for pod in self.pods[action.node]
                ]
        return changed

    def pass_time(self) -> bool:
        before = {node: list(pods) for node, pods in self.pods.items()}
        for node, pods in self.pods.items():
            self.pods[node] = [
                msgspec.structs.replace(pod, ready=True, available=True) for pod in pods if not pod.terminating
            ]
        return before != self.pods


@given(
    st.lists(st.tuples(st.sampled_from([FITS, KEEPS, REFUSES]), st.booleans()), min_size=1, max_size=8),
    st.one_of(
        st.integers(1, 4).map(lambda number: Strategy(max_unavailable=number)),
        st.integers(1, 4).map(lambda number: Strategy(max_unavailable=0, max_surge=number)),
        st.sampled_from(["10%", "50%", "100%"]).map(lambda share: Strategy(max_unavailable=share)),
    ),
)
def test_an_update_ends_and_stays_within_its_allowance(nodes: list[tuple[Fit, bool]], strategy: Strategy) -> None:
    model = Model([fit for fit, _ in nodes], strategy, [old for _, old in nodes])
    wanted = [name for name, fit in model.nodes.items() if fit.should_run]
    unavailable, surge = strategy.allowed(len(wanted))
    for _ in range(100):
        acted = model.step()
        available = [name for name in wanted if any(pod.available for pod in model.pods.get(name, ()))]
        # A pod that nodes keep without wanting it is replaced with the others, and counts for nobody.
        assert len(wanted) - len(available) <= (0 if surge else unavailable)
        crowded = [name for name in wanted if sum(not pod.terminating for pod in model.pods.get(name, ())) > 1]
        assert len(crowded) <= surge
        if not model.pass_time() and not acted:
            break
    else:
        raise AssertionError("the update does not end")
    for name in wanted:
        (pod,) = model.pods[name]
        assert pod.updated
