"""Steps that complete or refuse pods: priority, tolerations, runtime class, accounts, topology."""

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.cluster.apiserver.admission.plugins import default_plugins
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/d/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod(**spec: Json) -> JsonObject:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def not_ready(**more: Json) -> JsonObject:
    return {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", **more}


# --- priority


PRIORITIES = [
    ({}, 0, "PreemptLowerPriority"),
    ({"priorityClassName": "calm"}, 50, "Never"),
    ({"priorityClassName": "calm", "priority": 50, "preemptionPolicy": "Never"}, 50, "Never"),
    ({"priorityClassName": "system-node-critical"}, 2000001000, "PreemptLowerPriority"),
]


@pytest.mark.parametrize(("spec", "priority", "policy"), PRIORITIES)
async def test_priority_comes_from_the_class(admitting: Api, spec: JsonObject, priority: int, policy: str) -> None:
    await admitting.post(CLASSES, {"metadata": {"name": "calm"}, "value": 50, "preemptionPolicy": "Never"})
    created = (await admitting.post(PODS, pod(**spec))).json["spec"]
    assert (created["priority"], created["preemptionPolicy"]) == (priority, policy)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 7},
            "the integer value of priority (7) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
async def test_priority_is_not_for_pods_to_say(admitting: Api, spec: JsonObject, message: str) -> None:
    answer = await admitting.post(PODS, pod(**spec))
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {message}')


async def test_one_default_class(admitting: Api) -> None:
    await admitting.post(CLASSES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    second = await admitting.post(CLASSES, {"metadata": {"name": "too"}, "value": 6, "globalDefault": True})
    assert (second.code, second.message.partition(": ")[2]) == (
        403,
        "PriorityClass usual is already marked as default. Only one default can exist",
    )
    created = (await admitting.post(PODS, pod())).json["spec"]
    assert (created["priorityClassName"], created["priority"]) == ("usual", 5)


# --- tolerations, topology


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]),
        ([not_ready(tolerationSeconds=5)], ["node.kubernetes.io/unreachable"]),
        ([{"operator": "Exists"}], []),
        (
            [{"operator": "Exists", "effect": "NoSchedule"}],
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
        ),
    ],
)
async def test_a_pod_stays_five_minutes_on_a_lost_node(admitting: Api, own: list[JsonObject], added: list[str]) -> None:
    created = (await admitting.post(PODS, pod(tolerations=own))).json["spec"]["tolerations"]
    assert created[: len(own)] == own
    assert [(one["key"], one["tolerationSeconds"]) for one in created[len(own) :]] == [(key, 300) for key in added]


async def test_a_bound_pod_carries_the_zone_of_its_node(admitting: Api) -> None:
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "x"}
    await admitting.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    await admitting.post(PODS, pod())
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await admitting.post(f"{PODS}/p/binding", binding)).code == 201
    found = (await admitting.get(f"{PODS}/p")).meta["labels"]
    assert found == {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}


# --- runtime class

OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
NO_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


@pytest.mark.parametrize(
    ("spec", "outcome"),
    [
        ({"runtimeClassName": "heavy"}, {"cpu": "250m"}),
        ({"runtimeClassName": "heavy", "overhead": {"cpu": "0.25"}}, {"cpu": "250m"}),
        ({}, None),
        ({"runtimeClassName": "heavy", "overhead": {"cpu": "1"}}, OTHER_OVERHEAD),
        ({"overhead": {"cpu": "1"}}, NO_OVERHEAD),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "heavy", "nodeSelector": {"k": "other"}},
            "conflict: runtimeClass.scheduling.nodeSelector[k] = v; pod.spec.nodeSelector[k] = other",
        ),
    ],
)
async def test_what_a_runtime_costs(admitting: Api, spec: JsonObject, outcome: JsonObject | str | None) -> None:
    runtime = {
        "metadata": {"name": "heavy"},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"k": "v"}},
    }
    await admitting.post("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    answer = await admitting.post(PODS, pod(**spec))
    if isinstance(outcome, str):
        assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {outcome}')
    else:
        assert answer.json["spec"].get("overhead") == outcome
        assert answer.json["spec"].get("nodeSelector") == ({"k": "v"} if outcome else None)


# --- service accounts


async def with_accounts(*accounts: JsonObject) -> Api:
    store, authorizer = open_store(None), AllowAll()
    chain = Chain(default_plugins(store))
    api = Api(ApiServer(store, Catalog(builtin_kinds()), authorizer, admission=chain), authorizer)
    await api.post("/api/v1/namespaces", {"metadata": {"name": "d"}})
    for account in accounts:
        assert (await api.post("/api/v1/namespaces/d/serviceaccounts", account)).code == 201
    return api


async def test_a_pod_gets_the_default_account_and_its_token() -> None:
    api = await with_accounts({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "registry"}]})
    spec = (await api.post(PODS, pod(initContainers=[{"name": "i", "image": "i"}]))).json["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    token, certificate, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    assert certificate["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == "metadata.namespace"
    mount = {
        "name": volume["name"],
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert [one["volumeMounts"] for one in (*spec["initContainers"], *spec["containers"])] == [[mount], [mount]]


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False)],
)
async def test_the_pods_wish_counts_before_the_accounts(
    of_pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    account: JsonObject = {"metadata": {"name": "default"}, "automountServiceAccountToken": of_account}
    api = await with_accounts(account)
    spec = (await api.post(PODS, pod(automountServiceAccountToken=of_pod))).json["spec"]
    assert ("volumes" in spec) == mounted


async def test_an_account_must_exist() -> None:
    api = await with_accounts()
    answer = await api.post(PODS, pod(serviceAccountName="me"))
    expected = 'error looking up service account d/me: serviceaccount "me" not found'
    assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {expected}')


async def test_an_account_may_insist_on_its_own_secrets() -> None:
    account = {
        "metadata": {"name": "me", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "mine"}],
    }
    api = await with_accounts(account)
    volume: JsonObject = {"name": "v", "secret": {"secretName": "foreign"}}
    answer = await api.post(PODS, pod(serviceAccountName="me", volumes=[volume]))
    assert answer.code == 403
    assert 'volume with secret.secretName="foreign" is not allowed' in answer.message
    volume["secret"]["secretName"] = "mine"
    assert (await api.post(PODS, pod(serviceAccountName="me", volumes=[volume]))).code == 201
