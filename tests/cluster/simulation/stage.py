"""A cluster with simulated nodes and a pod on one of them: what the tests of this folder begin with."""

from kohort.cluster.simulation.registration import register
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

PREFIX = "simulation.kohort.dev/"


def cluster(**options: Json) -> Cluster:
    def plug(manager: Manager) -> None:
        register(manager, **{"nodes": 2, **options})

    return Cluster(extra={"simulation": plug})


def pod(name: str = "p", node: str = "sim-0", **behavior: str) -> JsonObject:
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in behavior.items()}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    container = {"name": "main", "image": "host", "resources": resources}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": node, "containers": [container]},
    }


def status(cluster: Cluster, name: str = "p") -> JsonObject:
    found = cluster.find(PODS, name, "default")
    return found["status"] if found is not None else {}


def condition(status: JsonObject, type: str) -> JsonObject:
    return next((each for each in status.get("conditions", ()) if each["type"] == type), {})


def ready(cluster: Cluster, name: str = "p") -> bool:
    return condition(status(cluster, name), "Ready").get("status") == "True"


def main_container(cluster: Cluster, name: str = "p") -> JsonObject:
    container: JsonObject = status(cluster, name)["containerStatuses"][0]
    return container


async def started(cluster: Cluster, subject: JsonObject) -> None:
    await cluster.client.create(PODS, subject)
    await cluster.until(lambda: ready(cluster, subject["metadata"]["name"]))
