"""Every part that asks how many replicas a step means gets the same answer, for each kind of workload and style."""

from collections.abc import Callable
from typing import cast

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.rollouts.observations import WORKLOAD, observation, progress

from kohort.dashboard.release_page import rail
from kohort.inspection.rollout_plan import forecast_of_rollout
from kohort.kube.client import Client
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts import release_state_machine, step_state_machine
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.release_state import Observation
from kohort.rollouts.rollout_controller import desired_replicas
from kohort.rollouts.rollout_types import BatchRelease, ReleaseSpec, Rollout, WorkloadRef
from kohort.rollouts.workloads import partitioned_deployment, stateful_set_hold
from kohort.rollouts.workloads.deployment_control import DeploymentControl
from kohort.rollouts.workloads.group_control import GroupControl
from kohort.rollouts.workloads.model import WorkloadOperations
from kohort.rollouts.workloads.partitioned_deployment import PartitionStrategy
from kohort.rollouts.workloads.stateful_set_control import StatefulSetControl
from kohort.rules import rollout_labels

CONTROLS: dict[Resource, Callable[[Client, RolloutCache], WorkloadOperations]] = {
    LEADER_WORKER_SETS: GroupControl,
    DEPLOYMENTS: DeploymentControl,
    STATEFUL_SETS: StatefulSetControl,
}
STYLES: dict[str, tuple[str, bool]] = {
    rollout_labels.CANARY: ("canary", True),
    rollout_labels.PARTITION: ("canary", False),
    rollout_labels.BLUE_GREEN: ("blueGreen", False),
}
RELEASED = [
    (resource, style)
    for resource in (LEADER_WORKER_SETS, DEPLOYMENTS)
    for style in (rollout_labels.CANARY, rollout_labels.PARTITION, rollout_labels.BLUE_GREEN)
] + [(STATEFUL_SETS, rollout_labels.PARTITION)]
released = st.sampled_from(RELEASED)
percentages = st.integers(0, 100).map(lambda number: f"{number}%")
wanted_of_steps = st.one_of(st.integers(0, 60), percentages)
replicas_of_workloads = st.integers(0, 50)


def rollout_of(resource: Resource, style: str, *wanted: int | str) -> Rollout:
    field, extra = STYLES[style]
    steps = [{"replicas": one} for one in wanted]
    document: JsonObject = {
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {
            "workloadRef": {"apiVersion": resource.api_version, "kind": resource.kind, "name": "llm"},
            "strategy": {field: {"steps": steps, "enableExtraWorkloadForCanary": extra}},
        },
    }
    return msgspec.convert(document, Rollout)


def observed(rollout: Rollout, replicas: int, step: int = 1) -> Observation:
    workload = msgspec.structs.replace(WORKLOAD, replicas=replicas)
    return observation(rollout, progress(step), workload=workload)


def release_of(seen: Observation, batch: int) -> BatchRelease:
    plan = step_state_machine.wanted_plan(seen, batch)
    ref = WorkloadRef.to(seen.rollout.spec.workload_ref.resource, "llm")
    return BatchRelease(ObjectMeta(name="llm"), ReleaseSpec(ref, plan))


def planned_by_control(resource: Resource, seen: Observation, replicas: int) -> int:
    control = CONTROLS[resource](cast("Client", None), cast("RolloutCache", None))
    return control.planned(release_of(seen, 0), 0, replicas)


@given(released, wanted_of_steps, replicas_of_workloads)
@example((DEPLOYMENTS, rollout_labels.PARTITION), "95%", 10)
@example((DEPLOYMENTS, rollout_labels.BLUE_GREEN), "95%", 10)
def test_all_who_ask_get_the_same_answer(kind: tuple[Resource, str], wanted: int | str, replicas: int) -> None:
    resource, style = kind
    rollout = rollout_of(resource, style, wanted)
    seen = observed(rollout, replicas)
    made = planned_by_control(resource, seen, replicas)
    answers = {
        "the state machine": seen.planned(seen.step),
        "the metric": desired_replicas(seen, seen.state),
        "the plan": forecast_of_rollout(None, rollout, replicas, ()).steps[0].replicas,
        "the page of a release": rail(rollout, replicas, None)[0].groups,
    }
    if resource is STATEFUL_SETS:
        answers["the webhook"] = stateful_set_hold.planned(wanted, replicas)
    if resource is DEPLOYMENTS and style == rollout_labels.PARTITION:
        answers["the sizes of ReplicaSets"] = partitioned_deployment.expected_new(
            PartitionStrategy(partition=wanted), replicas
        )
    assert answers == dict.fromkeys(answers, made)


@given(released, wanted_of_steps, wanted_of_steps, replicas_of_workloads)
def test_a_changed_plan_goes_on_where_the_control_has_come_to(
    kind: tuple[Resource, str], before: int | str, after: int | str, replicas: int
) -> None:
    resource, style = kind
    seen = observed(rollout_of(resource, style, before), replicas)
    reached = planned_by_control(resource, seen, replicas)
    changed = observed(rollout_of(resource, style, after, "100%"), replicas)
    enough = planned_by_control(resource, changed, replicas) >= reached
    here = msgspec.structs.replace(changed, release=release_of(seen, 0))
    assert release_state_machine.fitting_step(here) == (1 if enough else 2)


@pytest.mark.parametrize("style", [rollout_labels.BLUE_GREEN, rollout_labels.PARTITION])
def test_a_plan_whose_steps_differ_in_spelling_only_goes_on_at_the_same_step(style: str) -> None:
    """Nine of ten pods have the new version at "95%" of one Deployment, and "90%" wants nine."""
    seen = observed(rollout_of(DEPLOYMENTS, style, "95%"), 10)
    changed = observed(rollout_of(DEPLOYMENTS, style, "90%", "100%"), 10)
    here = msgspec.structs.replace(changed, release=release_of(seen, 0))
    assert release_state_machine.fitting_step(here) == 1
