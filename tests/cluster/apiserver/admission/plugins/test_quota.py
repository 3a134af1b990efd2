"""ResourceQuota: what is charged, what is refused, and that it adds up (pod resize specification 5.2)."""

import asyncio

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.admission.plugins.quota.usage import concerned, in_scope, usage_of
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.resources.amounts import written_of
from kohort.resources.effective import ACCOUNTING

SPACE = "/api/v1/namespaces/d"
STRATEGIC = "application/strategic-merge-patch+json"


async def quota(api: Api, hard: JsonObject, used: JsonObject | None = None, **spec: Json) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    assert (await api.post(f"{SPACE}/resourcequotas", body)).code == 201
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    assert (await api.patch(f"{SPACE}/resourcequotas/q/status", {"status": status})).code == 200


async def used(api: Api) -> JsonObject:
    found: JsonObject = (await api.get(f"{SPACE}/resourcequotas/q")).json["status"]["used"]
    return found


def pod(name: str = "p", cpu: str = "", memory: str = "", **spec: Json) -> JsonObject:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    body = {"containers": [{"name": "a", "image": "i", "resources": {"requests": requests}}], **spec}
    return {"metadata": {"name": name}, "spec": body}


def resized(**requests: str) -> JsonObject:
    return {"spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]}}


async def test_what_fits_is_charged_and_what_does_not_is_refused(admitting: Api) -> None:
    await quota(admitting, {"requests.cpu": "1", "pods": "10"})
    whole = {"requests": {"cpu": "700m"}}
    assert (await admitting.post(f"{SPACE}/pods", pod("p", "100m", resources=whole))).code == 201
    assert await used(admitting) == {"requests.cpu": "700m", "pods": "1"}
    answer = await admitting.post(f"{SPACE}/pods", pod("p2", "400m"))
    assert (answer.code, answer.message) == (
        403,
        'pods "p2" is forbidden: exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=700m, '
        "limited: requests.cpu=1",
    )
    assert (await admitting.post(f"{SPACE}/pods", pod("p3", "300m"))).code == 201
    assert await used(admitting) == {"requests.cpu": "1", "pods": "2"}


async def test_values_that_a_quota_needs(admitting: Api) -> None:
    await quota(admitting, {"requests.cpu": "1", "limits.memory": "1Gi"})
    answer = await admitting.post(f"{SPACE}/pods", pod())
    expected = "failed quota: q: must specify limits.memory for: a; requests.cpu for: a"
    assert answer.message == f'pods "p" is forbidden: {expected}'
    whole = pod(resources={"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}})
    assert (await admitting.post(f"{SPACE}/pods", whole)).code == 201, "the pod speaks for its containers (Q5)"


async def test_a_quota_without_a_counted_status_bounds_nothing(admitting: Api) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    await admitting.post(f"{SPACE}/resourcequotas", body)
    assert (await admitting.post(f"{SPACE}/pods", pod())).code == 201


async def test_a_quota_that_is_half_counted(admitting: Api) -> None:
    await quota(admitting, {"pods": "5", "cpu": "1"}, {"cpu": "0"})
    answer = await admitting.post(f"{SPACE}/pods", pod(cpu="100m"))
    assert answer.message == 'pods "p" is forbidden: status unknown for quota: q, resources: cpu,pods'


async def test_a_resize_is_charged_what_it_adds(admitting: Api) -> None:
    """Q7: hard 800m and 800Mi, two pods of 300m and 300Mi."""
    await quota(admitting, {"requests.cpu": "800m", "requests.memory": "800Mi"})
    for name in ("p", "p2"):
        await admitting.post(f"{SPACE}/pods", pod(name, "300m", "300Mi"))
    both = await admitting.patch(f"{SPACE}/pods/p/resize", resized(cpu="600m", memory="750Mi"), STRATEGIC)
    assert both.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=300m,requests.memory=450Mi, '
        "used: requests.cpu=600m,requests.memory=600Mi, limited: requests.cpu=800m,requests.memory=800Mi"
    )
    assert (await admitting.patch(f"{SPACE}/pods/p/resize", resized(cpu="350m"), STRATEGIC)).code == 200
    assert await used(admitting) == {"requests.cpu": "650m", "requests.memory": "600Mi"}
    assert (await admitting.patch(f"{SPACE}/pods/p/resize", resized(cpu="100m"), STRATEGIC)).code == 200
    assert (await used(admitting))["requests.cpu"] == "650m", "what is given back is not credited here"


async def test_a_dry_run_is_checked_and_not_charged(admitting: Api) -> None:
    await quota(admitting, {"requests.cpu": "800m"})
    assert (await admitting.post(f"{SPACE}/pods", pod(cpu="900m"), dryRun="All")).code == 403
    assert (await admitting.post(f"{SPACE}/pods", pod(cpu="700m"), dryRun="All")).code == 201
    assert await used(admitting) == {"requests.cpu": "0"}


async def test_many_at_once_never_exceed_it(admitting: Api) -> None:
    await quota(admitting, {"count/configmaps": "7"})
    bodies = [{"metadata": {"name": f"c{index}"}} for index in range(20)]
    answers = await asyncio.gather(*(admitting.post(f"{SPACE}/configmaps", body) for body in bodies))
    assert sorted(answer.code for answer in answers) == [201] * 7 + [403] * 13
    assert await used(admitting) == {"count/configmaps": "7"}


# --- what objects cost


SERVICE_TYPES = [
    ({"type": "ClusterIP"}, "0", "0"),
    ({"type": "NodePort"}, "2", "0"),
    ({"type": "LoadBalancer"}, "2", "1"),
    ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, "0", "1"),
]


@pytest.mark.parametrize(("spec", "ports", "balancers"), SERVICE_TYPES)
def test_services(spec: JsonObject, ports: str, balancers: str) -> None:
    service = {"spec": {**spec, "ports": [{"port": 1}, {"port": 2}]}}
    assert written_of(usage_of(SERVICES, service, ACCOUNTING)) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": ports,
        "services.loadbalancers": balancers,
    }


def test_claims_are_counted_by_class_too() -> None:
    spec = {"storageClassName": "gold", "resources": {"requests": {"storage": "1500m"}}}
    used = written_of(usage_of(PERSISTENT_VOLUME_CLAIMS, {"metadata": {}, "spec": spec}, ACCOUNTING))
    assert used["requests.storage"] == "2", "whole bytes"
    assert used["gold.storageclass.storage.k8s.io/requests.storage"] == "2"
    assert used["gold.storageclass.storage.k8s.io/persistentvolumeclaims"] == "1"


def test_everything_else_is_counted() -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")
    assert written_of(usage_of(widgets, {}, ACCOUNTING)) == {"count/widgets.example.com": "1"}
    assert concerned(widgets, ["count/widgets.example.com", "pods", "secrets"]) == ["count/widgets.example.com"]


def test_pods_are_charged_for_overhead_huge_pages_and_extended_resources() -> None:
    resources = {"requests": {"cpu": "100m", "hugepages-2Mi": "4Mi", "example.com/gpu": "1"}, "limits": {"cpu": "1"}}
    spec = {"containers": [{"name": "a", "resources": resources}], "overhead": {"cpu": "50m"}}
    assert written_of(usage_of(PODS, {"metadata": {}, "spec": spec}, ACCOUNTING)) == {
        "pods": "1",
        "count/pods": "1",
        "cpu": "150m",
        "requests.cpu": "150m",
        "limits.cpu": "1050m",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.example.com/gpu": "1",
    }


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({}, {"phase": "Succeeded"}),
        ({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, {"phase": "Running"}),
    ],
)
def test_pods_that_are_over_cost_only_their_place(metadata: JsonObject, status: JsonObject) -> None:
    body = {"metadata": metadata, "spec": pod(cpu="1")["spec"], "status": status}
    assert written_of(usage_of(PODS, body, ACCOUNTING)) == {"count/pods": "1"}


def test_w30_a_shrink_is_charged_until_it_has_happened() -> None:
    """Q3, also for figures of the whole pod."""
    resources = {"requests": {"cpu": "300m"}}
    old = {"requests": {"cpu": "600m"}}
    body = {
        "metadata": {},
        "spec": {"containers": [{"name": "a"}], "resources": resources},
        "status": {"resources": old, "allocatedResources": {"cpu": "300m"}},
    }
    assert written_of(usage_of(PODS, body, ACCOUNTING))["requests.cpu"] == "600m"


CROSSING: JsonObject = {
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"], "topologyKey": "k"}]}
}
SCOPES = [
    ({"scopes": ["BestEffort"]}, pod(), True),
    ({"scopes": ["BestEffort"]}, pod(cpu="1"), False),
    ({"scopes": ["NotBestEffort"]}, pod(cpu="1"), True),
    ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=1), True),
    ({"scopes": ["NotTerminating"]}, pod(activeDeadlineSeconds=1), False),
    ({"scopes": ["CrossNamespacePodAffinity"]}, pod(affinity=CROSSING), True),
    ({"scopes": ["CrossNamespacePodAffinity"]}, pod(), False),
    ("In", pod(priorityClassName="a"), True),
    ("In", pod(priorityClassName="b"), False),
    ("In", pod(), False),
    ("NotIn", pod(priorityClassName="b"), True),
    ("NotIn", pod(), True),
    ("Exists", pod(priorityClassName="b"), True),
    ("DoesNotExist", pod(), True),
    ({"scopes": ["BestEffort", "Terminating"]}, pod(), False),
]


@pytest.mark.parametrize(("spec", "body", "matches"), SCOPES)
def test_scopes(spec: JsonObject | str, body: JsonObject, matches: bool) -> None:
    if isinstance(spec, str):
        wanted: JsonObject = {"scopeName": "PriorityClass", "operator": spec}
        if spec in ("In", "NotIn"):
            wanted["values"] = ["a"]
        spec = {"scopeSelector": {"matchExpressions": [wanted]}}
    assert in_scope({"spec": spec}, PODS, body) == matches
