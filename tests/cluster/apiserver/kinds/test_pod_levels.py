"""Resources of a whole pod: how they are filled in, and when they are refused (pod resize specification 3.1, 3.2)."""

import copy

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.kinds.pod.pod_level_resources import default_levels
from kohort.objects.json_types import JsonObject

PODS = "/api/v1/namespaces/d/pods"


def amounts(text: str) -> dict[str, str]:
    """`100m/1Gi` is cpu and memory, `-` stands for none."""
    cpu, _, memory = text.partition("/")
    return {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value not in ("", "-")}


def block(requests: str = "", limits: str = "") -> JsonObject:
    sides = (("requests", amounts(requests)), ("limits", amounts(limits)))
    return {side: found for side, found in sides if found}


def container(requests: str = "", limits: str = "", **more: str) -> JsonObject:
    """With what decoding adds: a limit is also a request."""
    resources = block(requests, limits)
    if "limits" in resources:
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return {"name": "c", "resources": resources, **more}


VECTORS = [
    ("DV1", block("", "100m/100Mi"), [container(), container()], block("100m/100Mi", "100m/100Mi")),
    (
        "DV2",
        block("", "100m/100Mi"),
        [container("", "50m/50Mi"), container("", "30m/30Mi")],
        block("80m/80Mi", "100m/100Mi"),
    ),
    (
        "DV3",
        block("", "100m/100Mi"),
        [container("50m/50Mi"), container("30m/30Mi")],
        block("80m/80Mi", "100m/100Mi"),
    ),
    ("DV4", block("100m/100Mi"), [container()], block("100m/100Mi")),
    ("DV5", block("100m/100Mi"), [container("", "50m/50Mi")] * 2, block("100m/100Mi", "100m/100Mi")),
    ("DV6", block("100m/100Mi"), [container("", "30m/30Mi")] * 2, block("100m/100Mi", "100m/100Mi")),
    ("DV7", block("100m/100Mi"), [container("", "50m/50Mi"), container()], block("100m/100Mi")),
    (
        "DV8",
        block("-/256Mi"),
        [container("100m/128Mi", "100m"), container("200m/128Mi", "200m")],
        block("300m/256Mi", "300m"),
    ),
    ("DV9", block("-/256Mi"), [container("5m", "9m"), container("6m", "10m")], block("11m/256Mi", "19m")),
    (
        "DV10",
        block("200m"),
        [container("-/128Mi", "-/256Mi")] * 2,
        block("200m/256Mi", "-/512Mi"),
    ),
    (
        "DV11",
        block("200m/256Mi", "200m"),
        [container("", "100m/128Mi")] * 2,
        block("200m/256Mi", "200m/256Mi"),
    ),
    (
        "DV12",
        block("-/256Mi", "-/256Mi"),
        [container("", "100m/128Mi"), container("80m/128Mi", "100m/128Mi")],
        block("180m/256Mi", "200m/256Mi"),
    ),
    (
        "DV15",
        block("-/200Mi", "200m/200Mi"),
        [container("", "100m/100Mi"), container()],
        block("100m/200Mi", "200m/200Mi"),
    ),
    ("DV16", {}, [container("1", "2")], {}),
]


@pytest.mark.parametrize(
    ("given", "containers", "expected"), [row[1:] for row in VECTORS], ids=[row[0] for row in VECTORS]
)
def test_what_is_not_said_follows_from_the_containers(
    given: JsonObject, containers: list[JsonObject], expected: JsonObject
) -> None:
    spec = {"containers": copy.deepcopy(containers), "resources": copy.deepcopy(given)}
    default_levels(spec)
    assert spec["resources"] == expected


@pytest.mark.parametrize(
    ("init", "limits"),
    [(container("", "200m/256Mi"), "200m/256Mi"), (container(), ""), (container(restartPolicy="Always"), "")],
    ids=["DV13", "DV14", "DV14 sidecar"],
)
def test_init_containers_must_be_limited_too(init: JsonObject, limits: str) -> None:
    spec = {
        "containers": [container("", "100m/128Mi")],
        "initContainers": [init],
        "resources": block("200m/256Mi"),
    }
    default_levels(spec)
    assert spec["resources"] == block("200m/256Mi", limits)


def test_before_1_37_limits_were_left_alone() -> None:
    spec = {"containers": [container("", "50m/50Mi")] * 2, "resources": block("100m/100Mi")}
    default_levels(spec, legacy=True)
    assert spec["resources"] == block("100m/100Mi")


def test_containers_that_admission_injected_count() -> None:
    """Defaulting runs after mutating admission, on what it left."""
    spec: JsonObject = {"containers": [container("100m"), container("200m")], "resources": block("-/1Gi")}
    default_levels(spec)
    assert spec["resources"]["requests"] == {"cpu": "300m", "memory": "1Gi"}


REFUSED: list[tuple[str, JsonObject, str]] = [
    ("V2", {"resources": {"requests": {"cpu": "1"}, "claims": [{"name": "x"}]}}, "spec.resources.claims"),
    ("V3", {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}, "spec.resources.requests[ephemeral-storage]"),
    ("V4", {"resources": {"requests": {"cpu": "-1"}}}, "spec.resources.requests[cpu]"),
    ("V5", {"resources": block("2", "1")}, "spec.resources.requests"),
    ("V8", {"resources": block("1"), "containers": [container("2")]}, "spec.resources.requests[cpu]"),
    (
        "V9",
        {"resources": block("", "1"), "containers": [container("100m", "2")]},
        "spec.resources.containers[0][cpu].limits",
    ),
    (
        "V17",
        {"resources": block("", "1"), "initContainers": [container("100m", "2")]},
        "spec.resources.initContainers[0][cpu].limits",
    ),
]


@pytest.mark.parametrize(("spec", "field"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_refused(admitting: Api, spec: JsonObject, field: str) -> None:
    spec = {"containers": [container()], **copy.deepcopy(spec)}
    for index, one in enumerate((*spec["containers"], *spec.get("initContainers", ()))):
        one |= {"name": f"c{index}", "image": "i"}
    answer = await admitting.post(PODS, {"metadata": {"name": "x"}, "spec": spec})
    assert answer.code == 422
    assert field in [cause["field"] for cause in answer.json["details"]["causes"]]


async def test_the_class_is_that_of_the_pod_level(admitting: Api) -> None:
    """Containers say nothing, the pod says everything (O3)."""
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": block("", "1/1Gi")}
    created = await admitting.post(PODS, {"metadata": {"name": "x"}, "spec": spec})
    assert created.json["status"]["qosClass"] == "Guaranteed"
    assert created.json["spec"]["resources"] == block("1/1Gi", "1/1Gi")


async def test_a_client_that_does_not_know_the_field_does_not_remove_it(admitting: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "resources": block("1/1Gi")}
    created = await admitting.post(PODS, {"metadata": {"name": "x"}, "spec": spec})
    body = copy.deepcopy(created.json)
    del body["spec"]["resources"], body["metadata"]["resourceVersion"]
    body["metadata"]["labels"] = {"a": "b"}
    assert (await admitting.put(f"{PODS}/x", body)).json["spec"]["resources"] == block("1/1Gi")
    assert (await admitting.put(f"{PODS}/x/resize", body)).json["spec"]["resources"] == block("1/1Gi")
