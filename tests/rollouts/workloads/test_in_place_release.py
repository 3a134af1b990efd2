"""Releases in place: which partition a held set has, which edits of it are refused, and how its groups are counted."""

import copy

import msgspec
import pytest
from tests.rollouts.test_in_place_releases import resizable, with_resources
from tests.rollouts.workloads.test_group_hold import merged, view

from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, is_held, is_released_in_place
from kohort.rollouts.workloads import group_hold, in_place_release
from kohort.rollouts.workloads.update_admission import AdmissionContext, admit_group_set
from kohort.rules import group_labels, rollout_labels

FREE = AdmissionContext(None)


def edited(document: JsonObject, cpu: str, image: str = "", **spec: Json) -> JsonObject:
    result = with_resources(copy.deepcopy(document), cpu)
    if image:
        result["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = image
    result["spec"] |= spec
    return result


def held(cpu: str = "200m", policy: str = "InPlaceOnly") -> JsonObject:
    document = resizable(policy)
    return group_hold.hold(edited(document, cpu), document, "llm", "rev-1")


def at_step(partition: int = 3) -> JsonObject:
    document = held()
    stepped = merged(document, in_place_release.move_partition(view(document), partition, "token"))
    stepped["metadata"]["annotations"].pop(rollout_labels.HOLD_RELEASE)
    return stepped


def partition_of(document: JsonObject) -> int:
    partition: int = document["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"]
    return partition


@pytest.mark.parametrize(
    ("document", "in_place"),
    [
        (held(), True),
        (held(policy="Recreate"), False),
        (edited(held(), "200m", "model:2"), False),
        (resizable(), False),
    ],
    ids=["resources", "policy", "image", "no release"],
)
def test_which_releases_are_in_place(document: JsonObject, in_place: bool) -> None:
    assert view(document).resizes_in_place is in_place


def test_a_record_that_cannot_be_read_means_a_canary_set() -> None:
    assert not is_released_in_place(held()["spec"], {rollout_labels.STABLE_RESOURCES: "{"})


def test_a_step_moves_the_partition_and_nothing_else() -> None:
    document = at_step(3)
    assert partition_of(document) == 3
    assert is_held(document["spec"], 3)
    assert view(document).step_partition == 3


@pytest.mark.parametrize(
    ("new", "partition"),
    [
        (edited(at_step(), "200m"), 3),
        (edited(at_step(), "100m"), 3),
        (edited(at_step(), "300m"), HELD_GROUPS_PARTITION),
        (edited(at_step(), "200m", replicas=6), HELD_GROUPS_PARTITION),
    ],
    ids=["no change", "rolled back", "a third size", "scaled"],
)
def test_the_partition_after_an_edit_of_a_held_set(new: JsonObject, partition: int) -> None:
    after = group_hold.keep_held(new, at_step())
    assert partition_of(after) == partition
    assert view(after).step_partition == partition


def test_what_the_user_writes_of_the_strategy_is_kept_for_later() -> None:
    new = at_step()
    new["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] = {"partition": 0, "maxUnavailable": 2, "maxSurge": 1}
    after = group_hold.keep_held(new, at_step())
    assert partition_of(after) == 3
    assert group_hold.saved_strategy(view(after).metadata) == {"partition": 0, "maxUnavailable": 2, "maxSurge": 1}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (at_step(), edited(at_step(), "300m"), False),
        (at_step(), edited(at_step(), "100m"), False),
        (at_step(), edited(at_step(), "200m", "model:2"), True),
        (at_step(), edited(at_step(), "200m", rolloutStrategy={"type": "RollingUpdate"}), True),
        (at_step(), edited(at_step(), "100m", rolloutStrategy={"type": "RollingUpdate"}), False),
        (held(), edited(held(), "200m", "model:2"), False),
    ],
    ids=["a third size", "back", "image", "policy", "back without the policy", "image before the first step"],
)
def test_which_edits_are_refused(old: JsonObject, new: JsonObject, refused: bool) -> None:
    assert bool(admit_group_set(new, old, FREE).refusal) is refused


def test_the_end_leaves_nothing_behind() -> None:
    document = at_step()
    withdrawn = merged(document, in_place_release.withdraw(view(document), "rev-1", "token"))
    after = merged(withdrawn, group_hold.release_hold_patch(view(withdrawn), "token"))
    after["metadata"]["annotations"].pop(rollout_labels.HOLD_RELEASE)
    assert not after["metadata"]["annotations"]


def test_a_set_that_is_left_held_is_held_as_a_whole() -> None:
    document = at_step()
    after = view(merged(document, group_hold.leave_held_patch(view(document), "token")))
    assert after.left_held
    assert after.step_partition == HELD_GROUPS_PARTITION


def pods(index: int, revision: str, *, ready: bool = True) -> list[Pod]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]

    def member(worker: int) -> Pod:
        labels = {
            group_labels.NAME: "llm",
            group_labels.GROUP_INDEX: str(index),
            group_labels.WORKER_INDEX: str(worker),
            group_labels.REVISION: revision,
        }
        status = {"phase": "Running", "conditions": conditions}
        name = f"llm-{index}" + (f"-{worker}" if worker else "")
        metadata = {"name": name, "uid": f"uid of {name}", "labels": labels}
        return msgspec.convert({"metadata": metadata, "status": status}, Pod)

    return [member(0), member(1)]


GROUPS = [*pods(0, "old"), *pods(1, "old"), *pods(2, "new", ready=False), *pods(3, "new")]


def test_groups_are_counted_by_the_revision_of_their_leader() -> None:
    assert in_place_release.resized_groups(GROUPS, view(resizable()), "new") == in_place_release.ResizedGroups(2, 1)
    assert in_place_release.groups_of_other_revisions(GROUPS, "old") == 2


def test_pods_that_only_carry_the_labels_of_a_group_are_not_counted() -> None:
    stray = [msgspec.structs.replace(one, metadata=renamed(one)) for one in pods(9, "new")]
    assert in_place_release.resized_groups([*GROUPS, *stray], view(resizable()), "new").updated == 2


def renamed(pod: Pod) -> ObjectMeta:
    return msgspec.structs.replace(pod.metadata, name=f"other-{pod.metadata.name}")


@pytest.mark.parametrize(
    ("restarts", "budget", "ready", "text"),
    [
        ({}, True, 1, "1/2 groups resized in place"),
        (
            {"exhausted": {"leader": "uid of llm-3", "at": "2026-01-01T00:00:00Z"}},
            True,
            0,
            "0/2 groups resized in place: group 3 is held, after it used up its budget of restarts",
        ),
        (
            {"due": {"leader": "uid of llm-3", "at": "2026-01-01T00:00:00Z"}},
            True,
            0,
            "0/2 groups resized in place: group 3 has failed, and waits to be restarted",
        ),
        (
            {"exhausted": {"leader": "uid of the leader before", "at": "2026-01-01T00:00:00Z"}},
            True,
            1,
            "1/2 groups resized in place",
        ),
        (
            {"exhausted": {"leader": "uid of llm-3", "at": "2026-01-01T00:00:00Z"}},
            False,
            1,
            "1/2 groups resized in place",
        ),
    ],
    ids=["none failed", "held", "waiting to be recreated", "held before it was recreated", "the budget was removed"],
)
def test_a_group_that_has_failed_is_not_ready(restarts: JsonObject, budget: bool, ready: int, text: str) -> None:
    document = resizable()
    document["status"] = {"restarts": {"3": {"revision": "new", **restarts}} if restarts else {}}
    if budget:
        document["spec"]["leaderWorkerTemplate"]["restartBudget"] = {"maxRestarts": 1}
    found = in_place_release.resized_groups(GROUPS, view(document), "new")
    assert (found.updated, found.ready) == (2, ready)
    assert in_place_release.progress_text(found, 2, view(document)) == text


def test_leaders_of_resized_groups_are_told_from_the_others() -> None:
    found = in_place_release.leaders_by_version(GROUPS, "old")
    assert [one.metadata.name for one in found.new] == ["llm-2", "llm-3"]
    assert [one.metadata.name for one in found.stable] == ["llm-0", "llm-1"]
