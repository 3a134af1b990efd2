"""Defaults and validation of a LeaderWorkerSet, row by row (WD, WV of the behaviour; S3, S4, S7 of the proposals)."""

from collections.abc import Callable

import pytest

from kohort.groups import wire
from kohort.groups.defaulting import defaulted
from kohort.groups.validation import create_errors, update_errors
from kohort.objects.jsontypes import Json, JsonObject

Edit = Callable[[JsonObject], None]


def group_set(*edits: Edit, name: str = "test-sample") -> JsonObject:
    subject: JsonObject = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {
                "size": 2,
                "workerTemplate": {"spec": {"containers": [{"name": "main", "image": "nginx"}]}},
            },
        },
    }
    for edit in edits:
        edit(subject)
    return defaulted(subject)


def spec(**values: Json) -> Edit:
    return lambda subject: subject["spec"].update(values)


def template(**values: Json) -> Edit:
    return lambda subject: subject["spec"]["leaderWorkerTemplate"].update(values)


def rolling(**values: Json) -> Edit:
    return spec(rolloutStrategy={"type": "RollingUpdate", "rollingUpdateConfiguration": values})


def subgroups(size: int | None, policy: str = "LeaderWorker") -> Edit:
    values = {"subGroupPolicyType": policy} | ({} if size is None else {"subGroupSize": size})
    return template(subGroupPolicy=values)


def annotated(key: str, value: str) -> Edit:
    return lambda subject: subject["metadata"].setdefault("annotations", {}).update({key: value})


ROLLING = "spec.rolloutStrategy.rollingUpdateConfiguration"
SIZE = "spec.leaderWorkerTemplate.size"
SUBGROUP = "spec.leaderWorkerTemplate.SubGroupPolicy.subGroupSize"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([spec(replicas=-1)], [("spec.replicas", "replicas must be equal or greater than 0")]),
        ([spec(replicas=1000001)], [("spec.replicas", "replicas must be equal or less than 1000000")]),
        ([template(size=-1)], [(SIZE, "size must be equal or greater than 1")]),
        (
            [spec(replicas=100000), template(size=1000000)],
            [("spec.replicas", "the product of replicas and worker replicas must not exceed 2147483647")],
        ),
        ([rolling(maxUnavailable=10)], []),
        ([rolling(maxUnavailable="200%")], [(f"{ROLLING}.maxUnavailable", "must not be greater than 100%")]),
        ([rolling(maxUnavailable=-1)], [(f"{ROLLING}.maxUnavailable", "must be greater than or equal to 0")]),
        ([rolling(maxSurge=10)], []),
        ([rolling(maxSurge="200%")], [(f"{ROLLING}.maxSurge", "must not be greater than 100%")]),
        ([rolling(maxSurge=-1)], [(f"{ROLLING}.maxSurge", "must be greater than or equal to 0")]),
        (
            [rolling(maxUnavailable=0, maxSurge=0)],
            [(f"{ROLLING}.maxUnavailable", "must not be 0 when `maxSurge` is 0")],
        ),
        ([rolling(maxUnavailable=0, maxSurge=1)], []),
        ([spec(replicas=0), rolling(maxUnavailable="25%", maxSurge="25%")], []),
        (
            [rolling(maxUnavailable="25%", maxSurge=0)],
            [(f"{ROLLING}.maxUnavailable", "must not be 0 when `maxSurge` is 0")],
        ),
        ([rolling(partition=-1)], [(f"{ROLLING}.partition", "must be greater than or equal to 0")]),
        ([spec(replicas=3), rolling(partition=5)], []),
        ([subgroups(-1)], [(SUBGROUP, "subGroupSize must be equal or greater than 1")]),
        ([subgroups(0)], [(SUBGROUP, "subGroupSize must be equal or greater than 1")]),
        (
            [subgroups(3)],
            [
                (SUBGROUP, "size or size - 1 must be divisible by subGroupSize"),
                (SUBGROUP, "subGroupSize cannot be larger than size"),
            ],
        ),
        (
            [template(size=4), subgroups(2, "LeaderExcluded")],
            [(SUBGROUP, "size-1 must be divisible by subGroupSize when using LeaderExcluded")],
        ),
        ([template(size=5), subgroups(2, "LeaderExcluded")], []),
        (
            [annotated(wire.SUBGROUP_EXCLUSIVE, "host")],
            [
                (
                    f"metadata.annotations.{wire.SUBGROUP_EXCLUSIVE}",
                    "cannot have subgroup-exclusive-topology without subGroupSize set",
                )
            ],
        ),
    ],
)
def test_a_new_set(edits: list[Edit], expected: list[tuple[str, str]]) -> None:
    found = [(error.field, error.message) for error in create_errors(group_set(*edits))]
    assert len(found) == len(expected)
    for (field, message), (wanted_field, wanted_text) in zip(found, expected, strict=True):
        assert field == wanted_field
        assert message.endswith(wanted_text)


def test_a_subgroup_policy_without_a_size_is_refused_and_not_a_crash() -> None:
    (error,) = create_errors(group_set(subgroups(None)))
    assert (error.field, error.reason) == (SUBGROUP, "FieldValueRequired")


def test_a_string_that_is_no_percentage() -> None:
    messages = [error.message for error in create_errors(group_set(rolling(maxSurge="ten")))]
    assert len(messages) == 2
    assert messages[1].endswith("invalid value")


@pytest.mark.parametrize("name", ["2cube", "Upper", "x" * 64, "", "a.b"])
def test_names_must_be_labels_that_start_with_a_letter(name: str) -> None:
    assert [error.field for error in create_errors(group_set(name=name))] == ["metadata.name"]


def test_names_that_leave_no_room_for_pods_are_refused() -> None:
    fitting = "x" * 50
    assert create_errors(group_set(name=fitting)) == []
    (error,) = create_errors(group_set(spec(replicas=1000), name=fitting))
    assert "at most 47 characters" in error.message


def changes(old: JsonObject, new: JsonObject, policy: str = "None") -> list[tuple[str, str]]:
    return [(error.field, error.message) for error in update_errors(new, old, default_resize_policy=policy)]


def test_subgroups_cannot_be_changed_added_or_removed() -> None:
    four = group_set(template(size=4), subgroups(2))
    assert changes(four, group_set(template(size=4), subgroups(4)))[0][1].endswith("field is immutable")
    added = changes(group_set(template(size=4)), four)
    assert added[0][1].endswith("cannot enable subGroupSize after the lws is already created")
    removed = changes(four, group_set(template(size=4)))
    assert removed[0][1].endswith("cannot remove subGroupSize after enabled")


def test_the_size_changes_only_with_the_policy_for_it() -> None:
    two = group_set()
    refused = changes(two, group_set(template(size=3)))
    assert refused[0][0] == SIZE
    assert "spec.leaderWorkerTemplate.resizePolicy is None" in refused[0][1]
    assert changes(two, group_set(template(size=3, resizePolicy="Recreate"))) == []
    assert changes(two, group_set(template(size=3)), policy="Recreate") == []
    assert changes(two, group_set(template(size=3, resizePolicy="None")), policy="Recreate") != []


def test_harmless_changes_are_allowed() -> None:
    assert changes(group_set(spec(replicas=1)), group_set(spec(replicas=3))) == []
    assert changes(group_set(), group_set(spec(networkConfig={"subdomainPolicy": "UniquePerReplica"}))) == []
    assert changes(group_set(), group_set(template(restartPolicy="None"))) == []
    assert changes(group_set(rolling(partition=1)), group_set(rolling(partition=10))) == []


def mounting(*volumes: str) -> Edit:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in volumes]
    pod = {"spec": {"containers": [{"name": "main", "image": "nginx", "volumeMounts": mounts}]}}
    return template(workerTemplate=pod)


def claims(*names: str) -> Edit:
    return template(volumeClaimTemplates=[{"metadata": {"name": name}, "spec": {}} for name in names])


def test_a_claim_must_be_mounted_and_cannot_change() -> None:
    assert create_errors(group_set(mounting("data"), claims("data"))) == []
    errors = create_errors(group_set(mounting("data"), claims("other")))
    assert {error.field for error in errors} == {"spec.leaderWorkerTemplate.volumeClaimTemplates[0].metadata.name"}
    before, after = group_set(mounting("data"), claims("data")), group_set(mounting("data"))
    ((field, message),) = changes(before, after)
    assert field == "spec.leaderWorkerTemplate.volumeClaimTemplates"
    assert "field is immutable" in message


def scheduling(**values: Json) -> Edit:
    return template(schedulingPolicy=values)


def test_nodes_of_a_replicas_own() -> None:
    toleration = {"key": "reserved", "effect": "NoSchedule"}
    assert (
        create_errors(group_set(scheduling(replicaUniqueNodeSelector="pool", replicaUniqueToleration=toleration))) == []
    )
    (error,) = create_errors(group_set(scheduling(replicaUniqueToleration={"key": "k", "effect": "Sometimes"})))
    assert error.field == "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.effect"
    assert error.reason == "FieldValueNotSupported"
    assert create_errors(group_set(scheduling()))[0].reason == "FieldValueRequired"
    same = group_set(scheduling(replicaUniqueNodeSelector="rack"), annotated(wire.EXCLUSIVE, "rack"))
    assert [error.field for error in create_errors(same)] == [
        "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueNodeSelector"
    ]


@pytest.mark.parametrize(
    ("edits", "path", "expected"),
    [
        ([], "leaderWorkerTemplate.restartPolicy", "RecreateGroupOnPodRestart"),
        ([template(restartPolicy="None")], "leaderWorkerTemplate.restartPolicy", "None"),
        ([template(restartPolicy="Default")], "leaderWorkerTemplate.restartPolicy", "None"),
        ([], "networkConfig.subdomainPolicy", "Shared"),
        ([], "rolloutStrategy.type", "RollingUpdate"),
        ([], "rolloutStrategy.rollingUpdateConfiguration", {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}),
        (
            [rolling(partition=2, maxUnavailable=2, maxSurge=1)],
            "rolloutStrategy.rollingUpdateConfiguration",
            {"partition": 2, "maxUnavailable": 2, "maxSurge": 1},
        ),
        ([spec(startupPolicy="")], "startupPolicy", "LeaderCreated"),
        ([spec(startupPolicy="LeaderReady")], "startupPolicy", "LeaderReady"),
        ([spec(networkConfig={"subdomainPolicy": None})], "networkConfig.subdomainPolicy", "Shared"),
    ],
)
def test_defaults(edits: list[Edit], path: str, expected: Json) -> None:
    found: Json = group_set(*edits)["spec"]
    for step in path.split("."):
        found = found[step]
    assert found == expected
