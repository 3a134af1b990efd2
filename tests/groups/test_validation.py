"""Defaults and validation of a LeaderWorkerSet, row by row (WD, WV of the behaviour; S3, S4, S7 of the proposals)."""

from collections.abc import Callable

import pytest

from kohort.groups.defaulting import defaulted
from kohort.groups.validation import create_errors, scale_errors, update_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

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
UNAVAILABLE = f"{ROLLING}.maxUnavailable"
SURGE = f"{ROLLING}.maxSurge"
REPLICAS = "spec.replicas"
SIZE = "spec.leaderWorkerTemplate.size"
CLAIMS = "spec.leaderWorkerTemplate.volumeClaimTemplates"
SUBGROUP = "spec.leaderWorkerTemplate.SubGroupPolicy.subGroupSize"


NEW_SETS = [
    pytest.param([spec(replicas=-1)], {REPLICAS: "replicas must be equal or greater than 0"}, id="5.3#2"),
    pytest.param([spec(replicas=1000001)], {REPLICAS: "replicas must be equal or less than 1000000"}, id="5.3#3"),
    pytest.param([template(size=0)], {SIZE: "size must be equal or greater than 1"}, id="5.3#4"),
    pytest.param(
        [spec(replicas=100000), template(size=1000000)],
        {REPLICAS: "the product of replicas and worker replicas must not exceed 2147483647"},
        id="5.3#5",
    ),
    pytest.param(
        [rolling(maxUnavailable=-1)], {UNAVAILABLE: "must be greater than or equal to 0"}, id="5.3#6-negative"
    ),
    pytest.param([rolling(maxUnavailable="101%")], {UNAVAILABLE: "must not be greater than 100%"}, id="5.3#6-percent"),
    pytest.param([rolling(maxSurge=-1)], {SURGE: "must be greater than or equal to 0"}, id="5.3#7-negative"),
    pytest.param([rolling(maxSurge="200%")], {SURGE: "must not be greater than 100%"}, id="5.3#7-percent"),
    pytest.param([rolling(partition=-1)], {f"{ROLLING}.partition": "must be greater than or equal to 0"}, id="5.3#8"),
    pytest.param(
        [rolling(maxUnavailable=0, maxSurge=0)],
        {UNAVAILABLE: "must not be 0 when `maxSurge` is 0"},
        id="5.3#10",
    ),
    pytest.param(
        [rolling(maxUnavailable="25%", maxSurge=0)],
        {UNAVAILABLE: "must not be 0 when `maxSurge` is 0"},
        id="5.3#10-percent-of-two",
    ),
    pytest.param([subgroups(-1)], {SUBGROUP: "subGroupSize must be equal or greater than 1"}, id="5.3#11"),
    pytest.param([subgroups(0)], {SUBGROUP: "subGroupSize must be equal or greater than 1"}, id="5.3#11-zero"),
    pytest.param(
        [template(size=6), subgroups(4)],
        {SUBGROUP: "size or size - 1 must be divisible by subGroupSize"},
        id="5.3#12",
    ),
    pytest.param(
        [template(size=4), subgroups(2, "LeaderExcluded")],
        {SUBGROUP: "size-1 must be divisible by subGroupSize when using LeaderExcluded"},
        id="5.3#14",
    ),
    pytest.param(
        [annotated(group_labels.SUBGROUP_EXCLUSIVE, "host")],
        {
            f"metadata.annotations.{group_labels.SUBGROUP_EXCLUSIVE}": (
                "cannot have subgroup-exclusive-topology without subGroupSize set"
            )
        },
        id="5.3#15",
    ),
    pytest.param(
        [rolling(maxUnavailable=2**31)],
        {UNAVAILABLE: "must be less than or equal to 2147483647"},
        id="more-than-int32",
    ),
    pytest.param([rolling(maxUnavailable=10)], {}, id="more-than-there-are"),
    pytest.param([rolling(maxUnavailable=0, maxSurge=1)], {}, id="surge-alone"),
    pytest.param([spec(replicas=0), rolling(maxUnavailable=0, maxSurge=0)], {}, id="5.3#10-nothing-to-roll"),
    pytest.param([spec(replicas=0), rolling(maxUnavailable="25%", maxSurge="25%")], {}, id="percents-of-nothing"),
    pytest.param([spec(replicas=3), rolling(partition=5)], {}, id="partition-above-replicas"),
    pytest.param([template(size=5), subgroups(2, "LeaderExcluded")], {}, id="leader-excluded"),
]


@pytest.mark.parametrize(("edits", "expected"), NEW_SETS)
def test_a_new_set(edits: list[Edit], expected: dict[str, str]) -> None:
    assert told(create_errors(group_set(*edits))) == list(expected.items())


@pytest.mark.parametrize(("amount", "refused"), [("1e1000000", False), ("1e99999999999", True), ("1e1.5", True)])
def test_an_amount_that_is_no_quantity_is_refused(amount: str, refused: bool) -> None:
    """Kubernetes reads exponents of up to 32 bits."""
    resources = {"requests": {"cpu": amount}}
    container = {"name": "main", "image": "nginx", "resources": resources}
    subject = group_set(template(workerTemplate={"spec": {"containers": [container]}}))
    field = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].resources.requests[cpu]"
    assert [error.field for error in create_errors(subject)] == [field] * refused
    assert [error.field for error in update_errors(subject, group_set())] == [field] * refused
    assert update_errors(subject, subject) == []


def told(errors: list[FieldError]) -> list[tuple[str, str]]:
    """Field and text, without the value that stands before it."""
    return [(error.field, error.message.partition(": ")[2].partition(": ")[2]) for error in errors]


def test_row_13_of_53_a_subgroup_larger_than_the_group_violates_two_rules() -> None:
    assert told(create_errors(group_set(subgroups(3)))) == [
        (SUBGROUP, "size or size - 1 must be divisible by subGroupSize"),
        (SUBGROUP, "subGroupSize cannot be larger than size"),
    ]


def test_a_subgroup_policy_without_a_size_is_refused_and_not_a_crash() -> None:
    (error,) = create_errors(group_set(subgroups(None)))
    assert (error.field, error.reason) == (SUBGROUP, "FieldValueRequired")


PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def test_row_9_of_53_a_string_that_is_no_percentage() -> None:
    """As LeaderWorkerSet 0.9.0 answers: the rows in their order, and what means nothing counts as 0 in the last one."""
    assert told(create_errors(group_set(rolling(maxSurge="ten")))) == [(SURGE, PERCENT), (SURGE, "invalid value")]
    assert told(create_errors(group_set(rolling(maxUnavailable="y", maxSurge="x")))) == [
        (UNAVAILABLE, PERCENT),
        (SURGE, PERCENT),
        (UNAVAILABLE, "invalid value"),
        (SURGE, "invalid value"),
        (UNAVAILABLE, "must not be 0 when `maxSurge` is 0"),
    ]
    assert told(create_errors(group_set(rolling(maxUnavailable="-1%")))) == [(UNAVAILABLE, PERCENT)]


@pytest.mark.parametrize("name", ["2cube", "Upper", "x" * 64, "", "a.b"])
def test_row_1_of_53_names_must_be_labels_that_start_with_a_letter(name: str) -> None:
    assert [error.field for error in create_errors(group_set(name=name))] == ["metadata.name"]


def test_names_that_leave_no_room_for_pods_are_refused() -> None:
    """A StatefulSet adds eleven characters to its own name for a label of its pods, and has at most 63."""
    fitting = "x" * 50
    assert create_errors(group_set(name=fitting)) == []
    assert create_errors(group_set(spec(replicas=10), name=fitting)) == [], "the last leader is the ninth"
    (error,) = create_errors(group_set(spec(replicas=10), rolling(maxSurge=1), name=fitting))
    assert "at most 49 characters" in error.message, "while it rolls, there is a tenth"
    (error,) = create_errors(group_set(spec(replicas=1000), name=fitting))
    assert "at most 48 characters" in error.message


@pytest.mark.parametrize(("size", "replicas", "most"), [(1, 1, 52), (1, 1000, 52), (2, 1, 50), (2, 11, 49)])
def test_the_longest_name_that_gets_pods(size: int, replicas: int, most: int) -> None:
    """A leader StatefulSet has the name of the set, a worker StatefulSet that of its leader."""
    assert create_errors(group_set(template(size=size), spec(replicas=replicas), name="x" * most)) == []
    (error,) = create_errors(group_set(template(size=size), spec(replicas=replicas), name="x" * 58))
    assert error.field == "metadata.name"
    assert f"at most {most} characters" in error.message
    assert "controller-revision-hash" in error.message


def test_a_long_name_that_is_there_already_is_no_reason_to_refuse_scaling() -> None:
    one, two = (group_set(template(size=1), spec(replicas=count), name="x" * 53) for count in (1, 2))
    assert scale_errors(two, one) == [] == update_errors(two, one)
    one, many = (group_set(template(size=2), spec(replicas=count), name="x" * 50) for count in (1, 11))
    assert [error.field for error in scale_errors(many, one)] == ["metadata.name"]


def test_what_was_wrong_before_is_no_reason_to_refuse_another_change() -> None:
    """Sets that another operator has accepted, and sets that were scaled past the rules."""
    unmounted, odd = claims("data"), rolling(maxUnavailable="25%", maxSurge=0)
    for wrong in ([unmounted], [odd], [spec(replicas=1000)]):
        before, after = (
            group_set(*wrong, name="x" * 50),
            group_set(*wrong, template(restartPolicy="None"), name="x" * 50),
        )
        assert create_errors(before) != []
        assert update_errors(after, before) == []
    long = "x" * 50
    assert update_errors(group_set(spec(replicas=500), name=long), group_set(spec(replicas=1000), name=long)) == []
    worse = group_set(unmounted, template(size=0), name="x" * 50)
    assert [field for field, _ in changes(group_set(unmounted, name="x" * 50), worse, "Recreate")] == [SIZE]


def test_a_set_that_is_being_deleted_can_lose_its_finalizers() -> None:
    before = group_set(claims("data"))
    after = group_set(claims("data"))
    for one in (before, after):
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    after["spec"]["leaderWorkerTemplate"]["size"] = 0
    assert update_errors(after, before) == []


def changes(old: JsonObject, new: JsonObject, policy: str = "None") -> list[tuple[str, str]]:
    return [(error.field, error.message) for error in update_errors(new, old, default_resize_policy=policy)]


FOUR = [template(size=4), subgroups(2)]


SUBGROUP_CHANGES = [
    pytest.param(FOUR, [template(size=4), subgroups(4)], "field is immutable", id="5.3#U1"),
    pytest.param([template(size=4)], FOUR, "cannot enable subGroupSize after the lws is already created", id="5.3#U2"),
    pytest.param(FOUR, [template(size=4)], "cannot remove subGroupSize after enabled", id="5.3#U3"),
]


@pytest.mark.parametrize(("before", "after", "text"), SUBGROUP_CHANGES)
def test_subgroups_cannot_be_changed_added_or_removed(before: list[Edit], after: list[Edit], text: str) -> None:
    assert told(update_errors(group_set(*after), group_set(*before))) == [(SUBGROUP, text)]


def test_row_u4_of_53_a_subdomain_policy_cannot_be_null() -> None:
    subject = group_set()
    subject["spec"]["networkConfig"]["subdomainPolicy"] = None
    assert told(update_errors(subject, group_set())) == [
        ("spec.networkConfig.subdomainPolicy", "cannot set subdomainPolicy as null")
    ]


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
    alone = {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    assert create_errors(group_set(mounting("data"), claims("data"), template(leaderTemplate=alone))) == []
    before, after = group_set(mounting("data"), claims("data")), group_set(mounting("data"))
    ((field, message),) = changes(before, after)
    assert field == CLAIMS
    assert "field is immutable" in message


def test_a_claim_that_is_only_written_differently_has_not_changed() -> None:
    """LWS stores claims as its typed structs write them: shortest quantities, an empty status."""

    def claim(amount: str, **more: Json) -> Edit:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}}
        return template(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec, **more}])

    stored = group_set(mounting("data"), claim("1Gi", status={}))
    assert changes(stored, group_set(mounting("data"), claim("1024Mi"))) == []
    typed: JsonObject = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    assert changes(stored, group_set(mounting("data"), claim("1Gi", **typed))) == []
    assert [field for field, _ in changes(stored, group_set(mounting("data"), claim("2Gi")))] == [CLAIMS]


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
    same = group_set(scheduling(replicaUniqueNodeSelector="rack"), annotated(group_labels.EXCLUSIVE, "rack"))
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
