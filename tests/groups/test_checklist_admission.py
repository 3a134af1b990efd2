"""The integration checklist of the set's webhooks, WD1 to WD11 and WV1 to WV45: schema, defaults and validation as one,
on a server. Rows of 5.3 as the webhook answers them are in test_validation.py; here, what a user reads who breaks them.
"""

import copy
import re
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from tests.groups.test_validation import NEW_SETS, SUBGROUP_CHANGES, Edit, rolling, spec, subgroups, template

from kohort.admission.webhook_configurations import MUTATING, VALIDATING
from kohort.kube.errors import ApiError, Invalid
from kohort.kube.resources import LEADER_WORKER_SETS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from kohort.objects.json_types import Json, JsonObject
from kohort.operator import register
from kohort.testing import Cluster

NAMESPACE = "default"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    """One for all rows: everything here is a dry run."""
    operator = {"operator": lambda manager: register(manager, rollouts=False, default_resize_policy="Recreate")}
    async with Cluster(extra=operator) as found:
        yield found


def written(*edits: Edit, name: str = "test-sample") -> JsonObject:
    """What a user sends: nothing is defaulted."""
    pod = {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    subject: JsonObject = {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}},
    }
    for edit in edits:
        edit(subject)
    return subject


async def stored(cluster: Cluster, subject: JsonObject) -> JsonObject:
    found: JsonObject = await cluster.client.create(LEADER_WORKER_SETS, subject, NAMESPACE, dry_run=True)
    return found


def without(path: str) -> Edit:
    def remove(subject: JsonObject) -> None:
        *steps, last = path.split(".")
        place = subject["spec"]
        for step in steps:
            place = place[step]
        place.pop(last, None)

    return remove


DEFAULTS = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
GIVEN = {"partition": 2, "maxUnavailable": 2, "maxSurge": 1}
EVERYTHING = [
    spec(replicas=3, startupPolicy="LeaderReady", networkConfig={"subdomainPolicy": "UniquePerReplica"}),
    template(size=4, restartPolicy="None"),
    rolling(**GIVEN),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("edits", "path", "expected"),
    [
        pytest.param([without("replicas")], "replicas", 1, id="WD1"),
        pytest.param([without("leaderWorkerTemplate.size")], "leaderWorkerTemplate.size", 1, id="WD2"),
        pytest.param([], "leaderWorkerTemplate.restartPolicy", "RecreateGroupOnPodRestart", id="WD4"),
        pytest.param([template(restartPolicy="None")], "leaderWorkerTemplate.restartPolicy", "None", id="WD5"),
        pytest.param([template(restartPolicy="Default")], "leaderWorkerTemplate.restartPolicy", "None", id="WD6"),
        pytest.param([], "startupPolicy", "LeaderCreated", id="WD7"),
        pytest.param([spec(startupPolicy="LeaderReady")], "startupPolicy", "LeaderReady", id="WD8"),
        pytest.param([], "networkConfig", {"subdomainPolicy": "Shared"}, id="WD9"),
        pytest.param(
            [], "rolloutStrategy", {"type": "RollingUpdate", "rollingUpdateConfiguration": DEFAULTS}, id="WD10"
        ),
        pytest.param([rolling(**GIVEN)], "rolloutStrategy.rollingUpdateConfiguration", GIVEN, id="WD11"),
        pytest.param([spec(startupPolicy="")], "startupPolicy", "LeaderCreated", id="empty-as-Go-sends-it"),
    ],
)
async def test_defaults(cluster: Cluster, edits: list[Edit], path: str, expected: Json) -> None:
    found: Json = (await stored(cluster, written(*edits)))["spec"]
    for step in path.split("."):
        found = found[step]
    assert found == expected


@pytest.mark.asyncio(loop_scope="module")
async def test_wd3_everything_set_is_unchanged(cluster: Cluster) -> None:
    subject = written(*EVERYTHING)
    found = await stored(cluster, subject)
    container = found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
    container.pop("resources", None)
    assert found["spec"] == subject["spec"]


GOOD = None
BAD = ApiError


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("edits", "refusal"),
    [
        pytest.param([spec(replicas=100_000), template(size=1_000_000)], BAD, id="WV2"),
        pytest.param([template(size=-1)], BAD, id="WV3"),
        pytest.param([spec(replicas=-1)], BAD, id="WV4"),
        pytest.param([spec(replicas=1_000_001)], BAD, id="WV5"),
        pytest.param([spec(startupPolicy="Sometime")], BAD, id="WV6"),
        pytest.param([subgroups(-1)], BAD, id="WV7"),
        pytest.param([subgroups(3)], BAD, id="WV8"),
        pytest.param([template(size=4), subgroups(2, "LeaderExcluded")], BAD, id="WV9"),
        pytest.param([template(restartPolicy="None")], GOOD, id="WV24"),
        pytest.param([template(restartPolicy="Never")], BAD, id="WV25"),
        pytest.param([spec(rolloutStrategy={"type": "Recreate"})], BAD, id="WV26"),
        pytest.param([rolling(maxUnavailable=10)], GOOD, id="WV27"),
        pytest.param([rolling(maxUnavailable="200%")], BAD, id="WV28"),
        pytest.param([rolling(maxUnavailable=-1)], BAD, id="WV29"),
        pytest.param([rolling(maxSurge=10)], GOOD, id="WV30"),
        pytest.param([rolling(maxSurge="200%")], BAD, id="WV31"),
        pytest.param([rolling(maxSurge=-1)], BAD, id="WV32"),
        pytest.param([rolling(maxUnavailable=0, maxSurge=0)], BAD, id="WV33"),
        pytest.param([rolling(maxUnavailable=0, maxSurge=1)], GOOD, id="WV34"),
        pytest.param([spec(replicas=0), rolling(maxUnavailable="25%", maxSurge="25%")], GOOD, id="WV35"),
        pytest.param([rolling(maxUnavailable="25%", maxSurge=0)], BAD, id="WV36"),
        pytest.param([rolling(partition=-1)], BAD, id="WV37"),
        pytest.param([spec(replicas=3), rolling(partition=5)], GOOD, id="WV38"),
        pytest.param([spec(replicas=3), rolling(partition=3)], GOOD, id="WV39"),
        pytest.param([rolling(partition=0)], GOOD, id="WV40"),
    ],
)
async def test_a_new_set(cluster: Cluster, edits: list[Edit], refusal: type[ApiError] | None) -> None:
    await _judge(lambda: stored(cluster, written(*edits)), refusal)


@pytest.mark.asyncio(loop_scope="module")
async def test_wv1_a_name_that_starts_with_a_digit(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match=r"metadata.name"):
        await stored(cluster, written(name="2cube"))


def unique(policy: str | None) -> Edit:
    return spec(networkConfig={"subdomainPolicy": policy})


def swapped(subject: JsonObject) -> None:
    templates = subject["spec"]["leaderWorkerTemplate"]
    other = {"spec": {"containers": [{"name": "other", "image": "nginx"}]}}
    templates["leaderTemplate"] = templates["workerTemplate"]
    templates["workerTemplate"] = other


FOUR = [template(size=4), subgroups(2)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("before", "change", "refusal"),
    [
        pytest.param([], [template(size=3)], GOOD, id="WV10"),
        pytest.param([spec(replicas=100_000)], [template(size=1_000_000)], BAD, id="WV11"),
        pytest.param([], [spec(replicas=-1)], BAD, id="WV12"),
        pytest.param([], [spec(startupPolicy="Sometime")], BAD, id="WV13"),
        pytest.param(FOUR, [subgroups(4)], BAD, id="WV14"),
        pytest.param([template(size=4)], [subgroups(2)], BAD, id="WV15"),
        pytest.param(FOUR, [without("leaderWorkerTemplate.subGroupPolicy")], BAD, id="WV16"),
        pytest.param([spec(replicas=1)], [spec(replicas=3)], GOOD, id="WV17"),
        pytest.param([], [spec(replicas=1_000_001)], BAD, id="WV18"),
        pytest.param([], [swapped], GOOD, id="WV19"),
        pytest.param([unique("UniquePerReplica")], [unique("Shared")], GOOD, id="WV20"),
        pytest.param([unique("Shared")], [unique("UniquePerReplica")], GOOD, id="WV21"),
        pytest.param([], [unique("UniquePerReplica")], GOOD, id="WV22"),
        pytest.param([unique("UniquePerReplica")], [unique(None)], GOOD, id="WV23"),
        pytest.param([spec(replicas=5)], [rolling(partition=2)], GOOD, id="WV41"),
        pytest.param([spec(replicas=5)], [rolling(partition=-1)], BAD, id="WV42"),
        pytest.param([spec(replicas=5)], [rolling(partition=10)], GOOD, id="WV43"),
        pytest.param([spec(replicas=5)], [rolling(partition=5)], GOOD, id="WV44"),
        pytest.param([spec(replicas=5), rolling(partition=2)], [rolling(partition=0)], GOOD, id="WV45"),
    ],
)
async def test_an_update(
    cluster: Cluster, before: list[Edit], change: list[Edit], refusal: type[ApiError] | None
) -> None:
    client = cluster.client
    made = await client.create(LEADER_WORKER_SETS, written(*before, name="updated"), NAMESPACE)
    try:
        after = copy.deepcopy(made)
        for edit in change:
            edit(after)
        await _judge(lambda: client.update(LEADER_WORKER_SETS, after, NAMESPACE, dry_run=True), refusal)
    finally:
        await client.delete(LEADER_WORKER_SETS, "updated", NAMESPACE)


async def _judge(attempt: Callable[[], object], refusal: type[ApiError] | None) -> None:
    if refusal is None:
        await attempt()  # type: ignore[misc]
        return
    with pytest.raises(refusal):
        await attempt()  # type: ignore[misc]


def assert_told(refusal: ApiError, path: str, text: str) -> None:
    """5.3: a denial, HTTP 403, that has the path of the field to the letter, the value, and the text."""
    assert refusal.code == 403
    assert re.search(rf"{re.escape(path)}: Invalid value: [^:]+: {re.escape(text)}", refusal.message)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("edits", "expected"), NEW_SETS)
async def test_what_is_told_about_a_new_set(cluster: Cluster, edits: list[Edit], expected: dict[str, str]) -> None:
    if not expected:
        await stored(cluster, written(*edits))
        return
    with pytest.raises(ApiError) as refusal:
        await stored(cluster, written(*edits))
    for path, text in expected.items():
        assert_told(refusal.value, path, text)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("before", "after", "text"), SUBGROUP_CHANGES)
async def test_what_is_told_about_a_change(cluster: Cluster, before: list[Edit], after: list[Edit], text: str) -> None:
    client = cluster.client
    made = await client.create(LEADER_WORKER_SETS, written(*before, name="changed"), NAMESPACE)
    try:
        wanted = {**made, "spec": written(*after)["spec"]}
        with pytest.raises(ApiError) as refusal:
            await client.update(LEADER_WORKER_SETS, wanted, NAMESPACE, dry_run=True)
        assert_told(refusal.value, "spec.leaderWorkerTemplate.SubGroupPolicy.subGroupSize", text)
    finally:
        await client.delete(LEADER_WORKER_SETS, "changed", NAMESPACE)


@pytest.mark.asyncio(loop_scope="module")
async def test_everything_that_is_wrong_is_told_at_once(cluster: Cluster) -> None:
    """5.3: all violations together; row 9 comes in addition to row 7."""
    with pytest.raises(ApiError) as refusal:
        await stored(cluster, written(template(size=0), rolling(maxUnavailable=-1, maxSurge="ten")))
    assert refusal.value.message.count("Invalid value") == 4
    assert 'maxSurge: Invalid value: "ten": invalid value' in refusal.value.message
    details = refusal.value.status.details
    assert details is not None
    assert (details.kind, details.name, len(details.causes)) == ("LeaderWorkerSet", "test-sample", 4)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("replicas", ["3", 1.5, True, {}])
async def test_wrong_types_are_told_by_the_schema(cluster: Cluster, replicas: Json) -> None:
    with pytest.raises(Invalid, match=r"spec.replicas in body must be of type integer|must be of type int32"):
        await stored(cluster, written(spec(replicas=replicas)))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("content", [None, {}, {"leaderWorkerTemplate": None}, {"leaderWorkerTemplate": {}}])
async def test_a_set_without_content_is_told_what_it_lacks(cluster: Cluster, content: Json) -> None:
    with pytest.raises(Invalid, match=r"workerTemplate: Required value"):
        await stored(cluster, {**written(), "spec": content})


@pytest.mark.asyncio(loop_scope="module")
async def test_a_name_may_be_made_up_by_the_server(cluster: Cluster) -> None:
    subject = written()
    subject["metadata"] = {"generateName": "made-up-", "namespace": NAMESPACE}
    assert (await stored(cluster, subject))["metadata"]["name"].startswith("made-up-")


NO_STEP = rolling(maxUnavailable=0, maxSurge=0)


@pytest.mark.asyncio(loop_scope="module")
async def test_row_10_of_53_asks_for_nothing_where_there_is_nothing_to_roll(cluster: Cluster) -> None:
    """Both may be 0 with replicas 0; scaling goes past the webhook (1.4), so such a set can be scaled up."""
    client = cluster.client
    await client.create(LEADER_WORKER_SETS, written(spec(replicas=0), NO_STEP, name="resting"), NAMESPACE)
    try:
        body = {"spec": {"replicas": 2}}
        await client.patch(LEADER_WORKER_SETS, "resting", NAMESPACE, body, subresource="scale")
        with pytest.raises(ApiError, match="must not be 0 when `maxSurge` is 0"):
            await stored(cluster, written(NO_STEP))
    finally:
        await client.delete(LEADER_WORKER_SETS, "resting", NAMESPACE)


GUARDED = {
    "WV2": [spec(replicas=100_000), template(size=1_000_000)],
    "WV3": [template(size=-1)],
    "WV4": [spec(replicas=-1)],
    "WV5": [spec(replicas=1_000_001)],
    "WV6": [spec(startupPolicy="Sometime")],
    "WV7": [subgroups(-1)],
    "WV8": [subgroups(3)],
    "WV9": [template(size=4), subgroups(2, "LeaderExcluded")],
    "WV25": [template(restartPolicy="Never")],
    "WV28": [rolling(maxUnavailable="200%")],
    "WV29": [rolling(maxUnavailable=-1)],
    "WV31": [rolling(maxSurge="200%")],
    "WV32": [rolling(maxSurge=-1)],
    "WV33": [rolling(maxUnavailable=0, maxSurge=0)],
    "WV37": [rolling(partition=-1)],
    "no percentage": [rolling(maxSurge="ten")],
    "no width": [subgroups(None)],
}


async def test_the_schema_alone_guards_the_api_while_the_webhooks_are_away() -> None:
    async with Cluster(extra={"operator": lambda manager: register(manager, rollouts=False)}) as found:
        await found.client.delete(MUTATING_WEBHOOKS, MUTATING)
        await found.client.delete(VALIDATING_WEBHOOKS, VALIDATING)
        for row, edits in GUARDED.items():
            with pytest.raises(Invalid):
                await stored(found, written(*edits, name="x"))
                raise AssertionError(row)
        await stored(found, written(*EVERYTHING))
        await stored(found, written(rolling(maxUnavailable="25%", maxSurge="100%"), template(size=5), subgroups(2)))
