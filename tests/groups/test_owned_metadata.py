"""Templates with labels and annotations that the operator itself writes: groups become ready nevertheless, or the set
is refused when it is created."""

import copy

import pytest
from tests.builders import Built, lws
from tests.groups.test_pod_mutation import TPU, labels, leader, worker

from kohort.groups.pod_mutation import PodRefused, mutated
from kohort.groups.validation import create_errors, update_errors
from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

TEMPLATE = "spec.leaderWorkerTemplate"
LABELS = {
    group_labels.NAME: "other",
    group_labels.REVISION: "other",
    group_labels.WORKER_INDEX: "0",
    group_labels.GROUP_KEY: "other",
    group_labels.SUBGROUP_INDEX: "other",
    group_labels.SUBGROUP_KEY: "other",
}
ANNOTATIONS = {
    group_labels.SIZE: "7",
    group_labels.REPLICAS: "7",
    group_labels.SUBGROUP_SIZE: "2",
    group_labels.SUBGROUP_POLICY: "LeaderExcluded",
    group_labels.LEADER_REQUESTS_TPUS: "true",
    group_labels.HELD_UNTIL: "2099-01-01T00:00:00Z",
    group_labels.GROUP_RESIZE: "other",
}


def carrying(part: str, key: str, value: str, size: int = 2) -> Built:
    """`part` is `leaderTemplate`, or `workerTemplate`, which is that of leaders, too, where they have none."""
    subject = lws("llm").replicas(2).size(size)
    if part == "leaderTemplate":
        subject = subject.but(f"{TEMPLATE}.{part}", copy.deepcopy(subject.at(f"{TEMPLATE}.workerTemplate")))
    kind = "labels" if key in LABELS or key == group_labels.GROUP_INDEX else "annotations"
    return subject.merged(f"{TEMPLATE}.{part}.metadata.{kind}", {key: value})


async def becomes_available(subject: Built) -> list[JsonObject]:
    async with Cluster(parts=("workloads", "scheduler", "operator"), nodes=2) as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, subject, "default")

        def available() -> bool:
            status = (cluster.find(LEADER_WORKER_SETS, "llm", "default") or {}).get("status") or {}
            return any(one["type"] == "Available" and one["status"] == "True" for one in status.get("conditions") or ())

        await cluster.until(available, timeout=60)
        return cluster.objects(PODS, "default")


@pytest.mark.parametrize("part", ["leaderTemplate", "workerTemplate"])
@pytest.mark.parametrize(("key", "value"), [*LABELS.items(), *ANNOTATIONS.items()])
async def test_most_of_them_are_overwritten_or_do_not_matter(part: str, key: str, value: str) -> None:
    await becomes_available(carrying(part, key, value))


@pytest.mark.parametrize("part", ["leaderTemplate", "workerTemplate"])
@pytest.mark.parametrize("value", ["0", "1", "abc"])
async def test_the_name_of_a_leader_decides_which_group_it_leads(part: str, value: str) -> None:
    """All leaders had the index of the template: the other groups got no workers, or were not counted."""
    pods = await becomes_available(carrying(part, group_labels.GROUP_INDEX, value))
    found = {pod["metadata"]["name"]: pod["metadata"]["labels"][group_labels.GROUP_INDEX] for pod in pods}
    assert found == {"llm-0": "0", "llm-0-1": "0", "llm-1": "1", "llm-1-1": "1"}
    addresses = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["env"][0]["value"].partition(".")[0] for pod in pods
    }
    assert addresses == {"llm-0": "llm-0", "llm-0-1": "llm-0", "llm-1": "llm-1", "llm-1-1": "llm-1"}


def test_a_pod_that_is_not_named_as_a_leader_keeps_its_index() -> None:
    stray = leader("other-7")
    stray["metadata"]["labels"][group_labels.GROUP_INDEX] = "3"
    assert labels(stray)[group_labels.GROUP_INDEX] == "3"


def test_a_worker_whose_subgroup_is_given_needs_no_subgroup_size() -> None:
    given = worker(subgroup_size="abc")
    with pytest.raises(PodRefused, match="subgroup size annotation 'abc' of pod test-1-1 is not a positive number"):
        mutated(given, "default")
    given["metadata"]["labels"][group_labels.SUBGROUP_INDEX] = "3"
    assert labels(given)[group_labels.SUBGROUP_INDEX] == "3"


def test_a_pod_with_tpus_and_an_index_that_is_no_number_is_refused_in_words() -> None:
    given = worker(subgroup_size="2")
    given["metadata"]["labels"][group_labels.SUBGROUP_INDEX] = "abc"
    given["spec"]["containers"][0]["resources"] = TPU
    with pytest.raises(PodRefused, match="subgroup index label 'abc' of pod test-1-1 is not a number"):
        mutated(given, "default")


NEVER_READY = [
    ("leaderTemplate", group_labels.LEADER_NAME, "x", "a leader that has this annotation gets no workers; remove it"),
    ("workerTemplate", group_labels.LEADER_NAME, "x", "a leader that has this annotation gets no workers; remove it"),
    ("workerTemplate", group_labels.SUBGROUP_SIZE, "abc", "must be a number above 0, or no worker could be created"),
    ("workerTemplate", group_labels.SUBGROUP_SIZE, "0", "must be a number above 0, or no worker could be created"),
]


@pytest.mark.parametrize(("part", "key", "value", "text"), NEVER_READY)
async def test_what_could_never_become_ready_is_refused(part: str, key: str, value: str, text: str) -> None:
    async with Cluster(parts=("operator",)) as cluster:
        with pytest.raises(ApiError) as refused:
            await cluster.client.create(LEADER_WORKER_SETS, carrying(part, key, value), "default")
    assert f"{TEMPLATE}.{part}.metadata.annotations.{key}" in refused.value.message
    assert text in refused.value.message


@pytest.mark.parametrize(("part", "key", "value", "text"), NEVER_READY)
def test_a_set_that_has_it_already_can_be_edited(part: str, key: str, value: str, text: str) -> None:
    stored = carrying(part, key, value)
    assert update_errors(stored.but("spec.replicas", 5), stored) == []
    clean = lws("llm").replicas(2).size(2)
    assert update_errors(stored, clean) and not update_errors(clean, stored)


@pytest.mark.parametrize(
    "subject",
    [
        carrying("leaderTemplate", group_labels.LEADER_NAME, "x", size=1),
        carrying("leaderTemplate", group_labels.LEADER_NAME, ""),
        carrying("leaderTemplate", group_labels.SUBGROUP_SIZE, "abc"),
        carrying("workerTemplate", group_labels.SUBGROUP_SIZE, "abc", size=1),
        carrying("workerTemplate", group_labels.SUBGROUP_SIZE, "abc").merged(
            f"{TEMPLATE}.workerTemplate.metadata.labels", {group_labels.SUBGROUP_INDEX: "0"}
        ),
    ],
)
async def test_what_becomes_ready_is_not_refused(subject: Built) -> None:
    assert create_errors(subject) == []
    await becomes_available(subject)


async def test_workers_may_have_the_name_of_their_leader_in_their_own_template() -> None:
    """Where leaders have a template of their own, the operator overwrites it."""
    subject = carrying("workerTemplate", group_labels.LEADER_NAME, "x")
    own = copy.deepcopy(lws("llm").at(f"{TEMPLATE}.workerTemplate"))
    await becomes_available(subject.but(f"{TEMPLATE}.leaderTemplate", own))
