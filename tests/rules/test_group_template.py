"""Which edits of a set make a new revision: the controller of groups and the webhook of releases say the same."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.groups import revisions
from kohort.groups.defaulting import defaulted
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads.update_admission import AdmissionContext, admit_group_set
from kohort.rules import rollout_labels
from kohort.rules.group_template import (
    earlier_fingerprint,
    has_fingerprint,
    leader_field,
    leader_template,
    revision_fingerprint,
    revision_key,
    same_revision,
)

CONTAINER: JsonObject = {
    "name": "main",
    "image": "model:1",
    "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
}
SPEC: JsonObject = {
    "replicas": 2,
    "leaderWorkerTemplate": {
        "size": 2,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "workerTemplate": {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [CONTAINER]}},
    },
    "networkConfig": {"subdomainPolicy": "Shared"},
}
WORKER = ("leaderWorkerTemplate", "workerTemplate")
MAIN = (*WORKER, "spec", "containers", 0)

NO_NEW_REVISION: dict[str, tuple[tuple[str | int, ...], Json]] = {
    "cpu spelled differently": ((*MAIN, "resources", "requests", "cpu"), "1"),
    "memory spelled differently": ((*MAIN, "resources", "requests", "memory"), "1Gi"),
    "hostNetwork false": ((*WORKER, "spec", "hostNetwork"), False),
    "empty environment": ((*MAIN, "env"), []),
    "tty false": ((*MAIN, "tty"), False),
    "creationTimestamp null": ((*WORKER, "metadata", "creationTimestamp"), None),
    "empty annotations": ((*WORKER, "metadata", "annotations"), {}),
    "resizePolicy": (("leaderWorkerTemplate", "resizePolicy"), "Recreate"),
    "no claims": (("leaderWorkerTemplate", "volumeClaimTemplates"), []),
    "network left out": (("networkConfig",), None),
    "restart policy left to the default": (("leaderWorkerTemplate", "restartPolicy"), None),
    "replicas": (("replicas",), 5),
    "startup policy": (("startupPolicy",), "LeaderReady"),
    "strategy": (("rolloutStrategy",), {"type": "RollingUpdate"}),
}
NEW_REVISION: dict[str, tuple[tuple[str | int, ...], Json]] = {
    "image": ((*MAIN, "image"), "model:2"),
    "more cpu": ((*MAIN, "resources", "requests", "cpu"), "1001m"),
    "hostNetwork true": ((*WORKER, "spec", "hostNetwork"), True),
    "size": (("leaderWorkerTemplate", "size"), 3),
    "label": ((*WORKER, "metadata", "labels", "tier"), "gpu"),
    "network": (("networkConfig", "subdomainPolicy"), "UniquePerReplica"),
    "restart policy": (("leaderWorkerTemplate", "restartPolicy"), "None"),
    "explicit zero of a pointer": ((*WORKER, "spec", "terminationGracePeriodSeconds"), 0),
    "leader template of its own": (("leaderWorkerTemplate", "leaderTemplate"), {"spec": {"containers": [CONTAINER]}}),
    "field of a newer Kubernetes": ((*WORKER, "spec", "fromTheFuture"), True),
}


def edited(path: tuple[str | int, ...], value: Json, spec: JsonObject = SPEC) -> JsonObject:
    """The spec with one value replaced; None removes it."""
    result: Json = copy.deepcopy(spec)
    place: Json = result
    for step in path[:-1]:
        place = place[step] if step in place or isinstance(step, int) else place.setdefault(step, {})
    if value is None and path[-1] != "creationTimestamp":
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value
    found: JsonObject = result
    return found


def starts_release(old: JsonObject, new: JsonObject) -> bool:
    """Whether the webhook holds the set, which is how a release starts."""
    rollout = Rollout(metadata=ObjectMeta(name="llm", namespace="default"))
    context = AdmissionContext(rollout, live_revision="key")
    documents = [{"metadata": {"name": "llm", "namespace": "default"}, "spec": spec} for spec in (new, old)]
    admitted = admit_group_set(documents[0], documents[1], context)
    return rollout_labels.IN_PROGRESSING in (admitted.document["metadata"].get("annotations") or {})


def rolls_groups(old: JsonObject, new: JsonObject) -> bool:
    """Whether the controller of sets finds that the set is not at its stored revision any more."""
    before, after = (LeaderWorkerSet(metadata=ObjectMeta(name="llm", uid="u"), spec=one) for one in (old, new))
    stored = msgspec.convert(revisions.build(before, []), Revision)
    return not revisions.same(after, stored)


def as_stored(spec: JsonObject) -> JsonObject:
    found: JsonObject = defaulted({"metadata": {"name": "llm"}, "spec": spec})["spec"]
    return found


@pytest.mark.parametrize(("path", "value"), NO_NEW_REVISION.values(), ids=list(NO_NEW_REVISION))
def test_edits_that_make_no_revision_start_no_release(path: tuple[str | int, ...], value: Json) -> None:
    new = edited(path, value)
    assert not rolls_groups(SPEC, as_stored(new))
    assert not starts_release(SPEC, new)
    assert not starts_release(as_stored(new), SPEC)


@pytest.mark.parametrize(("path", "value"), NEW_REVISION.values(), ids=list(NEW_REVISION))
def test_edits_that_make_a_revision_start_a_release(path: tuple[str | int, ...], value: Json) -> None:
    new = edited(path, value)
    assert rolls_groups(SPEC, as_stored(new))
    assert starts_release(SPEC, new)
    assert revision_key(as_stored(new)) != revision_key(SPEC)


_quantities = st.sampled_from(["1", "1000m", "2", "2000m", "0.5", "500m", "1024Mi", "1Gi", "1e3", "0", 1])
_flags = st.sampled_from([True, False, None])
_containers = st.fixed_dictionaries(
    {"name": st.just("main"), "image": st.sampled_from(["model:1", "model:2"])},
    optional={
        "tty": _flags,
        "env": st.sampled_from([None, [], [{"name": "A", "value": ""}], [{"name": "A"}]]),
        "resources": st.fixed_dictionaries(
            {}, optional={"requests": st.dictionaries(st.sampled_from(["cpu", "memory"]), _quantities, max_size=2)}
        ),
        "securityContext": st.sampled_from([None, {}, {"privileged": False}, {"runAsUser": 0}]),
    },
)
_pod_templates = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": st.lists(_containers, min_size=1, max_size=1)})},
    optional={
        "metadata": st.sampled_from([{}, {"labels": {}}, {"labels": {"a": "b"}}, {"creationTimestamp": None}]),
    },
)
_specs = st.fixed_dictionaries(
    {
        "leaderWorkerTemplate": st.fixed_dictionaries(
            {"workerTemplate": _pod_templates, "size": st.sampled_from([1, 2])},
            optional={
                "leaderTemplate": st.none() | _pod_templates,
                "restartPolicy": st.sampled_from([None, "", "Default", "None", "RecreateGroupOnPodRestart"]),
                "resizePolicy": st.sampled_from(["None", "Recreate"]),
                "volumeClaimTemplates": st.sampled_from([None, [], [{"metadata": {"name": "c"}, "spec": {}}]]),
            },
        ),
    },
    optional={
        "replicas": st.integers(1, 3),
        "networkConfig": st.sampled_from([None, {}, {"subdomainPolicy": "Shared"}, {"subdomainPolicy": "Other"}]),
    },
)


@given(old=_specs, new=_specs)
def test_a_release_starts_exactly_when_groups_would_roll(old: JsonObject, new: JsonObject) -> None:
    before = as_stored(old)
    assert starts_release(before, new) == rolls_groups(before, as_stored(new))


@given(one=_specs, other=_specs)
def test_key_and_fingerprint_agree_with_equality(one: JsonObject, other: JsonObject) -> None:
    same = same_revision(one, other)
    assert (revision_fingerprint(one) == revision_fingerprint(other)) == same
    assert not same or revision_key(one) == revision_key(other)


def test_a_fingerprint_that_an_earlier_version_recorded_is_known_again() -> None:
    assert earlier_fingerprint(SPEC) == "847bw469f9", "computed by the version before"
    assert earlier_fingerprint(SPEC) != revision_fingerprint(SPEC)
    for recorded in (earlier_fingerprint(SPEC), revision_fingerprint(SPEC)):
        assert has_fingerprint(SPEC, recorded)
        assert not has_fingerprint(edited(*NEW_REVISION["image"]), recorded)
    assert not has_fingerprint(SPEC, "")


OWN, WORKERS = {"spec": {"hostname": "leader"}}, {"spec": {"hostname": "worker"}}


@pytest.mark.parametrize(
    ("template", "field", "expected"),
    [
        ({"leaderTemplate": OWN, "workerTemplate": WORKERS}, "leaderTemplate", OWN),
        ({"workerTemplate": WORKERS}, "workerTemplate", WORKERS),
        ({"leaderTemplate": None, "workerTemplate": WORKERS}, "workerTemplate", WORKERS),
        ({"leaderTemplate": {}, "workerTemplate": WORKERS}, "workerTemplate", WORKERS),
        ({"workerTemplate": None}, "workerTemplate", {}),
        ({}, "workerTemplate", {}),
    ],
)
def test_leaders_without_a_template_of_their_own_are_made_like_workers(
    template: JsonObject, field: str, expected: JsonObject
) -> None:
    assert (leader_field(template), leader_template(template)) == (field, expected)
