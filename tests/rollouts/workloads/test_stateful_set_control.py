"""StatefulSets in partition style whose pods are drained: Services lose a pod only until it is replaced."""

from tests.rollouts.deployments import Story
from tests.rollouts.releases import NAMESPACE, V2
from tests.rollouts.test_partition_style import NEVER_READY, plan, released

from kohort.kube.resources import PODS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels


def draining(document: JsonObject) -> JsonObject:
    document["spec"]["strategy"]["canary"]["trafficRoutings"][0]["drainTimeoutSeconds"] = 2
    return document


def selector(told: Story) -> dict[str, str]:
    service = told.cluster.find(SERVICES, "llm-leader", NAMESPACE)
    assert service is not None
    found: dict[str, str] = service["spec"]["selector"]
    return found


def has_new_pod(told: Story) -> bool:
    return any(one["spec"]["containers"][0]["image"] == V2 for one in told.cluster.objects(PODS, NAMESPACE))


async def test_a_new_pod_that_never_becomes_ready_keeps_no_other_pod_out_of_the_service() -> None:
    async with released(draining(plan([{"replicas": 3, "traffic": "60%", "pause": {}}]))) as told:
        container = {"name": "main", "image": V2}
        template = {"metadata": {"annotations": NEVER_READY}, "spec": {"containers": [container]}}
        await told.edit({"spec": {"template": template}})
        await told.until(lambda: rollout_labels.SERVES in selector(told))
        await told.until(lambda: has_new_pod(told))
        await told.until(lambda: rollout_labels.SERVES not in selector(told))
        assert told.state == "StepUpgrade", "the step still waits"
        labels = [one["metadata"].get("labels", {}) for one in told.cluster.objects(PODS, NAMESPACE)]
        assert not any(rollout_labels.SERVES in one for one in labels)
