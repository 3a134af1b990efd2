"""The status of a set, and when a group is recreated as a whole."""

from kohort.groups.restart_decision import GroupFacts, PodFacts, judge
from kohort.groups.status import next_conditions, tally
from kohort.objects.json_types import JsonObject
from kohort.rules.group_state import GroupState

STATES = {
    "o+": GroupState(True, False),
    "o-": GroupState(False, False),
    "U+": GroupState(True, True),
    "U-": GroupState(False, True),
}


def conditions(states: str, wanted: int, partition: int = 0) -> tuple[str, ...]:
    groups = {index: STATES[state] for index, state in enumerate(states.split())}
    return tally(wanted, partition, groups).true_conditions


def test_which_conditions_are_true() -> None:
    assert conditions("", 0) == ("Available",)
    assert conditions("U+ U+", 2) == ("Available",)
    assert conditions("U+ U-", 2) == ("Progressing",)
    assert conditions("U+", 2) == ("Progressing",)
    assert conditions("o+ U+", 2) == ("UpdateInProgress", "Progressing")
    assert conditions("o+ o+ U+ U+", 4, partition=2) == ("Available",)
    assert conditions("o- o+ U+ U+", 4, partition=2) == ("Progressing",)
    assert conditions("U+ U+ U-", 2) == ("Available",)


def test_counters_include_surge_groups() -> None:
    groups = {index: STATES[state] for index, state in enumerate(["o+", "U+", "U+"])}
    found = tally(2, 0, groups)
    assert (found.ready, found.updated, found.updated_ready, found.finished) == (3, 2, 2, False)
    assert tally(2, 0, {0: STATES["U+"], 1: STATES["U+"]}).finished


def states(found: list[JsonObject]) -> dict[str, str]:
    return {one["type"]: f"{one['status']} {one['lastTransitionTime']}" for one in found}


def test_conditions_exclude_each_other_and_keep_their_time() -> None:
    first = next_conditions([], ("Progressing",), 1, "t1")
    assert states(first) == {"Progressing": "True t1"}
    available = next_conditions(first, ("Available",), 1, "t2")
    assert states(available) == {"Progressing": "False t2", "Available": "True t2"}
    again = next_conditions(available, ("Available",), 2, "t3")
    assert states(again) == states(available)
    assert {one["observedGeneration"] for one in again} == {2}
    updating = next_conditions(again, ("UpdateInProgress", "Progressing"), 2, "t4")
    assert states(updating) == {"Progressing": "True t4", "Available": "False t4", "UpdateInProgress": "True t4"}
    assert updating[1]["reason"] == "AllGroupsReady"


LEADER = PodFacts("s-0", leader=True, revision="a")
WORKER = PodFacts("s-0-1", revision="a")


def answer(pod: PodFacts, policy: str = "RecreateGroupOnPodRestart", **more: object) -> str:
    facts = {"size": 2, "pods": [LEADER, WORKER], "leader": LEADER, **more}
    return judge(pod, GroupFacts(policy=policy, **facts)).answer  # type: ignore[arg-type]


def test_a_restart_or_deletion_recreates_the_group() -> None:
    assert answer(WORKER) == "nothing"
    assert answer(PodFacts("s-0-1", restarted=True, revision="a")) == "recreate"
    assert answer(PodFacts("s-0-1", phase="Pending", restarted=True, revision="a")) == "recreate"
    assert answer(PodFacts("s-0-1", phase="Failed", restarted=True, revision="a")) == "nothing"
    assert answer(PodFacts("s-0-1", deleting=True, revision="a")) == "recreate"
    assert answer(PodFacts("s-0", leader=True, restarted=True, revision="a")) == "recreate"


def test_policies() -> None:
    failed = PodFacts("s-0-1", deleting=True, revision="a")
    assert answer(failed, "None") == "nothing"
    assert answer(failed, "RecreateGroupAfterStart") == "recreate"
    starting = [LEADER, PodFacts("s-0-1", phase="Pending", revision="a")]
    assert answer(failed, "RecreateGroupAfterStart", pods=starting) == "nothing"
    assert answer(failed, "RecreateGroupAfterStart", pods=[LEADER]) == "nothing"


def test_leftovers_do_not_restart_the_group_that_replaced_them() -> None:
    assert answer(PodFacts("s-0-1", deleting=True, revision="old")) == "nothing"
    assert answer(PodFacts("s-0-1", deleting=True, revision="a"), belongs=False) == "nothing"
    assert answer(PodFacts("s-0-1", deleting=True, revision="a"), leader=None) == "nothing"
    leaving = PodFacts("s-0", leader=True, deleting=True, revision="a")
    assert answer(PodFacts("s-0-1", deleting=True, revision="a"), leader=leaving) == "being recreated"
