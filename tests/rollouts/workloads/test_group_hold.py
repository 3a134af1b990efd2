"""The hold of a LeaderWorkerSet: put on, kept, released, left on, and put back; the user's strategy survives it all."""

import copy
import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.releases import V2, group_set

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, GroupSet, is_held
from kohort.rollouts.workloads import group_hold
from kohort.rules import group_labels, rollout_labels

OWN = (
    rollout_labels.IN_PROGRESSING,
    rollout_labels.STABLE_FINGERPRINT,
    rollout_labels.ORIGINAL_LWS_STRATEGY,
    rollout_labels.CONTROL_INFO,
)


def stable(replicas: int = 4, **rolling: Json) -> JsonObject:
    document = copy.deepcopy(dict(group_set(replicas=replicas)))
    if rolling:
        strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": dict(rolling)}
        document["spec"]["rolloutStrategy"] = strategy
    return document


def updated(document: JsonObject, image: str = V2) -> JsonObject:
    result = copy.deepcopy(document)
    template = result["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["containers"][0]["image"] = image
    return result


def held(document: JsonObject) -> JsonObject:
    return group_hold.hold(updated(document), document, "llm", "rev-1")


def view(document: JsonObject) -> GroupSet:
    return msgspec.convert(document, GroupSet)


def merged(document: JsonObject, patch: JsonObject) -> JsonObject:
    """The document after a merge patch."""
    result = copy.deepcopy(document)

    def merge(target: JsonObject, change: JsonObject) -> None:
        for key, value in change.items():
            if value is None:
                target.pop(key, None)
            elif isinstance(value, dict):
                merge(target.setdefault(key, {}), value)
            else:
                target[key] = value

    merge(result, patch)
    return result


def rolling(document: JsonObject) -> JsonObject:
    found: JsonObject = document["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    return found


def annotations(document: JsonObject) -> JsonObject:
    found: JsonObject = document["metadata"].get("annotations") or {}
    return found


# Putting it on


def test_a_held_set_has_the_new_template_and_a_partition_above_every_group() -> None:
    before = stable(maxUnavailable=2, maxSurge=1)
    after = held(before)
    assert rolling(after) == {"partition": HELD_GROUPS_PARTITION, "maxUnavailable": 2, "maxSurge": 0}
    assert view(after).in_progress
    assert after["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "rev-1"
    assert json.loads(annotations(after)[rollout_labels.IN_PROGRESSING]) == {"rolloutName": "llm"}
    assert json.loads(annotations(after)[rollout_labels.ORIGINAL_LWS_STRATEGY]) == {
        "partition": None,
        "maxUnavailable": 2,
        "maxSurge": 1,
    }


def test_holding_does_not_change_the_documents_it_is_given() -> None:
    before = stable(maxUnavailable=2)
    new = updated(before)
    copies = copy.deepcopy(before), copy.deepcopy(new)
    group_hold.hold(new, before, "llm", "rev-1")
    assert (before, new) == copies


def test_a_set_without_a_strategy_is_held_too() -> None:
    before = stable()
    before["spec"].pop("rolloutStrategy", None)
    after = held(before)
    assert after["spec"]["rolloutStrategy"]["type"] == "RollingUpdate"
    assert is_held(after["spec"])


@pytest.mark.parametrize(
    ("replicas", "wanted", "under_hold"),
    [
        (4, None, 1),
        (4, 0, 1),
        (4, 3, 3),
        (4, "50%", "50%"),
        (4, "10%", 1),
        (20, "10%", "10%"),
        (None, "100%", "100%"),
        (0, "50%", 1),
    ],
)
def test_the_unavailability_under_a_hold_is_one_that_validation_accepts(
    replicas: int | None, wanted: Json, under_hold: Json
) -> None:
    spec = {} if replicas is None else {"replicas": replicas}
    assert group_hold.held_values(spec, {"maxUnavailable": wanted})["maxUnavailable"] == under_hold


def test_the_template_before_the_hold_is_recognised() -> None:
    before = stable()
    after = held(before)
    assert not view(after).is_stable_again
    assert view(updated(after, "model:1")).is_stable_again


# Edits under the hold


@pytest.mark.parametrize(
    ("field", "value"), [("maxUnavailable", 3), ("maxSurge", 2), ("partition", 1), ("maxUnavailable", "50%")]
)
def test_an_edit_of_the_strategy_is_saved_for_later_and_the_hold_stays(field: str, value: Json) -> None:
    before = held(stable(maxUnavailable=1, maxSurge=1))
    edit = copy.deepcopy(before)
    rolling(edit)[field] = value
    after = group_hold.keep_held(edit, before)
    assert is_held(after["spec"])
    assert json.loads(annotations(after)[rollout_labels.ORIGINAL_LWS_STRATEGY])[field] == value


@pytest.mark.parametrize("name", OWN)
def test_an_update_that_drops_an_annotation_of_the_release_keeps_it(name: str) -> None:
    before = held(stable())
    before["metadata"]["annotations"][rollout_labels.CONTROL_INFO] = "{}"
    edit = copy.deepcopy(before)
    del edit["metadata"]["annotations"][name]
    assert annotations(group_hold.keep_held(edit, before))[name] == annotations(before)[name]


def test_a_manifest_that_is_applied_again_under_the_hold_changes_nothing_of_it() -> None:
    manifest = stable(maxUnavailable=2, maxSurge=1)
    before = held(manifest)
    again = copy.deepcopy(before)
    again["spec"]["rolloutStrategy"] = copy.deepcopy(manifest["spec"]["rolloutStrategy"])
    again["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = None
    after = group_hold.keep_held(again, before)
    assert is_held(after["spec"])
    saved = json.loads(annotations(after)[rollout_labels.ORIGINAL_LWS_STRATEGY])
    assert (saved["maxSurge"], saved["partition"]) == (1, None)


def test_a_promotion_keeps_its_notes_through_an_update() -> None:
    before = held(stable())
    edit = copy.deepcopy(before)
    edit["metadata"].pop("annotations")
    after = group_hold.keep_promoting(edit, before)
    assert rollout_labels.ORIGINAL_LWS_STRATEGY in annotations(after)


def promoting(*, replicas: int = 4, at_once: bool = False, **strategy: Json) -> JsonObject:
    before = held(stable(replicas, **strategy))
    return merged(before, group_hold.promote_patch(view(before), "token", at_once=at_once))


def without_surge(away: int = 1, *, replicas: int = 4, **strategy: Json) -> JsonObject:
    """A set whose promotion has given its surge up."""
    before = promoting(replicas=replicas, **strategy)
    patch = group_hold.pace_patch(view(before), "token", away, stopped_at=3)
    assert patch is not None
    return merged(before, patch)


def saved(document: JsonObject) -> JsonObject:
    return group_hold.saved_strategy(view(document).metadata)


@pytest.mark.parametrize("promoted", [promoting, without_surge])
def test_an_edit_of_the_strategy_during_a_promotion_holds_now_and_later(promoted: Callable[..., JsonObject]) -> None:
    before = promoted(maxUnavailable=0, maxSurge=1)
    edit = copy.deepcopy(before)
    rolling(edit).update(maxSurge=0, maxUnavailable=1, partition=2)
    after = group_hold.keep_promoting(edit, before)
    assert rolling(after) == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}, "a partition would stop it"
    assert saved(after) == {"partition": 2, "maxUnavailable": 1, "maxSurge": 0}


def test_a_manifest_that_is_applied_again_during_a_promotion_does_not_bring_its_surge_back() -> None:
    before = without_surge(maxUnavailable=0, maxSurge=1)
    again = copy.deepcopy(before)
    rolling(again).update(maxUnavailable=0, maxSurge=1)
    assert group_hold.keep_promoting(again, before) == before


@pytest.mark.parametrize(
    ("edit", "live", "kept"),
    [
        ({"maxSurge": 2}, (2, 0), (2, 0)),
        ({"maxUnavailable": 2}, (1, 2), (1, 2)),
        ({"maxSurge": 0}, (0, 1), (0, 1)),
        ({"maxSurge": 0, "maxUnavailable": 1}, (0, 1), (0, 1)),
        ({"partition": 3}, ("0%", "25%"), (1, 0)),
    ],
)
def test_an_edit_after_the_surge_was_given_up_is_tried_as_it_is(
    edit: JsonObject, live: tuple[Json, Json], kept: tuple[Json, Json]
) -> None:
    before = without_surge(maxUnavailable=0, maxSurge=1)
    wanted = copy.deepcopy(before)
    rolling(wanted).update(edit)
    after = group_hold.keep_promoting(wanted, before)
    assert (rolling(after)["partition"], rolling(after)["maxSurge"], rolling(after)["maxUnavailable"]) == (0, *live)
    assert (saved(after)["maxSurge"], saved(after)["maxUnavailable"]) == kept


def test_the_stable_template_is_rolled_back_to_without_a_surge_too() -> None:
    first = stable(maxUnavailable=0, maxSurge=1)
    before = without_surge(maxUnavailable=0, maxSurge=1)
    back = copy.deepcopy(before)
    back["spec"]["leaderWorkerTemplate"] = first["spec"]["leaderWorkerTemplate"]
    assert rolling(group_hold.keep_promoting(back, before)) == rolling(before)


@pytest.mark.parametrize(("replicas", "expected"), [(2, "50%"), (8, "13%"), (1, "100%"), (0, "25%")])
def test_scaling_lets_as_many_groups_be_away_as_before(replicas: int, expected: str) -> None:
    before = without_surge(maxUnavailable=0, maxSurge=1)
    scaled = copy.deepcopy(before)
    scaled["spec"]["replicas"] = replicas
    after = rolling(group_hold.keep_promoting(scaled, before))
    assert (after["maxUnavailable"], after["maxSurge"]) == (expected, "0%")


def test_an_edit_at_the_end_of_blue_green_is_kept_for_later() -> None:
    before = promoting(at_once=True, maxUnavailable=0, maxSurge=1)
    edit = copy.deepcopy(before)
    rolling(edit).update(maxSurge=2, maxUnavailable=1)
    after = group_hold.keep_promoting(edit, before)
    assert rolling(after) == {"partition": 0, "maxUnavailable": "100%", "maxSurge": 0}
    assert (saved(after)["maxSurge"], saved(after)["maxUnavailable"]) == (2, 1)


@pytest.mark.parametrize("keep", [group_hold.keep_held, group_hold.keep_promoting])
def test_a_manifest_that_wants_what_the_hold_has_set_is_an_edit(
    keep: Callable[[JsonObject, JsonObject], JsonObject],
) -> None:
    """kubectl sends no field that has the wanted value; only its note of the manifest differs."""
    before = held(stable(maxUnavailable=1, maxSurge=1))
    manifests = [{"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": one}}}} for one in (1, 0)]
    before["metadata"]["annotations"][group_labels.LAST_APPLIED] = json.dumps(manifests[0])
    edit = copy.deepcopy(before)
    edit["metadata"]["annotations"][group_labels.LAST_APPLIED] = json.dumps(manifests[1])
    assert saved(keep(edit, before))["maxSurge"] == 0


def test_an_edit_that_leaves_neither_surge_nor_absence_lets_one_group_be_away() -> None:
    before = held(stable(maxUnavailable=0, maxSurge=1))
    edit = copy.deepcopy(before)
    rolling(edit)["maxSurge"] = "0%"
    after = saved(group_hold.keep_held(edit, before))
    assert (after["maxSurge"], after["maxUnavailable"]) == ("0%", 1)


# Releasing it


@pytest.mark.parametrize(
    ("away", "replicas", "expected"),
    [
        (1, 4, (0, "25%")),
        (1, 3, (0, "34%")),
        (3, 4, (0, "75%")),
        (4, 4, (0, "100%")),
        (1, 1000, (0, 1)),
        (0, 4, (3, "25%")),
    ],
)
def test_a_set_goes_on_without_a_surge(away: int, replicas: int, expected: tuple[Json, Json]) -> None:
    """In percentages, which an edit of the user to the same number differs from."""
    after = without_surge(away, replicas=replicas, maxUnavailable=0, maxSurge=1)
    found = rolling(after)
    assert (found["partition"], found["maxUnavailable"], found["maxSurge"]) == (*expected, "0%")
    assert group_hold.rolls_without_surge(view(after))
    assert group_hold.pace_patch(view(after), "token", away, stopped_at=3) is None


def test_a_set_gets_the_pace_of_its_user_back() -> None:
    before = without_surge(maxSurge=1)
    patch = group_hold.pace_patch(view(before), "token", None, stopped_at=3)
    assert patch is not None
    after = merged(before, patch)
    assert rolling(after) == {"partition": 0, "maxSurge": 1}
    assert not group_hold.rolls_without_surge(view(after))
    assert group_hold.pace_patch(view(after), "token", None, stopped_at=3) is None


def test_without_a_surge_no_more_groups_are_away_at_the_end_than_the_user_allows() -> None:
    strategy: JsonObject = {"maxUnavailable": 0, "maxSurge": 1}
    assert group_hold.unavailable(view(without_surge(**strategy))) == 0
    assert group_hold.unavailable(view(promoting(at_once=True, **strategy))) == 0
    assert group_hold.unavailable(view(promoting(**strategy))) == 1


def test_percentages_that_come_to_no_group_let_one_be_away_at_the_end_of_blue_green() -> None:
    """Scaling does not pass admission: 10% of the groups that are left is none of them."""
    assert group_hold.unavailable(view(promoting(at_once=True, maxUnavailable="10%", maxSurge="0%"))) == 1


def test_a_canary_is_promoted_at_the_pace_of_the_user() -> None:
    before = held(stable(maxUnavailable=2, maxSurge=1, partition=3))
    after = merged(before, group_hold.promote_patch(view(before), "token", at_once=False))
    assert rolling(after) == {"partition": 0, "maxUnavailable": 2, "maxSurge": 1}
    assert (view(after).in_progress, view(after).promoting) == (False, True)
    assert rollout_labels.STABLE_REVISION not in after["metadata"]["labels"]


def test_blue_green_is_promoted_at_once() -> None:
    before = held(stable(maxUnavailable=1))
    after = merged(before, group_hold.promote_patch(view(before), "token", at_once=True))
    assert rolling(after) == {"partition": 0, "maxUnavailable": "100%", "maxSurge": 0}


def test_a_released_set_is_as_the_user_wrote_it() -> None:
    before = stable(maxUnavailable=2, maxSurge=1)
    after = merged(held(before), group_hold.release_hold_patch(view(held(before)), "token"))
    assert rolling(after) == {"maxUnavailable": 2, "maxSurge": 1}
    assert not any(name in annotations(after) for name in OWN)
    assert annotations(after)[rollout_labels.HOLD_RELEASE] == "token"


def test_a_set_that_is_left_held_keeps_the_hold_and_the_saved_strategy_only() -> None:
    before = held(stable(maxUnavailable=2))
    after = merged(before, group_hold.leave_held_patch(view(before), "token"))
    found = view(after)
    assert (found.left_held, found.in_progress, found.promoting) == (True, False, False)
    assert rollout_labels.STABLE_FINGERPRINT not in annotations(after)


def test_a_set_that_was_left_held_can_be_released_by_another_rollout() -> None:
    left = merged(held(stable()), group_hold.leave_held_patch(view(held(stable())), "token"))
    after = merged(left, group_hold.adopt_held_patch("other", "rev-1"))
    assert view(after).in_progress
    assert json.loads(annotations(after)[rollout_labels.IN_PROGRESSING]) == {"rolloutName": "other"}
    assert after["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "rev-1"


def test_a_user_who_removes_a_hold_that_was_left_loses_what_was_saved_for_it() -> None:
    left = merged(held(stable()), group_hold.leave_held_patch(view(held(stable())), "token"))
    assert group_hold.without_stale_strategy(left) == left
    freed = copy.deepcopy(left)
    rolling(freed)["partition"] = 0
    assert rollout_labels.ORIGINAL_LWS_STRATEGY not in annotations(group_hold.without_stale_strategy(freed))


def test_a_hold_that_was_lost_is_put_back_with_what_the_user_wrote() -> None:
    before = held(stable(maxUnavailable=1, maxSurge=1))
    lost = copy.deepcopy(before)
    lost["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] = {"partition": 0, "maxUnavailable": 3}
    after = merged(lost, group_hold.hold_again_patch(view(lost)))
    assert is_held(after["spec"])
    saved = json.loads(annotations(after)[rollout_labels.ORIGINAL_LWS_STRATEGY])
    assert (saved["maxUnavailable"], saved["maxSurge"]) == (3, 1)


# What was saved


@pytest.mark.parametrize("text", ["", "{", "[]x", "nonsense"])
def test_a_saved_strategy_that_cannot_be_read_counts_as_none(text: str) -> None:
    document = held(stable())
    document["metadata"]["annotations"][rollout_labels.ORIGINAL_LWS_STRATEGY] = text
    assert set(group_hold.saved_strategy(view(document).metadata).values()) == {None}


@pytest.mark.parametrize(
    ("saved", "replicas", "expected"), [(None, 4, 1), (0, 4, 1), (2, 4, 2), ("50%", 4, 2), ("10%", 4, 1)]
)
def test_how_many_groups_may_be_away_at_the_end_of_a_promotion(saved: Json, replicas: int, expected: int) -> None:
    before = stable(replicas=replicas, **({} if saved is None else {"maxUnavailable": saved}))
    assert group_hold.unavailable(view(held(before))) == expected


@given(
    unavailable=st.one_of(st.none(), st.integers(1, 5), st.sampled_from(["10%", "50%", "100%"])),
    surge=st.one_of(st.none(), st.integers(0, 5), st.sampled_from(["10%", "50%"])),
    partition=st.one_of(st.none(), st.integers(0, 8)),
    replicas=st.integers(0, 8),
)
def test_hold_and_release_give_every_strategy_back(
    unavailable: Json, surge: Json, partition: Json, replicas: int
) -> None:
    given_ = {"maxUnavailable": unavailable, "maxSurge": surge, "partition": partition}
    wanted = {name: value for name, value in given_.items() if value is not None}
    before = stable(replicas=replicas, **wanted)
    under = held(before)
    assert is_held(under["spec"])
    after = merged(under, group_hold.release_hold_patch(view(under), "token"))
    assert rolling(after) == wanted
