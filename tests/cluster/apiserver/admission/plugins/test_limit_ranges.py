"""LimitRanger: defaults and bounds (recorded from Kubernetes 1.36)."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/d/pods"
STRATEGIC = "application/strategic-merge-patch+json"


async def limit(api: Api, *items: JsonObject) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": list(items)}}
    assert (await api.post("/api/v1/namespaces/d/limitranges", body)).code == 201


def container(name: str = "a", requests: JsonObject | None = None, limits: JsonObject | None = None) -> JsonObject:
    return {"name": name, "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}


def pod(*containers: JsonObject, **spec: Json) -> JsonObject:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


async def test_defaults_and_the_note_of_them(admitting: Api) -> None:
    default = {"cpu": "200m", "memory": "200Mi"}
    request = {"cpu": "100m", "memory": "100Mi"}
    await limit(admitting, {"type": "Container", "default": default, "defaultRequest": request})
    created = await admitting.post(PODS, pod(container("a"), container("b", {"cpu": "150m"})))
    first, second = (one["resources"] for one in created.json["spec"]["containers"])
    assert first == {"limits": default, "requests": request}
    assert second == {"limits": default, "requests": {"cpu": "150m", "memory": "100Mi"}}
    assert created.meta["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; "
        "memory request for container b; cpu, memory limit for container b"
    )


async def test_w18_a_default_above_the_limit_of_the_pod_is_left_out(admitting: Api) -> None:
    await limit(admitting, {"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "50m"}})
    created = await admitting.post(PODS, pod(container(), resources={"limits": {"cpu": "100m"}}))
    assert created.code == 201, created.raw
    assert created.json["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "50m"}}


RANGE: JsonObject = {"type": "Container", "min": {"cpu": "50m"}, "max": {"cpu": "500m"}}
BOUNDS = [
    (RANGE, [container(limits={"cpu": "600m"})], "maximum cpu usage per Container is 500m, but limit is 600m"),
    (
        RANGE,
        [container(requests={"cpu": "20m"}, limits={"cpu": "100m"})],
        "minimum cpu usage per Container is 50m, but request is 20m",
    ),
    (
        {"type": "Pod", "max": {"cpu": "300m"}},
        [container("a", limits={"cpu": "200m"}), container("b", limits={"cpu": "200m"})],
        "maximum cpu usage per Pod is 300m, but limit is 400m",
    ),
    (
        {"type": "Pod", "max": {"cpu": "300m"}},
        [container()],
        "maximum cpu usage per Pod is 300m.  No limit is specified",
    ),
    (
        {"type": "Pod", "min": {"cpu": "300m"}},
        [container()],
        "minimum cpu usage per Pod is 300m.  No request is specified",
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        [container(requests={"cpu": "100m"}, limits={"cpu": "300m"})],
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
    (
        {"type": "Pod", "min": {"cpu": "300m"}, "max": {"cpu": "1"}},
        [container()],
        "[minimum cpu usage per Pod is 300m.  No request is specified, "
        "maximum cpu usage per Pod is 1.  No limit is specified]",
    ),
]


@pytest.mark.parametrize(("item", "containers", "message"), BOUNDS)
async def test_bounds(admitting: Api, item: JsonObject, containers: list[JsonObject], message: str) -> None:
    await limit(admitting, item)
    answer = await admitting.post(PODS, pod(*containers))
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {message}')


async def test_init_containers_are_a_maximum_and_sidecars_a_sum(admitting: Api) -> None:
    await limit(admitting, {"type": "Pod", "max": {"cpu": "300m"}})
    main = container("a", limits={"cpu": "200m"})
    start = container("i", limits={"cpu": "300m"})
    beside = {**container("s", limits={"cpu": "200m"}), "restartPolicy": "Always"}
    assert (await admitting.post(PODS, pod(main, initContainers=[beside]))).code == 403
    assert (await admitting.post(PODS, pod(main, initContainers=[start]))).code == 201


async def test_figures_of_the_pod_replace_the_sum(admitting: Api) -> None:
    await limit(admitting, {"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}})
    wide = {"requests": {"memory": "100Mi"}, "limits": {"memory": "400Mi"}}
    answer = await admitting.post(PODS, pod(container(), resources=wide))
    assert answer.message.endswith("memory max limit to request ratio per Pod is 2, but provided ratio is 4.000000")


async def test_a_resize_is_bound_too(admitting: Api) -> None:
    await limit(admitting, RANGE)
    await admitting.post(PODS, pod(container(requests={"cpu": "100m"}, limits={"cpu": "200m"})))
    change = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "600m"}}}]}}
    answer = await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)
    assert answer.code == 403
    assert answer.message.endswith("maximum cpu usage per Container is 500m, but limit is 600m")


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("1Gi", "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
        ("3Gi", ""),
    ],
)
async def test_claims(admitting: Api, size: str, message: str) -> None:
    await limit(admitting, {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "5Gi"}})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = {"metadata": {"name": "c"}, "spec": spec}
    answer = await admitting.post("/api/v1/namespaces/d/persistentvolumeclaims", body)
    assert answer.message == (f'persistentvolumeclaims "c" is forbidden: {message}' if message else "")
