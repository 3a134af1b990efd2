"""Which pods a Service must select, by the template of the workload."""

import msgspec
import pytest

from kohort.objects.apps import Deployment
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.reference_problems import Reference, RefField, RefList
from kohort.rollouts.traffic import services
from kohort.rollouts.traffic.pending_writes import TrafficProblem
from kohort.rollouts.workloads import serving_pods
from kohort.rules import group_labels, rollout_labels

NAMED = Reference("Service", "default", "llm", RefList.OF_ROLLOUT, RefField.SERVICE)


def group_set(leader: JsonObject | None, worker: JsonObject) -> GroupSet:
    template: JsonObject = {"workerTemplate": {"metadata": {"labels": worker}}}
    if leader is not None:
        template["leaderTemplate"] = {"metadata": {"labels": leader}}
    return GroupSet(ObjectMeta(name="llm", namespace="default"), {"leaderWorkerTemplate": template})


def service(selector: dict[str, str]) -> JsonObject:
    return {"metadata": {"name": "svc", "namespace": "default"}, "spec": {"selector": selector}}


@pytest.mark.parametrize(("leader", "label"), [({"app": "leader"}, "leader"), (None, "worker")])
def test_leaders_serve_with_the_labels_of_their_template(leader: JsonObject | None, label: str) -> None:
    found = serving_pods.of_group_set(group_set(leader, {"app": "worker"}))
    assert found.workload == "LeaderWorkerSet llm"
    assert found.labels["app"] == label
    assert found.identity == {group_labels.NAME: "llm", group_labels.WORKER_INDEX: "0"}


def test_a_set_without_labels_is_known_by_its_name_and_the_index_of_leaders() -> None:
    found = serving_pods.of_group_set(GroupSet(ObjectMeta(name="llm")))
    assert dict(found.labels) == dict(found.identity)


def test_pods_of_a_deployment_serve_with_the_labels_of_its_template_without_the_hash() -> None:
    labels = {"app": "web", rollout_labels.TEMPLATE_HASH: "abc"}
    document = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": labels}}},
    }
    found = serving_pods.of_deployment(msgspec.convert(document, Deployment))
    assert (found.workload, dict(found.labels)) == ("Deployment web", {"app": "web"})
    assert found.other_keys == {rollout_labels.TEMPLATE_HASH}
    assert dict(found.identity) == {"app": "web"}


@pytest.mark.parametrize(
    ("selector", "reached"),
    [
        ({"app": "llm"}, True),
        ({group_labels.NAME: "llm"}, True),
        ({"app": "llm", group_labels.WORKER_INDEX: "0"}, True),
        ({"app": "llm", group_labels.REVISION: "any"}, True),
        ({"app": "llm", group_labels.WORKER_INDEX: "1"}, False),
        ({"app": "other"}, False),
        ({group_labels.NAME: "other"}, False),
    ],
)
def test_a_service_must_select_leaders(selector: dict[str, str], reached: bool) -> None:
    serving = serving_pods.of_group_set(group_set(None, {"app": "llm"}))
    if reached:
        assert services.check_selection(service(selector), [], serving, NAMED) == ()
        return
    with pytest.raises(TrafficProblem, match="selects no pod of LeaderWorkerSet llm"):
        services.check_selection(service(selector), [], serving, NAMED)


def test_a_service_that_reaches_old_pods_only_is_warned_about() -> None:
    serving = serving_pods.of_group_set(group_set(None, {"app": "new"}))
    pod = {"metadata": {"labels": {"app": "old", **serving.identity}}}
    (event,) = services.check_selection(service({"app": "old"}), [pod], serving, NAMED)
    assert (event.reason, event.warning) == ("ServiceMissesNewPods", True)
