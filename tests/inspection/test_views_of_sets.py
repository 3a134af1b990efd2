"""Trees, progress, history, holding."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.builders import lws
from tests.inspection.scenes import (
    KEY,
    OLD,
    group_set,
    leader_set,
    member,
    revision,
    scene,
    waiting,
    without_node,
    workers,
)

from kohort.groups.leaderworkerset import SubGroupPolicy
from kohort.groups.subgroups import subgroup_of
from kohort.inspection import history, progress, roll_pause, tree
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Pod
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image"


def rolling(partition: int = 1) -> Snapshot:
    """Group 1 has the new revision and is ready, group 0 has the old one."""
    pods = (member(0, revision=OLD), member(0, 1, revision=OLD), member(1), member(1, 1))
    sets = [leader_set(2, partition), workers(0, revision=OLD), workers(1)]
    return scene(pods=pods, stateful_sets=sets)


def test_the_tree_of_a_set_at_rest() -> None:
    snapshot = scene(revisions=[revision(lws("llm"), 3)])
    assert tree.drawn(tree.tree_of(snapshot, NOW)) == [
        f"default/llm  Available  2/2 groups ready, 2 up to date, revision 3 ({KEY})",
        "├─ group 0  ready  revision 3",
        "│  ├─ llm-0    leader  1/1  node-0  Running",
        "│  └─ llm-0-1  worker  1/1  node-0  Running",
        "└─ group 1  ready  revision 3",
        "   ├─ llm-1    leader  1/1  node-1  Running",
        "   └─ llm-1-1  worker  1/1  node-1  Running",
    ]


def test_a_revision_that_the_history_does_not_number_is_named_by_its_key() -> None:
    """So it is with a canary set whose claims are kept by other rules than those of the stable set."""
    lines = tree.drawn(tree.tree_of(scene(revisions=[revision(lws("llm"), 3)]), NOW, {}))
    assert lines[0] == f"default/llm  Available  2/2 groups ready, 2 up to date, revision {KEY}"


def test_what_is_missing_broken_old_or_surplus_is_seen_in_the_tree() -> None:
    pods = (member(0, revision=OLD), waiting(member(1), "ErrImagePull"), member(2), member(2, 1))
    lines = tree.drawn(tree.tree_of(scene(pods=pods, stateful_sets=[leader_set(3), workers(2)]), NOW))
    assert lines[1:4] == [
        f"├─ group 0  not ready  revision {OLD} (old)",
        "│  ├─ llm-0  leader  1/1  node-0  Running",
        "│  └─ 1 of 2 pods does not exist yet",
    ]
    assert "Pending: container main is waiting: ErrImagePull" in lines[5]
    assert lines[7] == f"└─ group 2  ready  revision {KEY}  surge"


def test_a_new_group_whose_workers_do_not_exist_yet_is_not_old() -> None:
    """They are made after their leader has a node, if its placement says so; until then it is not up to date either."""
    snapshot = scene(1, pods=(without_node(member(0)),), stateful_sets=[leader_set(1)], revisions=[revision(lws(), 1)])
    headline, group, *_ = tree.drawn(tree.tree_of(snapshot, NOW))
    assert headline.startswith("default/llm  Progressing  0/1 groups ready, 0 up to date, revision 1 ")
    assert group == "└─ group 0  not ready  revision 1"


def test_a_group_that_was_placed_by_other_rules_is_old() -> None:
    snapshot = scene(1, built=lws("llm").replicas(1).size(2).exclusive("example.com/rack"))
    (group,) = tree.tree_of(snapshot, NOW).groups
    assert (group.ready, group.revision_key, group.old) == (True, KEY, True)


@pytest.mark.parametrize(
    ("kind", "there", "expected"),
    [
        ("LeaderWorker", 5, [(0, ["llm-0", "llm-0-1", "llm-0-2"], 0), (1, ["llm-0-3", "llm-0-4"], 0)]),
        ("LeaderWorker", 3, [(0, ["llm-0", "llm-0-1", "llm-0-2"], 0), (1, [], 2)]),
        ("LeaderExcluded", 4, [(0, ["llm-0-1", "llm-0-2"], 0), (1, ["llm-0-3"], 1)]),
        ("LeaderExcluded", 0, [(0, [], 2), (1, [], 2)]),
    ],
)
def test_subgroups_have_the_pods_that_exist_and_those_that_are_missing(
    kind: str, there: int, expected: list[tuple[int, list[str], int]]
) -> None:
    members = []
    for worker in range(there):
        index = subgroup_of(worker, size=5, subgroup_size=2, policy=kind)
        labels = {group_labels.WORKER_INDEX: str(worker)}
        labels |= {group_labels.SUBGROUP_INDEX: str(index)} if index is not None else {}
        name = f"llm-0-{worker}" if worker else "llm-0"
        members.append(Pod(metadata=ObjectMeta(name=name, labels=labels)))
    found = tree.subgroups_of(members, 5, SubGroupPolicy(2, kind))
    assert [(one.index, [*one.pods], one.missing) for one in found] == expected


def test_a_group_that_does_not_exist_is_in_the_tree() -> None:
    found = tree.tree_of(scene(pods=()), NOW)
    assert [(group.index, group.ready, group.missing) for group in found.groups] == [(0, False, 2), (1, False, 2)]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({}, "Pending"),
        ({"observedGeneration": 1}, "Progressing"),
        ({"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}, "Available"),
        (
            {
                "observedGeneration": 1,
                "conditions": [
                    {"type": "Progressing", "status": "True"},
                    {"type": "UpdateInProgress", "status": "True"},
                    {"type": "Available", "status": "False"},
                ],
            },
            "Updating",
        ),
    ],
)
def test_the_word_for_a_set(status: dict[str, object], word: str) -> None:
    import msgspec

    from kohort.groups.leaderworkerset import LeaderWorkerSet

    document = {"metadata": {"name": "llm", "generation": 1}, "spec": {}, "status": status}
    assert tree.state_of_set(msgspec.convert(document, LeaderWorkerSet)) == word


def test_progress_of_a_roll() -> None:
    found = progress.progress_of(rolling())
    assert (found.ready, found.updated, found.updated_ready, found.done) == (2, 1, 1, False)
    assert found.waiting_for == "group 0: not yet at the new revision"
    assert progress.line(found).startswith("default/llm  [############............]  1/2 groups ")


def test_groups_that_wait_for_a_resize_are_not_said_to_be_rolled() -> None:
    found = rolling()
    status = replace(found.group_set.status, resize={"phase": "Resizing"})
    resizing = replace(found, group_set=replace(found.group_set, status=status))
    (cause,) = [one for one in causes(resizing) if one.objects == ("group 0",)]
    assert cause.found == "does not have the new resources yet"
    assert cause.action.text == "wait: groups are resized in place step by step"


def test_a_set_at_rest_is_done() -> None:
    found = progress.progress_of(scene())
    assert (found.done, found.waiting_for) == (True, "")


def test_a_set_without_groups_is_done() -> None:
    assert progress.progress_of(scene(0)).done


def test_a_set_with_a_surge_group_left_is_not() -> None:
    pods = [member(group, worker) for group in range(3) for worker in range(2)]
    found = progress.progress_of(scene(pods=pods, stateful_sets=[leader_set(3), *map(workers, range(3))]))
    assert (found.done, found.surge) == (False, 1)


def test_surge_groups_serve_and_are_counted() -> None:
    """Two groups are ready, one of them of the surge: as the status of the set says it."""
    pods = [waiting(member(0), "ContainerCreating"), member(1), member(1, 1), member(2), member(2, 1)]
    snapshot = scene(pods=pods, stateful_sets=[leader_set(3), workers(0, available=0), workers(1), workers(2)])
    assert snapshot.group_set.status.ready_replicas == 2
    found = tree.tree_of(snapshot, NOW)
    assert tree.headline(found).startswith("default/llm  Progressing  2/2 groups ready, 3 up to date, 1 surge")
    advance = progress.progress_of(snapshot)
    assert (advance.ready, advance.rolled, advance.surge, advance.done) == (2, 1, 1, False)


@pytest.mark.parametrize("condition", ["Progressing", "UpdateInProgress"])
def test_a_set_that_its_operator_does_not_call_available_is_not_done(condition: str) -> None:
    """Its groups look ready, but the operator has not said so yet."""
    snapshot = scene()
    status = replace(snapshot.group_set.status, conditions=({"type": condition, "status": "True"},))
    found = progress.progress_of(replace(snapshot, group_set=replace(snapshot.group_set, status=status)))
    assert (found.done, found.state != "Available") == (False, True)


def test_a_set_that_the_partition_holds_is_done() -> None:
    """The user wanted it so; waiting for it would have no end."""
    pods = (member(0, revision=OLD), member(0, 1, revision=OLD), member(1), member(1, 1))
    sets = [leader_set(2, 1), workers(0, revision=OLD), workers(1)]
    snapshot = scene(built=lws("llm").replicas(2).size(2).partition(1), pods=pods, stateful_sets=sets)
    found = progress.progress_of(snapshot)
    assert (found.done, found.held) == (True, 1)


def test_a_surge_that_the_partition_keeps_is_at_rest() -> None:
    pods = [member(0, revision=OLD), member(0, 1, revision=OLD)]
    pods += [member(group, worker) for group in (1, 2) for worker in range(2)]
    sets = [leader_set(3, 1), workers(0, revision=OLD), workers(1), workers(2)]
    built = lws("llm").replicas(2).size(2).partition(1).max_surge(1)
    found = progress.progress_of(scene(built=built, pods=pods, stateful_sets=sets))
    assert (found.done, found.surge, found.held) == (True, 1, 1)


def test_a_set_that_a_pause_holds_is_not() -> None:
    """A pause is meant to end."""
    pods = (member(0, revision=OLD), member(0, 1, revision=OLD), member(1), member(1, 1))
    sets = [leader_set(2, 1), workers(0, revision=OLD), workers(1)]
    subject = group_set(lws("llm").replicas(2).size(2).partition(1), annotations={roll_pause.NOTE: "0"})
    found = progress.progress_of(scene(group_set=subject, pods=pods, stateful_sets=sets))
    assert (found.done, found.waiting_for) == (False, "group 0: held at the old revision by the pause")
    at_rest = scene(group_set=subject)
    assert progress.progress_of(at_rest).done
    assert tree.headline(tree.tree_of(at_rest, NOW)).endswith(", paused")


# History


def two_revisions() -> Snapshot:
    old, new = lws("llm").replicas(2).size(2), lws("llm").replicas(2).size(2).but(IMAGE, "new:2")
    return scene(built=new, revisions=[revision(new, 2), revision(old, 1, OLD)])


def test_history_tells_who_has_what() -> None:
    first, second = history.entries(two_revisions(), NOW)
    assert (first.revision, first.key, first.current, first.groups) == (1, OLD, False, ())
    assert (second.revision, second.current, second.groups, second.images) == (2, True, (0, 1), ("new:2",))


def test_revisions_are_chosen_by_number_or_from_the_end() -> None:
    snapshot = two_revisions()
    assert history.chosen(snapshot, 1).number == 1
    assert history.chosen(snapshot, -1).number == 1
    assert history.current(snapshot).number == 2


@pytest.mark.parametrize("number", [9, -2])
def test_a_revision_that_is_not_kept(number: int) -> None:
    with pytest.raises(history.NoSuchRevision, match="kept are: 1, 2"):
        history.chosen(two_revisions(), number)


def test_difference_of_revisions() -> None:
    snapshot = two_revisions()
    lines = history.difference(history.chosen(snapshot, 1), history.chosen(snapshot, 2))
    assert lines[:2] == ["--- revision 1", "+++ revision 2"]
    assert [line.strip() for line in lines if line.startswith("+ ")] == ["+      - image: new:2"]


def test_returning_keeps_what_is_no_part_of_a_revision() -> None:
    new = lws("llm").replicas(2).size(2).but(IMAGE, "new:2").but("spec.leaderWorkerTemplate.resizePolicy", "Recreate")
    snapshot = scene(built=new, revisions=[revision(lws("llm").replicas(2).size(2), 1, OLD), revision(new, 2)])
    test, replace = history.return_patch(snapshot, history.chosen(snapshot, 1))
    assert test == {"op": "test", "path": "/metadata/generation", "value": snapshot.metadata.generation}
    assert replace["value"]["resizePolicy"] == "Recreate"
    assert replace["value"]["workerTemplate"]["spec"]["containers"][0]["image"] == "registry.example.com/pause:3"


# Holding


def test_a_pause_at_rest_holds_the_next_roll() -> None:
    patch = roll_pause.pause(scene()).patch
    assert patch is not None
    assert patch["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] == 2
    assert patch["metadata"]["annotations"][roll_pause.NOTE] == "0"


def test_a_pause_holds_a_roll_where_it_is() -> None:
    patch = roll_pause.pause(rolling(1)).patch
    assert patch is not None
    assert patch["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] == 1


def test_a_roll_that_has_begun_everywhere_cannot_be_held() -> None:
    decision = roll_pause.pause(rolling(0))
    assert decision.patch is None
    assert "kohort undo llm" in decision.words


def test_resuming_puts_the_users_partition_back() -> None:
    built = lws("llm").replicas(2).size(2).partition(2)
    patch = roll_pause.resume(scene(group_set=group_set(built, annotations={roll_pause.NOTE: "1"}))).patch
    assert patch is not None
    assert patch["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] == 1
    assert patch["metadata"]["annotations"][roll_pause.NOTE] is None


def test_what_is_not_paused_needs_no_resuming() -> None:
    assert roll_pause.resume(scene()) == roll_pause.PauseDecision(None, "llm is not paused")
    assert roll_pause.pause(scene(group_set=group_set(lws("llm"), annotations={roll_pause.NOTE: "0"}))).patch is None


def test_the_line_of_progress_counts_wanted_groups_and_agrees_with_its_bar() -> None:
    """Surge groups are not among those wanted, and the set's own status may be a moment old."""
    pods = [member(index, worker) for index in range(3) for worker in range(2)]
    surging = scene(pods=pods, stateful_sets=[leader_set(3), *map(workers, range(3))])
    assert f"[{'#' * 24}]  2/2 groups" in progress.line(progress.progress_of(surging))
    status = replace(surging.group_set.status, updated_ready_replicas=0, ready_replicas=0)
    new = replace(surging, group_set=replace(surging.group_set, status=status))
    assert f"[{'#' * 24}]  2/2 groups" in progress.line(progress.progress_of(new))
