"""The status of a set, and when a group is recreated as a whole."""

from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupBeingRecreated,
    GroupFacts,
    KeepGroup,
    KeepReason,
    PodFacts,
    RecreateGroup,
    RestartCause,
    RestartDecision,
    decide_restart,
)
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


LEADER = PodFacts(leader=True, revision="a")
WORKER = PodFacts(revision="a")
RESTARTED = PodFacts(restarted=True, revision="a")
DELETED = PodFacts(deleting=True, revision="a")


def decide(pod: PodFacts, policy: str = "RecreateGroupOnPodRestart", **more: object) -> RestartDecision:
    facts = {"size": 2, "pods": [LEADER, WORKER], "leader": LEADER, **more}
    return decide_restart(pod, GroupFacts(policy=policy, **facts))  # type: ignore[arg-type]


def test_a_restart_or_deletion_recreates_the_group() -> None:
    restarted, deleted = RecreateGroup(RestartCause.POD_RESTARTED), RecreateGroup(RestartCause.POD_DELETED)
    assert decide(WORKER) == KeepGroup(KeepReason.POD_HEALTHY)
    assert decide(RESTARTED) == restarted
    assert decide(PodFacts(phase="Pending", restarted=True, revision="a")) == restarted
    assert decide(PodFacts(phase="Failed", restarted=True, revision="a")) == KeepGroup(KeepReason.POD_HEALTHY)
    assert decide(DELETED) == deleted
    assert decide(PodFacts(leader=True, restarted=True, revision="a")) == restarted


def test_the_policy_says_whether_a_group_is_recreated() -> None:
    deleted = RecreateGroup(RestartCause.POD_DELETED)
    assert decide(DELETED, "None") == KeepGroup(KeepReason.POLICY_CONCERNS_POD_ALONE)
    assert decide(DELETED, "RecreateGroupAfterStart") == deleted
    starting = [LEADER, PodFacts(phase="Pending", revision="a")]
    assert decide(DELETED, "RecreateGroupAfterStart", pods=starting) == KeepGroup(KeepReason.GROUP_STARTING)
    assert decide(DELETED, "RecreateGroupAfterStart", pods=[LEADER]) == KeepGroup(KeepReason.GROUP_STARTING)


def test_pods_of_an_earlier_group_do_not_restart_the_group_that_replaced_it() -> None:
    older = PodFacts(deleting=True, revision="old")
    assert decide(older) == KeepGroup(KeepReason.POD_OF_OLDER_REVISION)
    assert decide(DELETED, owned=False) == KeepGroup(KeepReason.POD_OF_PREVIOUS_LEADER)
    assert decide(DELETED, leader=None) == KeepGroup(KeepReason.LEADER_GONE)
    assert decide(DELETED, leader=PodFacts(leader=True, deleting=True, revision="a")) == GroupBeingRecreated()


def test_a_failure_soon_after_a_recreation_waits_and_a_deletion_does_not() -> None:
    assert decide(RESTARTED, delay=20.0, recreations=2) == DelayRecreation(20.0, 2)
    assert decide(DELETED, delay=20.0, recreations=2) == RecreateGroup(RestartCause.POD_DELETED)
    assert decide(WORKER, delay=20.0, recreations=2) == KeepGroup(KeepReason.POD_HEALTHY)
