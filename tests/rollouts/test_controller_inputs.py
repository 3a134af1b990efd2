"""What the controllers make of an observation: requests for traffic, what may be deleted, what is written."""

import msgspec
import pytest
from tests.rollouts.observations import WORKLOAD, observation, progress, release, rollout

from kohort.kube.clock import parse_time
from kohort.objects.json_types import Json
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.batchrelease_controller import may_delete_canary, release_document
from kohort.rollouts.release_state import State
from kohort.rollouts.rollout_controller import traffic_request
from kohort.rollouts.rollout_types import (
    BatchRelease,
    ReleaseCanaryStatus,
    ReleasePlan,
    ReleaseSpec,
    ReleaseStatus,
    Rollout,
    RolloutStatus,
    WorkloadRef,
)
from kohort.rollouts.workloads.workload_control import batch_label, is_blue_green, may_shrink, release_id
from kohort.rules import group_labels, rollout_labels

# Requests for traffic


def test_a_request_names_both_versions_and_the_step() -> None:
    pinned = {group_labels.WORKER_INDEX: "0"}
    workload = msgspec.structs.replace(WORKLOAD, pinned=pinned)
    request = traffic_request(observation(found=progress(2, grace_times={"pin": "x"}), workload=workload))
    selectors = request.selectors
    assert (selectors.revision_key, selectors.stable_revision) == (group_labels.REVISION, "aaa")
    assert (selectors.canary_revision, dict(selectors.pinned)) == ("bbb", pinned)
    assert (request.step.weight, dict(request.grace_times)) == (50, {"pin": "x"})
    assert (request.namespace, request.owner["uid"], request.owner["kind"]) == ("default", "uid", "Rollout")
    assert request.since == parse_time(progress(2).last_update_time)


def test_a_request_without_a_workload_pins_nothing() -> None:
    request = traffic_request(observation(workload=None))
    assert (dict(request.selectors.pinned), request.serving) == ({}, None)


def test_a_request_before_the_first_release_knows_no_version() -> None:
    here = observation()
    request = traffic_request(here.with_state(State(rollout_labels.HEALTHY, progress=progress(1, revision_key=""))))
    assert request.selectors.revision_key == ""


@pytest.mark.parametrize(("disabled", "labels"), [(False, {"track": "canary"}), (True, {})])
def test_labels_of_the_canary_select_only_where_it_has_a_service(disabled: bool, labels: dict[str, str]) -> None:
    patch = {"labels": {"track": "canary"}}
    subject = rollout(patchPodTemplateMetadata=patch, disableGenerateCanaryService=disabled)
    request = traffic_request(observation(subject), appends=True)
    assert dict(request.selectors.patched) == labels
    assert request.generates_canary_service is not disabled
    assert request.selectors.appends


# Deleting canaries


def at(phase: str, finalising: str = "") -> Rollout:
    document = State(phase, "", (), progress(2, finalising_step=finalising)).document(1, blue_green=False)
    return msgspec.structs.replace(rollout(), status=msgspec.convert(document, RolloutStatus))


@pytest.mark.parametrize(
    ("subject", "may"),
    [
        (None, True),
        (rollout(), True),
        (at("Healthy"), True),
        (at("Disabled"), True),
        (at("Progressing"), False),
        (at("Progressing", rollout_labels.TO_STABLE), False),
        (at("Progressing", rollout_labels.RESUME), False),
        (at("Progressing", rollout_labels.RELEASE_CONTROL), True),
        (at("Progressing", rollout_labels.END), True),
        (at("Terminating", rollout_labels.TO_STABLE), False),
        (at("Terminating", rollout_labels.RELEASE_CONTROL), True),
        (at("Disabling"), False),
    ],
)
def test_a_canary_is_deleted_only_when_no_route_leads_to_it(subject: Rollout | None, may: bool) -> None:
    assert may_delete_canary(release(0), subject) is may


# Statuses of releases


def test_the_batch_of_a_release_is_always_written() -> None:
    status = ReleaseStatus(phase="Progressing", canary_status=ReleaseCanaryStatus(current_batch=0))
    assert release_document(status)["canaryStatus"]["currentBatch"] == 0
    assert release_document(ReleaseStatus()) == {}


def annotated(annotations: dict[str, str], batch: int | None = 1, style: str = "Canary") -> BatchRelease:
    plan = ReleasePlan(batch_partition=batch, rolling_style=style)
    return BatchRelease(ObjectMeta(name="llm", annotations=annotations), ReleaseSpec(release_plan=plan))


@pytest.mark.parametrize(
    ("annotations", "shrinks"),
    [
        ({}, False),
        ({rollout_labels.SHRINK: "1"}, True),
        ({rollout_labels.SHRINK: "0"}, False),
        ({rollout_labels.WITHDRAWN: "true"}, True),
    ],
)
def test_a_canary_shrinks_for_one_batch_at_a_time(annotations: dict[str, str], shrinks: bool) -> None:
    assert may_shrink(annotated(annotations)) is shrinks


@pytest.mark.parametrize(("style", "expected"), [("Canary", False), ("BlueGreen", True), ("", False)])
def test_the_style_of_a_release(style: str, expected: bool) -> None:
    assert is_blue_green(annotated({}, style=style)) is expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, None),
        ({rollout_labels.ROLLOUT_ID: "7", rollout_labels.BATCH_ID: "2"}, 2),
        ({rollout_labels.ROLLOUT_ID: "6", rollout_labels.BATCH_ID: "2"}, None),
        ({rollout_labels.ROLLOUT_ID: "7", rollout_labels.BATCH_ID: "x"}, None),
    ],
)
def test_the_batch_of_a_pod_counts_only_for_its_release(labels: dict[str, str], expected: int | None) -> None:
    assert batch_label(labels, "7") == expected


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {}, ""),
        ({rollout_labels.ROLLOUT_ID: "a"}, {}, "a"),
        ({}, {rollout_labels.ROLLOUT_ID: "b"}, "b"),
        ({rollout_labels.ROLLOUT_ID: "a"}, {rollout_labels.ROLLOUT_ID: "b"}, "a"),
    ],
)
def test_a_release_is_named_by_a_label_or_an_annotation(
    labels: dict[str, str], annotations: dict[str, str], expected: str
) -> None:
    subject = BatchRelease(ObjectMeta(labels=labels, annotations=annotations))
    assert release_id(subject) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rollout_id": "7"}, "7"),
        ({"in_rollback": True}, "rollback-v2"),
        ({}, "v2"),
    ],
)
def test_the_id_of_a_release_without_a_name_is_its_version(change: dict[str, Json], expected: str) -> None:
    assert msgspec.structs.replace(WORKLOAD, **change).release_id == expected


# References to workloads


@pytest.mark.parametrize(
    ("version", "kind", "group_set", "deployment"),
    [
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", True, False),
        ("workload.kubernetes.io/v1alpha1", "LeaderWorkerSet", True, False),
        ("apps/v1", "Deployment", False, True),
        ("apps/v1beta1", "Deployment", False, True),
        ("apps/v1", "StatefulSet", False, False),
        ("apps.kruise.io/v1alpha1", "CloneSet", False, False),
        ("v1", "Deployment", False, False),
    ],
)
def test_kinds_of_workloads(version: str, kind: str, group_set: bool, deployment: bool) -> None:
    ref = WorkloadRef(version, kind, "x")
    assert (ref.is_group_set, ref.is_deployment) == (group_set, deployment)


def test_versions_of_a_group_name_the_same_workload() -> None:
    one, other = (WorkloadRef(f"apps/{version}", "Deployment", "web") for version in ("v1", "v1beta1"))
    assert one.identity == other.identity
