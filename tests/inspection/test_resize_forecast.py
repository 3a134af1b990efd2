"""What `plan` says about edits of cpu and memory, without a cluster."""

from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import LeaderWorkerSet, lws
from tests.inspection.scenes import group_set, leader_set, member, scene, workers

from kohort.groups.resize.preflight import PreflightFailure, PreflightRefusal
from kohort.inspection.awaited_groups import AwaitReason
from kohort.inspection.forecast import Forecast, forecast, forecast_lines
from kohort.inspection.messages import resize_forecast_lines
from kohort.inspection.resize_forecast import GroupReason, Preflight, ResizeMethod
from kohort.inspection.snapshot import group_of
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.rollout_types import Rollout
from kohort.rules.resource_edit import RecreateReason

SPEC = "spec.leaderWorkerTemplate.workerTemplate.spec"
CONTAINER = f"{SPEC}.containers.0"
BURSTABLE: JsonObject = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
MORE: JsonObject = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
GUARANTEED: JsonObject = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
OR_RECREATE, ONLY = "InPlaceOrRecreate", "InPlaceOnly"


def subject(resources: JsonObject, policy: str = "", replicas: int = 3, **container: Json) -> LeaderWorkerSet:
    built = lws("llm").replicas(replicas).size(2).but(f"{CONTAINER}.resources", resources)
    for key, value in container.items():
        built = built.but(f"{CONTAINER}.{key}", value)
    return built.but("spec.rolloutStrategy.resourceUpdatePolicy", policy) if policy else built


def pods_of(built: JsonObject, **resources: JsonObject) -> list[Pod]:
    """Pods as the operator makes them; those that are named have other resources."""
    found = group_set(built)
    spec = found.template.worker["spec"]
    pods = [member(group, worker) for group in range(found.replicas) for worker in range(2)]
    documents: list[JsonObject] = [msgspec.to_builtins(pod) for pod in pods]
    for one in documents:
        own = resources.get(one["metadata"]["name"].replace("-", "_"))
        containers = [{**each, **({"resources": own} if own else {})} for each in spec["containers"]]
        one["spec"] = {**spec, "containers": containers, "nodeName": one["spec"]["nodeName"]}
    return [msgspec.convert(one, Pod) for one in documents]


def foresee(
    before: JsonObject, after: JsonObject, failures: dict[int, PreflightFailure] | None = None, **resources: JsonObject
) -> Forecast:
    snapshot = scene(group_set(before).replicas, 2, built=before, pods=pods_of(before, **resources))
    return forecast(snapshot, group_set(after), preflight=Preflight(failures or {}))


def ways(found: Forecast) -> dict[int, tuple[ResizeMethod, object]]:
    assert found.resources is not None
    return {one.group: (one.way, one.reason) for one in found.resources.groups}


def lines(found: Forecast) -> list[str]:
    assert found.resources is not None
    return resize_forecast_lines(found.resources)


# With the policy Recreate, the other way is recommended


def test_the_command_that_does_it_in_place() -> None:
    found = foresee(subject(BURSTABLE), subject(MORE))
    assert (found.action, found.recreated) == ("roll", (2, 1, 0))
    assert lines(found) == [
        "Only cpu and memory change. Groups are recreated, because resourceUpdatePolicy is Recreate. Running pods "
        "could have them in place, without a restart, instead: kohort resize llm -n default --cpu 2 --policy "
        "InPlaceOrRecreate"
    ]


def test_an_edit_that_no_command_writes() -> None:
    found = foresee(subject(BURSTABLE), subject({**MORE, "limits": {"memory": "3Gi"}}))
    assert "set spec.rolloutStrategy.resourceUpdatePolicy to InPlaceOrRecreate" in lines(found)[0]


def test_a_policy_that_restarts() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    after = {"requests": {"cpu": "1", "memory": "3Gi"}, "limits": {"memory": "4Gi"}}
    found = foresee(subject(BURSTABLE, resizePolicy=policy), subject(after, resizePolicy=policy))
    assert "in place, restarting main, instead" in lines(found)[0]
    other = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    found = foresee(subject(BURSTABLE, resizePolicy=other), subject(after, resizePolicy=other))
    assert "without a restart" in lines(found)[0]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (GUARANTEED, BURSTABLE, "containers[main].resources.limits.cpu of leaders would be removed"),
        ({}, GUARANTEED, "the quality of service class of leaders would change from BestEffort to Guaranteed"),
    ],
)
def test_what_kubernetes_refuses(before: JsonObject, after: JsonObject, reason: str) -> None:
    found = foresee(subject(before), subject(after))
    assert lines(found) == [f"Only cpu and memory change, but not in place: {reason}."]


def test_other_edits_are_not_spoken_about() -> None:
    both = subject(GUARANTEED).but(f"{CONTAINER}.image", "new:2")
    assert foresee(subject(BURSTABLE), both).resources is None
    assert foresee(subject(BURSTABLE), subject(BURSTABLE)).resources is None
    gpus: JsonObject = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    assert foresee(subject(BURSTABLE), subject(gpus)).resources is None


def test_a_release_in_place_makes_no_canary() -> None:
    before, after = subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE).partition(1_000_000)
    document = {"metadata": {"name": "llm"}, "spec": {"strategy": {"canary": {"steps": [{"replicas": 2}, {}]}}}}
    snapshot = scene(3, 2, built=before, pods=pods_of(before), rollout=msgspec.convert(document, Rollout))
    found = forecast(snapshot, group_set(after))
    assert (found.action, found.extra_groups, found.extra_pods) == ("resize", 0, 0)
    assert ways(found) == dict.fromkeys((2, 1, 0), (ResizeMethod.IN_PLACE, None))
    assert "Rollout llm would release it in 2 steps, in place: no canary set is made" in "\n".join(
        forecast_lines(found)
    )


# With a policy for changes in place, each group has its way


def test_all_groups_in_place_from_the_highest_down() -> None:
    found = foresee(subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE))
    assert (found.action, found.recreated, found.fewest_serving) == ("resize", (), 3)
    assert [step.resized for step in found.steps] == [(2,), (1,), (0,)]
    assert ways(found) == dict.fromkeys((2, 1, 0), (ResizeMethod.IN_PLACE, None))
    assert found.extra_requests == {"cpu": "6"}
    assert lines(found) == ["In place: groups 2, 1, 0; 1 at a time (maxUnavailable), without a restart."]


def test_as_many_at_a_time_as_may_be_unavailable_and_none_below_the_partition() -> None:
    before = subject(BURSTABLE, OR_RECREATE, replicas=5).max_unavailable(2).partition(1)
    after = subject(MORE, OR_RECREATE, replicas=5).max_unavailable(2).partition(1)
    found = foresee(before, after)
    assert [step.resized for step in found.steps] == [(4, 3), (2, 1)]
    assert found.held == (0,)
    assert set(ways(found)) == {1, 2, 3, 4}
    assert "Held at the old revision by the partition: group 0." in forecast_lines(found)


FAILURE = PreflightFailure(PreflightRefusal.INFEASIBLE, "llm-1-1", "40 cpu requested, node node-1 has 32")


def test_a_group_that_can_never_follow_is_recreated() -> None:
    found = foresee(subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE), {1: FAILURE})
    assert (found.action, found.recreated) == ("roll", (1,))
    assert ways(found) == {
        2: (ResizeMethod.IN_PLACE, None),
        1: (ResizeMethod.RECREATE, PreflightRefusal.INFEASIBLE),
        0: (ResizeMethod.IN_PLACE, None),
    }
    assert any("llm-1-1 can never fit its node: 40 cpu requested" in line for line in lines(found))


def test_the_set_stops_at_a_group_that_may_only_follow_in_place() -> None:
    found = foresee(subject(BURSTABLE, ONLY), subject(MORE, ONLY), {1: FAILURE})
    assert (found.action, found.recreated) == ("resize", ())
    assert ways(found) == {
        2: (ResizeMethod.IN_PLACE, None),
        1: (ResizeMethod.REFUSED, PreflightRefusal.INFEASIBLE),
        0: (ResizeMethod.REFUSED, GroupReason.NOT_REACHED),
    }
    assert "Refused: group 0 (the set stops before it)." in lines(found)


def test_a_group_waits_for_its_quota_and_those_behind_it_too() -> None:
    failure = PreflightFailure(
        PreflightRefusal.QUOTA_EXCEEDED, "llm-1", "quota team: 2 more requests.cpu, 9 of 10 used"
    )
    found = foresee(subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE), {1: failure, 0: failure})
    assert ways(found)[1] == (ResizeMethod.REFUSED, PreflightRefusal.QUOTA_EXCEEDED)
    assert found.recreated == ()


def test_amounts_that_someone_else_set_are_left_alone() -> None:
    other = {"requests": {"cpu": "7", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    found = foresee(subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE), llm_1_1=other)
    assert ways(found)[1] == (ResizeMethod.REFUSED, GroupReason.CONFLICT)
    assert found.recreated == ()
    assert any("llm-1-1: containers[main].resources.requests.cpu differs" in line for line in lines(found))


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
def test_what_cannot_be_in_place_is_an_ordinary_roll(policy: str) -> None:
    found = foresee(subject(BURSTABLE, policy), subject(GUARANTEED, policy))
    assert (found.action, found.recreated) == ("roll", (2, 1, 0))
    assert ways(found) == dict.fromkeys((2, 1, 0), (ResizeMethod.RECREATE, RecreateReason.QOS_CHANGED))


def test_an_init_container_that_has_ended_is_named_with_its_field() -> None:
    def with_init(cpu: str) -> LeaderWorkerSet:
        one = {"name": "prep", "image": "prep", "resources": {"requests": {"cpu": cpu}}}
        return subject(BURSTABLE, OR_RECREATE).but(f"{SPEC}.initContainers", [one])

    found = foresee(with_init("1"), with_init("2")).resources
    assert found is not None
    (line,) = resize_forecast_lines(found)
    assert line == (
        "Recreated: groups 2, 1, 0 (initContainers[prep].resources.requests.cpu of leaders changes, and that init "
        "container has ended)."
    )


def test_groups_whose_containers_restart_are_not_ready_meanwhile() -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    before, after = (subject(one, ONLY, resizePolicy=policy) for one in (BURSTABLE, MORE))
    assert [step.serving for step in foresee(before, after).steps] == [2, 2, 2]
    assert [step.serving for step in foresee(subject(BURSTABLE, ONLY), subject(MORE, ONLY)).steps] == [3, 3, 3]


def test_no_group_is_added_for_a_resize_in_place() -> None:
    def surging(resources: JsonObject) -> LeaderWorkerSet:
        return subject(resources, ONLY, replicas=2).max_surge(1).max_unavailable(0)

    found = foresee(surging(BURSTABLE), surging(MORE))
    assert [(step.created, step.resized) for step in found.steps] == [((), (1,)), ((), (0,))]
    assert (found.extra_groups, found.extra_pods) == (0, 0)


# Groups that are not ready now


def foresee_with(
    policy: str, *, unready: Sequence[int] = (), held: Sequence[int] = (), nodes: Sequence[Node] = ()
) -> Forecast:
    """Of three groups, some are not ready, or are held."""
    budget: JsonObject = {"maxRestarts": 1}
    before, after = (
        subject(one, policy).but("spec.leaderWorkerTemplate.restartBudget", budget) for one in (BURSTABLE, MORE)
    )
    pods = pods_of(before)
    pods = [
        replace(pod, status=replace(pod.status, conditions=())) if group_of(pod) in unready else pod for pod in pods
    ]
    sets = [leader_set(3), *(workers(index, available=int(index not in unready)) for index in range(3))]
    wanted = group_set(before)
    restarts = {str(index): {"exhausted": {"leader": f"uid-llm-{index}"}} for index in held}
    wanted = replace(wanted, status=replace(wanted.status, restarts=restarts))
    snapshot = scene(3, 2, pods=pods, stateful_sets=sets, group_set=wanted)
    return forecast(snapshot, group_set(after), nodes)


def steps(found: Forecast) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]]:
    return [(step.resized, step.recreated, step.waits_for, step.serving) for step in found.steps]


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
def test_a_held_group_is_recreated(policy: str) -> None:
    found = foresee_with(policy, held=[1])
    assert steps(found) == [((2,), (), (), 2), ((), (1,), (), 2), ((0,), (), (), 3)]
    assert ways(found)[1] == (ResizeMethod.RECREATE, GroupReason.BROKEN)
    assert found.fewest_serving == 2


def test_a_held_group_gets_another_template_first() -> None:
    found = foresee_with("", held=[0])
    assert steps(found) == [((), (0,), (), 2), ((), (2,), (), 2), ((), (1,), (), 2)]


def test_groups_that_are_not_ready_come_last_when_they_are() -> None:
    found = foresee_with(OR_RECREATE, unready=[1])
    assert steps(found) == [((2,), (), (), 2), ((0,), (), (), 2), ((1,), (), (1,), 3)]
    assert [(one.group, one.reason, one.comes_back) for one in found.awaited] == [(1, AwaitReason.NOT_READY, True)]
    text = "\n".join(forecast_lines(found))
    assert "3. when group 1 is ready: resize group 1 in place (3 groups ready meanwhile)" in text
    assert "Waits for group 1: llm-1 is not ready yet." in text
    assert "Refused" not in text


def test_a_group_whose_pod_ends_is_waited_for() -> None:
    before, after = subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE)
    pods = [
        replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
        if pod.metadata.name == "llm-1-1"
        else pod
        for pod in pods_of(before)
    ]
    sets = [leader_set(3), *(workers(index, available=int(index != 1)) for index in range(3))]
    found = forecast(scene(3, 2, built=before, pods=pods, stateful_sets=sets), group_set(after))
    assert ways(found) == dict.fromkeys((2, 1, 0), (ResizeMethod.IN_PLACE, None))
    assert steps(found)[-1] == ((1,), (), (1,), 3)
    assert [one.pod for one in found.awaited] == ["llm-1-1"]


def test_a_group_without_leader_is_waited_for() -> None:
    before, after = subject(BURSTABLE, OR_RECREATE), subject(MORE, OR_RECREATE)
    pods = [pod for pod in pods_of(before) if group_of(pod) != 1]
    found = forecast(scene(3, 2, built=before, pods=pods), group_set(after))
    assert steps(found) == [((2,), (), (1,), 3), ((1,), (), (), 3), ((0,), (), (), 3)]


def test_a_node_that_does_not_report_is_named() -> None:
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    nodes = [
        msgspec.convert({"metadata": {"name": f"node-{index}"}, "status": {"conditions": [condition]}}, Node)
        for index in (1, 2)
    ]
    found = foresee_with(ONLY, unready=[1, 2], nodes=nodes)
    assert steps(found) == [((0,), (), (), 1), ((2,), (), (1, 2), 3), ((1,), (), (), 3)]
    assert [one.comes_back for one in found.awaited] == [False, False]
    assert "Waits for group 2: node node-2 of llm-2 has not been ready since 2026-01-01T00:00:00Z." in forecast_lines(
        found
    )
