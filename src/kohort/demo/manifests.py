"""The objects that the demo applies. The same ones are in examples/language-model.yaml."""

from importlib.resources import files

import yaml

from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import CONFIG_MAPS, HTTP_ROUTES, LEADER_WORKER_SETS, RELEASE_ANALYSES, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject

NAME = "tiny"
NAMESPACE = "default"
RESOURCES = {one.kind: one for one in (CONFIG_MAPS, GATEWAYS, HTTP_ROUTES, LEADER_WORKER_SETS, ROLLOUTS, SERVICES)}

Version = dict[str, str]
"""Environment variables of the server that make a version."""
BETTER: Version = {"MODEL_VERSION": "v2", "CONTEXT_WORDS": "3"}
BROKEN: Version = {"MODEL_VERSION": "v3", "CONTEXT_WORDS": "3", "TENSOR_PARALLEL_SIZE": "4"}
"""Weights for four processes, in groups of three: no process crashes, but the model never becomes ready."""


SLOW: Version = {"MODEL_VERSION": "v4", "CONTEXT_WORDS": "3", "SECONDS_TO_FIRST_WORD": "0.4"}
"""It becomes ready and answers correctly, but its first word takes long: only its metrics show that."""
ANALYSIS = f"{NAME}-slo"


def analysis() -> JsonObject:
    """What judges the steps of a release from now on: the time to the first word, as the gateway measures it."""
    return {
        "apiVersion": RELEASE_ANALYSES.api_version,
        "kind": RELEASE_ANALYSES.kind,
        "metadata": {"name": ANALYSIS, "namespace": NAMESPACE},
        "spec": {
            "mode": "Enforce",
            "warmup": "4s",
            "interval": "1s",
            "deadline": "2m",
            "source": {"gateway": {}},
            "minSamples": {"canary": 50, "stable": 50},
            "metrics": [
                {"name": "ttft", "quantile": 0.95, "maxRatio": 1.5},
                {"name": "errorRate", "max": "5%", "critical": True},
            ],
        },
    }


def program() -> JsonObject:
    """The ConfigMap with the program of the server, which pods mount."""
    text = files("kohort.demo").joinpath("model_server.py").read_text()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{NAME}-server"},
        "data": {"server.py": text},
    }


def plan() -> str:
    return files("kohort.demo").joinpath("model.yaml").read_text()


def objects(python: str) -> list[JsonObject]:
    """All objects in the order in which they are applied; the server runs with this interpreter."""
    found = [program(), *yaml.safe_load_all(plan())]
    for one in found:
        one["metadata"]["namespace"] = NAMESPACE
        if one["kind"] == "LeaderWorkerSet":
            container(one)["command"][0] = python
    return found


def container(group_set: JsonObject) -> JsonObject:
    (found,) = group_set["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    server: JsonObject = found
    return server


def release(version: Version) -> list[JsonObject]:
    """The JSON patch that gives the set this version. Variables that a version does not name keep their values."""
    (template,) = (one for one in yaml.safe_load_all(plan()) if one["kind"] == "LeaderWorkerSet")
    others = [one for one in container(template)["env"] if one["name"] not in version]
    variables = [{"name": name, "value": value} for name, value in version.items()]
    path = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/env"
    return [{"op": "replace", "path": path, "value": [*variables, *others]}]
