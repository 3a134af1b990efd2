"""The hold of a Deployment: paused for a canary, never available for blue-green; the user's settings come back."""

import copy
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.rollout_types import BatchRelease, PatchMetadata, ReleasePlan, ReleaseSpec
from kohort.rollouts.workloads import deployment_hold
from kohort.rules import rollout_labels


def template(image: str = "web:1", **labels: str) -> JsonObject:
    return {
        "metadata": {"labels": {"app": "web", **labels}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }


def deployment(image: str = "web:1", **spec: Json) -> JsonObject:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "uid"},
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }


def view(document: JsonObject) -> Deployment:
    return msgspec.convert(document, Deployment)


def saved(document: JsonObject, settings: JsonObject | str) -> Deployment:
    text = settings if isinstance(settings, str) else json.dumps(settings)
    metadata = {**document["metadata"], "annotations": {rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY: text}}
    return view({**document, "metadata": metadata})


# Versions


def test_the_revision_of_a_template_follows_its_content() -> None:
    assert deployment_hold.revision_of(template()) == deployment_hold.revision_of(copy.deepcopy(template()))
    assert deployment_hold.revision_of(template()) != deployment_hold.revision_of(template("web:2"))


def test_metadata_that_only_the_canary_gets_does_not_make_another_version() -> None:
    patch = PatchMetadata({"track": "canary"}, {"note": "x"})
    patched = template(track="canary")
    patched["metadata"]["annotations"] = {"note": "x"}
    assert deployment_hold.template_content(patched, patch) == deployment_hold.template_content(template(), patch)
    assert deployment_hold.template_content(patched) != deployment_hold.template_content(template())


def test_an_earlier_revision_does_not_see_the_hash_label() -> None:
    hashed = template(**{rollout_labels.TEMPLATE_HASH: "abc"})
    assert deployment_hold.earlier_revision_of(hashed) == deployment_hold.earlier_revision_of(template())


def replica_set(name: str, image: str, replicas: int = 1, deleting: bool = False) -> ReplicaSet:
    metadata: JsonObject = {"name": name, "namespace": "default"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert(
        {"metadata": metadata, "spec": {"replicas": replicas, "template": template(image)}}, ReplicaSet
    )


def test_replica_sets_without_pods_or_on_their_way_out_are_not_active() -> None:
    sets = [replica_set("a", "web:1"), replica_set("b", "web:2", 0), replica_set("c", "web:3", deleting=True)]
    assert [one.metadata.name for one in deployment_hold.active(sets)] == ["a"]


def test_the_replica_set_of_a_template_is_found_by_its_content() -> None:
    sets = [replica_set("a", "web:1"), replica_set("b", "web:2", 0)]
    found = deployment_hold.with_template(sets, template("web:2"))
    assert found is not None
    assert found.metadata.name == "b"
    assert deployment_hold.with_template(sets, template("web:9")) is None


# Admission


def test_a_held_deployment_is_paused_and_says_for_which_rollout() -> None:
    after = deployment_hold.hold(deployment("web:2"), "web", "rev-1")
    assert after["spec"]["paused"] is True
    assert after["metadata"]["labels"] == {rollout_labels.STABLE_REVISION: "rev-1"}
    assert json.loads(after["metadata"]["annotations"][rollout_labels.IN_PROGRESSING]) == {"rolloutName": "web"}


def test_an_update_of_a_held_deployment_stays_paused_and_keeps_the_notes() -> None:
    before = deployment_hold.hold(deployment("web:2"), "web", "rev-1")
    edit = deployment("web:2", paused=False)
    after = deployment_hold.keep_held(edit, before)
    assert after["spec"]["paused"] is True
    assert rollout_labels.IN_PROGRESSING in after["metadata"]["annotations"]
    assert after["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "rev-1"


@pytest.mark.parametrize(("image", "paused"), [("web:2", False), ("web:3", True)])
def test_blue_green_is_paused_again_only_by_another_template(image: str, paused: bool) -> None:
    before = deployment_hold.hold(deployment("web:2"), "web", "rev-1")
    before["metadata"]["annotations"][rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY] = "{}"
    edit = copy.deepcopy(before)
    edit["spec"] |= {"paused": False, "template": template(image)}
    assert deployment_hold.keep_held(edit, before)["spec"]["paused"] is paused


def test_a_held_deployment_cannot_become_recreate() -> None:
    before = deployment_hold.hold(deployment("web:2", strategy={"type": "RollingUpdate"}), "web", "rev-1")
    edit = copy.deepcopy(before)
    edit["spec"]["strategy"] = {"type": "Recreate"}
    assert deployment_hold.keep_held(edit, before)["spec"]["strategy"] == {"type": "RollingUpdate"}


@pytest.mark.parametrize(
    ("labels", "annotations", "marked"),
    [
        ({}, {}, False),
        ({rollout_labels.WORKLOAD_TYPE: "deployment"}, {}, False),
        ({rollout_labels.STABLE_REVISION: "x"}, {}, True),
        ({}, {rollout_labels.IN_PROGRESSING: "{}"}, True),
        ({}, {rollout_labels.CONTROL_INFO: "{}"}, True),
        ({}, {rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY: "{}"}, True),
        ({}, {"other": "x"}, False),
    ],
)
def test_what_marks_a_deployment_under_release(
    labels: dict[str, str], annotations: dict[str, str], marked: bool
) -> None:
    assert deployment_hold.has_release_marks(ObjectMeta(labels=labels, annotations=annotations)) is marked


# The second Deployment


def release(patch: PatchMetadata | None = None, uid: str = "release-uid") -> BatchRelease:
    plan = ReleasePlan(patch_pod_template_metadata=patch)
    return BatchRelease(ObjectMeta(name="web", namespace="default", uid=uid), ReleaseSpec(release_plan=plan))


def test_a_canary_starts_without_pods_and_belongs_to_its_release() -> None:
    document = deployment("web:2", paused=True)
    made = deployment_hold.canary_deployment(view(document), document["spec"], release(), "{}")
    assert (made["spec"]["replicas"], made["spec"]["paused"]) == (0, False)
    assert made["metadata"]["labels"] == {rollout_labels.CANARY_DEPLOYMENT: "web"}
    assert made["metadata"]["finalizers"] == [rollout_labels.CANARY_FINALIZER]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("BatchRelease", "release-uid")
    assert made["spec"]["template"] == document["spec"]["template"]


def test_a_canary_has_the_metadata_that_only_it_gets() -> None:
    document = deployment("web:2")
    patch = PatchMetadata({"track": "canary"}, {"note": "x"})
    made = deployment_hold.canary_deployment(view(document), document["spec"], release(patch), "{}")
    assert made["spec"]["template"]["metadata"] == {
        "labels": {"app": "web", "track": "canary"},
        "annotations": {"note": "x"},
    }
    assert document["spec"]["template"]["metadata"] == {"labels": {"app": "web"}}


def test_the_name_of_a_canary_follows_from_the_release_and_the_template() -> None:
    def name(image: str, uid: str) -> str:
        document = deployment(image)
        made = deployment_hold.canary_deployment(view(document), document["spec"], release(uid=uid), "{}")
        found: str = made["metadata"]["name"]
        return found

    assert name("web:2", "a") == name("web:2", "a")
    assert len({name("web:2", "a"), name("web:3", "a"), name("web:2", "b")}) == 3


@pytest.mark.parametrize("length", [1, 57, 63])
def test_the_name_of_a_canary_is_short_enough(length: int) -> None:
    document = deployment()
    document["metadata"]["name"] = "w" * length
    made = deployment_hold.canary_deployment(view(document), document["spec"], release(), "{}")
    assert len(made["metadata"]["name"]) <= 63


# Blue-green in place


def test_settings_that_were_absent_are_saved_as_their_defaults() -> None:
    assert deployment_hold.saved_settings(view(deployment())) == {
        "maxUnavailable": "25%",
        "maxSurge": "25%",
        "minReadySeconds": 0,
        "progressDeadlineSeconds": 600,
    }


def test_a_deployment_that_is_held_in_place_adds_pods_and_removes_none() -> None:
    patch = deployment_hold.hold_in_place(view(deployment()), "{}")
    rolling = patch["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}
    assert patch["spec"]["minReadySeconds"] == deployment_hold.NEVER_AVAILABLE
    held = view(deployment(**patch["spec"]))
    assert deployment_hold.held_in_place(held)


def test_settings_that_were_saved_are_not_replaced_by_those_of_the_hold() -> None:
    held = saved(deployment(minReadySeconds=deployment_hold.NEVER_AVAILABLE), {"minReadySeconds": 7})
    patch = deployment_hold.hold_in_place(held, "{}")
    assert rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY not in patch["metadata"]["annotations"]


@pytest.mark.parametrize("text", ["", "{", "nonsense"])
def test_settings_that_cannot_be_read_are_the_defaults(text: str) -> None:
    assert deployment_hold.read_settings(saved(deployment(), text))["maxSurge"] == "25%"


def test_releasing_the_hold_removes_every_mark() -> None:
    patch = deployment_hold.release_hold_patch(view(deployment()), "token")
    assert patch["spec"] == {"paused": False}
    assert patch["metadata"]["annotations"].pop(rollout_labels.HOLD_RELEASE) == "token"
    assert set(patch["metadata"]["annotations"].values()) == {None}
    assert patch["metadata"]["labels"][rollout_labels.STABLE_REVISION] is None


def test_a_deployment_can_be_left_paused() -> None:
    assert deployment_hold.release_hold_patch(view(deployment()), "token", paused=True)["spec"]["paused"] is True


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ('{"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}', {"maxSurge": 2, "maxUnavailable": 0}),
        ('{"rollingUpdate": {"maxSurge": 2}}', {"maxSurge": 2, "maxUnavailable": "25%"}),
        ("{}", {"maxSurge": "25%", "maxUnavailable": "25%"}),
        ("broken", {"maxSurge": "25%", "maxUnavailable": "25%"}),
    ],
)
def test_a_deployment_that_another_implementation_partitioned_rolls_again(text: str, limits: JsonObject) -> None:
    document = deployment(strategy={"type": "Recreate"})
    document["metadata"]["annotations"] = {rollout_labels.PARTITION_STRATEGY: text}
    patch = deployment_hold.release_hold_patch(view(document), "token")
    assert patch["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": limits}


@given(
    surge=st.one_of(st.integers(0, 5), st.sampled_from(["10%", "50%"])),
    unavailable=st.one_of(st.integers(0, 5), st.sampled_from(["10%", "50%"])),
    ready=st.integers(0, 100),
    deadline=st.integers(101, 1000),
)
def test_hold_and_release_give_the_settings_back(surge: Json, unavailable: Json, ready: int, deadline: int) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    own: JsonObject = {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "minReadySeconds": ready,
        "progressDeadlineSeconds": deadline,
    }
    patch = deployment_hold.hold_in_place(view(deployment(**own)), "{}")
    held = deployment(**patch["spec"])
    held["metadata"]["annotations"] = patch["metadata"]["annotations"]
    released = deployment_hold.release_hold_patch(view(held), "token")["spec"]
    assert released == {**own, "paused": False}


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [(0, 0, 4, 1), ("25%", "25%", 4, 1), (1, 0, 4, 0), (0, 2, 4, 2), ("25%", "10%", 4, 0), ("50%", "50%", 5, 2)],
)
def test_how_many_pods_may_be_away_at_the_end_of_a_promotion(
    surge: Json, unavailable: Json, replicas: int, expected: int
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    document = deployment(replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    assert deployment_hold.unavailable(view(document)) == expected
