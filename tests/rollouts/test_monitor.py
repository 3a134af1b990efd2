"""The monitor itself: a release that keeps the invariants passes, and each of them, broken once, is named."""

import copy
from collections.abc import Callable

import pytest
from tests.rollouts.monitor import Monitor
from tests.rollouts.routes import NGINX, VIRTUAL_SERVICES, Share, share_of

from kohort.kube.resources import (
    BATCH_RELEASES,
    HTTP_ROUTES,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels

OLD, NEW = "aaa", "bbb"


def named(name: str, labels: JsonObject | None = None, annotations: JsonObject | None = None) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {}, "status": {}}


def pod(name: str, group_set: str, revision: str, *, worker: str = "0", ready: bool = True) -> JsonObject:
    labels = {
        group_labels.NAME: group_set,
        group_labels.REVISION: revision,
        group_labels.WORKER_INDEX: worker,
        "app": "llm",
    }
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return named(name, labels) | {"status": {"conditions": conditions}}


def service(name: str, **selector: str) -> JsonObject:
    wanted = {
        "app": "llm",
        **{key.replace("revision", group_labels.REVISION): value for key, value in selector.items()},
    }
    return named(name) | {"spec": {"selector": wanted}}


def workload(name: str, replicas: int, *, held: bool = False, canary: bool = False) -> JsonObject:
    labels = {rollout_labels.CANARY_SET: "llm"} if canary else {rollout_labels.STABLE_REVISION: OLD} if held else {}
    annotations = {rollout_labels.IN_PROGRESSING: "{}"} if held else {}
    return named(name, labels, annotations) | {"spec": {"replicas": replicas}}


def weight(value: int) -> JsonObject:
    return named("llm-canary", annotations={NGINX: "true", f"{NGINX}-weight": str(value)})


def rollout(phase: str, step: int = 1) -> JsonObject:
    steps = [{"replicas": 1}, {"replicas": "100%"}]
    status = {"phase": phase, "currentStepIndex": step}
    return named("llm") | {"spec": {"strategy": {"canary": {"steps": steps}}}, "status": status}


def going(obj: JsonObject) -> JsonObject:
    result = copy.deepcopy(obj)
    result["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return result


class Scene:
    """A release at its first step: one group of the new version gets 20% of the requests."""

    def __init__(self) -> None:
        self.time = 0.0
        self.monitor = Monitor(clock=lambda: self.time)
        for resource, obj in (
            (ROLLOUTS, rollout("Progressing")),
            (LEADER_WORKER_SETS, workload("llm", 2, held=True)),
            (PODS, pod("llm-0", "llm", OLD)),
            (PODS, pod("llm-1", "llm", OLD)),
            (SERVICES, service("llm-leader", revision=OLD)),
            (LEADER_WORKER_SETS, workload("llm-x", 1, canary=True)),
            (PODS, pod("llm-x-0", "llm-x", NEW)),
            (SERVICES, service("llm-leader-canary", revision=NEW)),
            (INGRESSES, weight(20)),
        ):
            self.see(resource, obj)

    def see(self, resource: Resource, obj: JsonObject, *, gone: bool = False) -> None:
        self.monitor.see(resource, obj, gone=gone)


def leaves_revision(scene: Scene) -> None:
    scene.see(PODS, pod("llm-2", "llm", NEW))


def loses_its_leader(scene: Scene) -> None:
    scene.see(PODS, pod("llm-x-0", "llm-x", NEW, ready=False))


def goes_too_early(scene: Scene) -> None:
    scene.see(INGRESSES, weight(0))
    scene.time += 2.9
    scene.see(LEADER_WORKER_SETS, going(workload("llm-x", 1, canary=True)))


def loses_its_endpoints(scene: Scene) -> None:
    scene.see(SERVICES, service("llm-leader", revision="nobody"))


def stays_pinned(scene: Scene) -> None:
    scene.see(ROLLOUTS, rollout("Healthy"))


def stays_pinned_for_nobody(scene: Scene) -> None:
    scene.see(ROLLOUTS, rollout("Terminating"), gone=True)


def has_two_canaries(scene: Scene) -> None:
    scene.see(LEADER_WORKER_SETS, workload("llm-y", 0, canary=True))


def grows_too_much(scene: Scene) -> None:
    scene.see(LEADER_WORKER_SETS, workload("llm-x", 2, canary=True))


def serves_by_a_worker(scene: Scene) -> None:
    scene.see(PODS, pod("llm-x-0-1", "llm-x", NEW, worker="1"))


@pytest.mark.parametrize(
    ("invariant", "breaks"),
    [
        ("I1", leaves_revision),
        ("I2", loses_its_leader),
        ("I3", goes_too_early),
        ("I4", loses_its_endpoints),
        ("I5", stays_pinned),
        ("I5", stays_pinned_for_nobody),
        ("I6", has_two_canaries),
        ("I7", grows_too_much),
        ("I9", serves_by_a_worker),
    ],
)
def test_a_broken_invariant_is_named(invariant: str, breaks: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.monitor.check()
    breaks(scene)
    assert {one.partition(":")[0] for one in scene.monitor.broken} == {invariant}
    with pytest.raises(AssertionError, match=invariant):
        scene.monitor.check()
    excused = Scene()
    excused.monitor.excused.add(invariant)
    breaks(excused)
    excused.monitor.check()


def test_a_release_that_keeps_them_passes() -> None:
    scene = Scene()
    scene.see(ROLLOUTS, rollout("Progressing", step=2))
    scene.see(LEADER_WORKER_SETS, workload("llm-x", 2, canary=True))
    scene.see(INGRESSES, weight(100))
    scene.see(SERVICES, service("llm-leader"))
    scene.see(LEADER_WORKER_SETS, workload("llm", 2))
    for name in ("llm-0", "llm-1"):
        scene.see(PODS, pod(name, "llm", OLD), gone=True)
        scene.see(PODS, pod(name, "llm", NEW))
    scene.see(INGRESSES, weight(100), gone=True)
    scene.time += 3
    scene.see(LEADER_WORKER_SETS, going(workload("llm-x", 2, canary=True)))
    scene.see(ROLLOUTS, rollout("Healthy", step=2))
    scene.monitor.check()


def test_the_size_of_a_release_counts_too() -> None:
    """A BatchRelease that was told to fill up may do so before the Rollout's step says it."""
    scene = Scene()
    plan = {"releasePlan": {"batches": [{"canaryReplicas": 1}], "batchPartition": 0}}
    scene.see(BATCH_RELEASES, named("llm", annotations={rollout_labels.FULL_CAPACITY: "true"}) | {"spec": plan})
    grows_too_much(scene)
    scene.monitor.check()


def test_a_monitor_that_has_seen_nothing_is_no_witness() -> None:
    with pytest.raises(AssertionError, match="has seen nothing"):
        Monitor(clock=lambda: 0.0).check()


def backends(*weights: tuple[str, int]) -> JsonObject:
    return {"backendRefs": [{"name": name, "weight": value} for name, value in weights]}


def destinations(*weights: tuple[str, int]) -> JsonObject:
    return {"route": [{"destination": {"host": name}, "weight": value} for name, value in weights]}


@pytest.mark.parametrize(
    ("resource", "spec", "expected"),
    [
        (HTTP_ROUTES, {"rules": [backends(("s", 1))]}, None),
        (HTTP_ROUTES, {"rules": [backends(("s", 80), ("c", 20))]}, Share(True, False, (20,))),
        (HTTP_ROUTES, {"rules": [backends(("s", 0), ("c", 100))]}, Share(True, True, (100,))),
        (HTTP_ROUTES, {"rules": [backends(("s", 100), ("c", 0))]}, Share(False, False, (0,))),
        (HTTP_ROUTES, {"rules": [backends(("s", 1)), backends(("c", 1))]}, Share(True, False, (1,))),
        (VIRTUAL_SERVICES, {"http": [destinations(("s", 50), ("c", 50))]}, Share(True, False, (50,))),
        (VIRTUAL_SERVICES, {"http": [destinations(("s", 100))]}, None),
    ],
)
def test_shares_of_routes(resource: Resource, spec: JsonObject, expected: Share | None) -> None:
    assert share_of(resource, named("llm") | {"spec": spec}, "s", "c") == expected
