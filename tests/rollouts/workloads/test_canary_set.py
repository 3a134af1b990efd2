"""The extra set of a release: its name, what it copies of the stable set, and when it carries the same version."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.releases import V2, V3, group_set

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.rollout_types import BatchRelease, PatchMetadata, ReleasePlan, ReleaseSpec
from kohort.rollouts.workloads import canary_set, group_hold
from kohort.rules import rollout_labels


def stable(image: str = V2, **metadata: Json) -> GroupSet:
    document: JsonObject = copy.deepcopy(dict(group_set(image)))
    document["metadata"] |= metadata
    return msgspec.convert(document, GroupSet)


def release(patch: PatchMetadata | None = None, uid: str = "release-uid") -> BatchRelease:
    plan = ReleasePlan(patch_pod_template_metadata=patch)
    return BatchRelease(ObjectMeta(name="llm", namespace="default", uid=uid), ReleaseSpec(release_plan=plan))


def made(subject: GroupSet, patch: PatchMetadata | None = None) -> JsonObject:
    return canary_set.canary_set(subject, release(patch), "{}")


def test_a_canary_starts_without_groups_and_belongs_to_its_release() -> None:
    found = made(stable())
    assert found["spec"]["replicas"] == 0
    assert found["metadata"]["labels"][rollout_labels.CANARY_SET] == "llm"
    assert found["metadata"]["finalizers"] == [rollout_labels.CANARY_FINALIZER]
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("BatchRelease", "release-uid", True)


def test_a_canary_rolls_by_the_strategy_of_the_user_not_by_the_hold() -> None:
    document: JsonObject = copy.deepcopy(dict(group_set()))
    document["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxUnavailable": 2, "partition": 3}}
    held = group_hold.hold(document, document, "llm", "rev-1")
    found = made(msgspec.convert(held, GroupSet))
    assert found["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] == {"maxUnavailable": 2, "partition": 0}


@pytest.mark.parametrize(
    ("part", "name", "copied"),
    [
        ("labels", "kueue.x-k8s.io/queue-name", True),
        ("labels", "leaderworkerset.sigs.k8s.io/anything", True),
        ("labels", "team", False),
        ("annotations", "kueue.x-k8s.io/priority", True),
        ("annotations", "leaderworkerset.sigs.k8s.io/exclusive-topology", True),
        ("annotations", "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology", True),
        ("annotations", "kubectl.kubernetes.io/last-applied-configuration", False),
        ("annotations", rollout_labels.IN_PROGRESSING, False),
    ],
)
def test_what_is_copied_of_the_metadata(part: str, name: str, copied: bool) -> None:
    metadata: JsonObject = {part: {name: "x"}}
    found = made(stable(**metadata))
    assert (name in found["metadata"][part]) is copied


@pytest.mark.parametrize("field", ["networkConfig", "startupPolicy"])
def test_fields_that_pods_depend_on_are_copied(field: str) -> None:
    subject = stable()
    with_field = msgspec.structs.replace(subject, spec={**subject.spec, field: {"x": 1}})
    assert made(with_field)["spec"][field] == {"x": 1}


def test_claims_of_a_canary_go_with_it() -> None:
    subject = stable()
    template = {**subject.spec["leaderWorkerTemplate"], "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    found = canary_set.canary_template({"leaderWorkerTemplate": template}, None)
    assert found["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete"}


def test_metadata_of_a_canary_is_for_leaders_only() -> None:
    patch = PatchMetadata({"track": "canary"}, {"note": "x"})
    template = canary_set.canary_template(stable().spec, patch)
    leader = template["leaderTemplate"]["metadata"]
    assert (leader["labels"]["track"], leader["annotations"]["note"]) == ("canary", "x")
    assert "track" not in (template["workerTemplate"].get("metadata") or {}).get("labels", {})


def test_a_template_of_leaders_that_exists_is_extended() -> None:
    spec = copy.deepcopy(stable().spec)
    worker = spec["leaderWorkerTemplate"]["workerTemplate"]
    spec["leaderWorkerTemplate"]["leaderTemplate"] = {**worker, "metadata": {"labels": {"role": "leader"}}}
    template = canary_set.canary_template(spec, PatchMetadata({"track": "canary"}))
    assert template["leaderTemplate"]["metadata"]["labels"] == {"role": "leader", "track": "canary"}


@pytest.mark.parametrize("patch", [None, PatchMetadata()])
def test_without_metadata_to_add_no_template_of_leaders_is_made(patch: PatchMetadata | None) -> None:
    assert "leaderTemplate" not in canary_set.canary_template(stable().spec, patch)


@pytest.mark.parametrize("patch", [None, PatchMetadata({"track": "canary"})])
def test_a_canary_carries_the_version_it_was_made_from(patch: PatchMetadata | None) -> None:
    subject = stable()
    found = msgspec.convert(made(subject, patch), GroupSet)
    assert canary_set.same_version(found, subject, patch)
    assert not canary_set.same_version(found, stable(V3), patch)


def test_a_policy_for_claims_does_not_make_another_version() -> None:
    subject = stable()
    template = {**subject.spec["leaderWorkerTemplate"], "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    claiming = msgspec.structs.replace(subject, spec={**subject.spec, "leaderWorkerTemplate": template})
    assert canary_set.same_version(msgspec.convert(made(claiming), GroupSet), claiming, None)


def test_the_same_release_makes_the_same_name_again() -> None:
    assert made(stable())["metadata"]["name"] == made(stable())["metadata"]["name"]
    assert made(stable())["metadata"]["name"] != made(stable(V3))["metadata"]["name"]


@given(st.text("abcdefghij-", min_size=1, max_size=63), st.integers(0, 7))
def test_a_name_is_short_and_differs_by_its_salt(name: str, salt: int) -> None:
    found = canary_set.canary_name(name, "uid", "template", salt)
    assert len(found) <= 47
    assert found != canary_set.canary_name(name, "uid", "template", salt + 1)
