"""Annotations and patches of a Deployment that is released in partition style, in the form of Kruise Rollouts."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.apps import Deployment, DeploymentSpec, DeploymentStrategy, ReplicaSet, RollingUpdateDeployment
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.workloads.partitioned_deployment import (
    PartitionStatus,
    PartitionStrategy,
    RollingLimits,
    expected_new,
    hold_again_patch,
    hold_patch,
    is_noted,
    is_partitioned,
    is_scaled,
    keep_partitioned,
    limits,
    new_replica_set,
    noted_size,
    partition_patch,
    read_strategy,
    scale_patch,
    status_patch,
)

STRATEGY = "rollouts.kruise.io/deployment-strategy"
STATUS = "rollouts.kruise.io/deployment-extra-status"
CONTROL = "batchrelease.rollouts.kruise.io/control-info"
LABEL = "rollouts.kruise.io/controlled-by-advanced-deployment-controller"
REVISION, DESIRED, MOST = (
    f"deployment.kubernetes.io/{one}" for one in ("revision", "desired-replicas", "max-replicas")
)


def deployment(
    strategy: str | None = None,
    *,
    labelled: bool = True,
    controlled: bool = False,
    replicas: int = 10,
    type: str = "Recreate",
    rolling: RollingUpdateDeployment | None = None,
    paused: bool = True,
) -> Deployment:
    annotations = {CONTROL: "{}"} if controlled else {}
    if strategy is not None:
        annotations[STRATEGY] = strategy
    metadata = ObjectMeta(
        name="web", namespace="shop", uid="u1", labels={LABEL: "true"} if labelled else {}, annotations=annotations
    )
    how = DeploymentStrategy(type=type, rolling_update=rolling)
    return Deployment(metadata=metadata, spec=DeploymentSpec(replicas=replicas, paused=paused, strategy=how))


def replica_set(size: int = 1, **annotations: str) -> ReplicaSet:
    names = {"revision": REVISION, "desired": DESIRED}
    found: JsonObject = {
        "metadata": {"name": "web-1", "annotations": {names[key]: text for key, text in annotations.items()}},
        "spec": {"replicas": size},
    }
    return msgspec.convert(found, ReplicaSet)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (deployment('{"rollingStyle":"Partition","partition":"40%"}'), PartitionStrategy("Partition", partition="40%")),
        (deployment('{"rollingStyle":"partition","partition":3}'), PartitionStrategy("partition", partition=3)),
        (deployment('{"paused":true}'), PartitionStrategy(paused=True)),
        (deployment("{}", labelled=False, controlled=True), PartitionStrategy()),
        (deployment("{}", labelled=False), None),
        (deployment('{"rollingStyle":"Canary"}'), None),
        (deployment(), None),
        (deployment("{"), None),
        (deployment('{"partition":[]}'), None),
    ],
)
def test_a_strategy_counts_on_a_deployment_that_a_partition_sizes(
    found: Deployment, expected: PartitionStrategy | None
) -> None:
    assert read_strategy(found) == expected
    assert is_partitioned(found) is (expected is not None)


@pytest.mark.parametrize("found", [deployment("{}", paused=False), deployment("{}", type="RollingUpdate")])
def test_a_deployment_that_its_own_controller_rolls_is_not_partitioned(found: Deployment) -> None:
    assert not is_partitioned(found)


@pytest.mark.parametrize(
    ("surge", "away", "replicas", "expected"),
    [
        (None, None, 10, (3, 2)),
        ("25%", "25%", 10, (3, 2)),
        (2, 0, 10, (2, 0)),
        (0, 3, 10, (0, 3)),
        ("1%", "1%", 10, (1, 0)),
        (0, "1%", 10, (0, 1)),
        (0, 0, 10, (0, 1)),
        (None, None, 0, (0, 1)),
    ],
)
def test_limits_are_those_of_the_rolling_update_of_the_user(
    surge: int | str | None, away: int | str | None, replicas: int, expected: tuple[int, int]
) -> None:
    assert limits(PartitionStrategy(rolling_update=RollingLimits(away, surge)), replicas) == expected


def test_without_limits_those_of_kubernetes_count() -> None:
    assert limits(PartitionStrategy(), 8) == (2, 2)


@given(st.integers(0, 200), st.integers(0, 100))
def test_some_but_not_all_of_a_percentage_leaves_pods_of_both_versions(replicas: int, percent: int) -> None:
    found = expected_new(PartitionStrategy(partition=f"{percent}%"), replicas)
    assert 0 <= found <= replicas
    if 0 < percent < 100 and replicas > 1:
        assert 0 < found < replicas
    if percent in (0, 100):
        assert found == replicas * percent // 100


def annotation(patch: JsonObject, name: str = STRATEGY) -> JsonObject:
    found: JsonObject = json.loads(patch["metadata"]["annotations"][name])
    return found


def test_a_hold_pauses_the_deployment_and_keeps_the_limits_of_the_user() -> None:
    patch = hold_patch(deployment(rolling=RollingUpdateDeployment(max_unavailable=1, max_surge="10%")), "owner")
    assert patch["metadata"]["labels"] == {LABEL: "true"}
    assert patch["metadata"]["annotations"][CONTROL] == "owner"
    assert annotation(patch) == {
        "rollingStyle": "Partition",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "10%"},
    }
    assert (
        patch["spec"]
        == hold_again_patch()["spec"]
        == {
            "paused": True,
            "strategy": {"type": "Recreate", "rollingUpdate": None},
        }
    )


def test_a_hold_that_is_repeated_keeps_the_limits_that_were_saved() -> None:
    saved = '{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":1,"maxSurge":2},"partition":"50%"}'
    assert annotation(hold_patch(deployment(saved), "owner")) == {
        "rollingStyle": "Partition",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 2},
    }


def test_a_hold_of_a_deployment_without_limits_saves_none() -> None:
    assert annotation(hold_patch(deployment(labelled=False), "owner")) == {"rollingStyle": "Partition"}


def test_a_step_moves_the_partition_and_goes_on() -> None:
    patch = partition_patch(PartitionStrategy("Partition", RollingLimits(1, 0), paused=True), "40%")
    assert annotation(patch) == {
        "rollingStyle": "Partition",
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        "partition": "40%",
    }


def test_a_status_is_written_once() -> None:
    status = PartitionStatus(updated_ready_replicas=2, expected_updated_replicas=4)
    patch = status_patch(deployment(), status)
    assert patch is not None
    assert annotation(patch, STATUS) == {"updatedReadyReplicas": 2, "expectedUpdatedReplicas": 4}
    said = ObjectMeta(name="web", annotations=patch["metadata"]["annotations"])
    assert status_patch(Deployment(metadata=said), status) is None


def edited(strategy: JsonObject | None, saved: str = '{"partition":2}') -> JsonObject:
    spec: JsonObject = {"paused": False} | ({"strategy": strategy} if strategy is not None else {})
    return {"metadata": {"annotations": {STRATEGY: saved}}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "changed", "expected"),
    [
        (edited(None), False, {"partition": 2}),
        (edited(None), True, {"partition": 2, "paused": True}),
        (edited({"type": "Recreate"}), False, {"partition": 2}),
        (edited({"rollingUpdate": {"maxSurge": 1}}), False, {"partition": 2, "rollingUpdate": {"maxSurge": 1}}),
        (edited({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}), False, {"partition": 2}),
        (edited(None, saved="{"), True, {"paused": True}),
    ],
)
def test_an_edit_during_a_release_stays_held(document: JsonObject, changed: bool, expected: JsonObject) -> None:
    before = json.dumps(document)
    kept = keep_partitioned(document, changed=changed)
    assert annotation(kept) == expected
    assert kept["spec"] == {"paused": True, "strategy": {"type": "Recreate"}}
    assert json.dumps(document) == before


def test_a_new_version_gets_a_replica_set_without_pods() -> None:
    spec: JsonObject = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
    }
    known = [replica_set(revision="4"), replica_set(revision="7"), replica_set(revision="x")]
    found = new_replica_set(deployment(), PartitionStrategy(), spec, known)
    hash = found["metadata"]["labels"]["pod-template-hash"]
    labels = {"app": "web", "pod-template-hash": hash}
    assert found["metadata"]["name"] == f"web-{hash}"
    assert found["metadata"]["annotations"] == {REVISION: "8", DESIRED: "10", MOST: "13"}
    assert found["metadata"]["labels"] == found["spec"]["template"]["metadata"]["labels"] == labels
    assert found["spec"]["selector"] == {"matchLabels": labels}
    assert found["spec"]["replicas"] == 0
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "u1", True)
    assert spec["template"]["metadata"]["labels"] == {"app": "web"}
    assert spec["selector"] == {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([replica_set(desired="10")], False),
        ([replica_set(desired="9")], True),
        ([replica_set(0, desired="9")], False),
        ([replica_set()], False),
        ([replica_set(desired="10"), replica_set(desired="9")], True),
        ([], False),
    ],
)
def test_a_deployment_is_scaled_until_all_its_replica_sets_say_so(known: list[ReplicaSet], expected: bool) -> None:
    assert is_scaled(deployment(), known) is expected


def test_a_replica_set_is_sized_together_with_what_it_says_of_the_deployment() -> None:
    strategy = PartitionStrategy(rolling_update=RollingLimits(max_surge=2))
    patch = scale_patch(deployment(), strategy, 4, "10")
    assert patch == {"metadata": {"annotations": {DESIRED: "10", MOST: "12"}}, "spec": {"replicas": 4}}


@pytest.mark.parametrize(
    ("size", "others_drain", "noted"), [(4, True, "10"), (10, True, None), (10, False, "10"), (0, False, "10")]
)
def test_a_replica_set_is_not_full_for_its_deployment_while_others_drain(
    size: int, others_drain: bool, noted: str | None
) -> None:
    """The controller of Deployments would delete the pods of all others at once."""
    assert noted_size(deployment(), size, others_drain=others_drain) == noted
    assert is_noted(replica_set(desired="10"), "10") and is_noted(replica_set(), None)
    assert not is_noted(replica_set(desired="10"), None)
