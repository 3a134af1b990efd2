"""How many pods to make, and which to delete first."""

from datetime import UTC, datetime, timedelta

from kohort.cluster.workloads.replicaset.plan import Replica, count, plan, rank

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def names(*pods: Replica) -> list[str]:
    return [pod.name for pod in rank(pods, now=NOW)]


def test_missing_pods_are_made_and_surplus_ones_removed() -> None:
    assert plan(3, [Replica("a")]).create == 2
    assert plan(1, [Replica("a", node="n"), Replica("b")]).delete == ("b",)
    assert plan(1, [Replica("a"), Replica("b", terminating=True)]).delete == ()


def test_each_rule_of_the_ranking() -> None:
    assert names(Replica("placed", node="n"), Replica("homeless")) == ["homeless", "placed"]
    assert names(Replica("r", node="n"), Replica("p", node="n", phase="Pending")) == ["p", "r"]
    assert names(Replica("r", node="n"), Replica("u", node="n", ready=False)) == ["u", "r"]
    assert names(Replica("dear", node="n", cost=5), Replica("cheap", node="n", cost=-5)) == ["cheap", "dear"]
    crowded = [Replica("alone", node="m"), Replica("x", node="n"), Replica("y", node="n")]
    assert rank(crowded, ["m", "n", "n"], NOW)[-1].name == "alone"
    assert names(*crowded)[0] == "alone", "without an owner in common nothing is crowded"
    old, young = NOW - timedelta(hours=5), NOW - timedelta(minutes=1)
    assert names(Replica("old", node="n", ready_since=old), Replica("young", node="n", ready_since=young)) == [
        "young",
        "old",
    ]
    second, third = (Replica(f"{age}s", node="n", ready_since=NOW - timedelta(seconds=age)) for age in (2, 3))
    assert names(third, second) == ["2s", "3s"]
    assert names(Replica("calm", node="n"), Replica("shaky", node="n", restarts=3)) == ["shaky", "calm"]


def test_finished_and_leaving_pods_do_not_count() -> None:
    counts = count(
        [
            Replica("a"),
            Replica("b", finished=True),
            Replica("c", terminating=True),
            Replica("d", ready=False, available=False),
        ]
    )
    assert (counts.replicas, counts.ready, counts.available, counts.terminating) == (2, 1, 1, 1)
