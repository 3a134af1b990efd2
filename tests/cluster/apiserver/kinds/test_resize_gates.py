"""Feature gates on, off and on again: the rows of the version-skew table (pod resize specification 6) that concern the
API server. Gates turn when a server starts, so every turn is another server on the same store."""

from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll, Answer, Api

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.cluster.apiserver.admission.plugins import default_plugins
from kohort.cluster.apiserver.bootstrap import namespaces
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.kinds import feature_gates
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
PLR_OFF = "PodLevelResources=false"
PLIPPR_OFF = "InPlacePodLevelResourcesVerticalScaling=false"
NOT_ALLOWED = (
    "resize of pods with pod-level resources is forbidden when "
    "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = open_store(None)
    yield opened
    await opened.close()


async def served(store: Store, turned: str = "") -> Api:
    """A server with these gates, on what earlier ones have stored."""
    chosen = feature_gates.parse(turned)
    chain = Chain(default_plugins(store, gates=chosen, service_accounts=False))
    authorizer = AllowAll()
    server = ApiServer(store, Catalog(builtin_kinds()), authorizer, admission=chain, gates=chosen)
    await server.load()
    api = Api(server, authorizer)
    for document in (*namespaces(), {"metadata": {"name": "default"}}):
        await api.post("/api/v1/namespaces", document)
    return api


def requests(cpu: str) -> JsonObject:
    return {"requests": {"cpu": cpu}}


async def pod(api: Api, name: str = "p", block: JsonObject | None = None, **spec: Json) -> Answer:
    body: JsonObject = {"containers": [{"name": "a", "image": "i", "resources": requests("100m")}], **spec}
    if block is not None:
        body["resources"] = block
    answer = await api.post(PODS, {"metadata": {"name": name}, "spec": body})
    assert answer.code == 201, answer.raw
    return answer


async def node(api: Api, *features: str) -> None:
    await api.post("/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}})
    status = {"allocatable": {"cpu": "4", "memory": "4Gi"}, "declaredFeatures": sorted(features)}
    await api.patch("/api/v1/nodes/n1/status", {"status": status})


async def resize(api: Api, name: str = "p", *, container: str = "", level: str = "") -> Answer:
    spec: JsonObject = {}
    if container:
        spec["containers"] = [{"name": "a", "resources": requests(container)}]
    if level:
        spec["resources"] = requests(level)
    return await api.patch(f"{PODS}/{name}/resize", {"spec": spec}, STRATEGIC)


def causes(answer: Answer) -> list[str]:
    return [cause["message"] for cause in answer.json["details"]["causes"]]


async def test_k1_a_block_is_dropped_with_a_warning_where_the_feature_is_off(store: Store) -> None:
    api = await served(store, PLR_OFF)
    made = await pod(api, block=requests("200m"))
    assert "resources" not in made.json["spec"]
    assert any("PodLevelResources is off" in warning for warning in made.warnings)
    assert made.json["status"]["qosClass"] == "Burstable"
    assert (await pod(api, "q", {"requests": {"ephemeral-storage": "1Gi"}})).code == 201, (
        "what is dropped is not judged"
    )


async def test_k2_a_stored_block_is_kept_and_served_where_the_feature_is_off(store: Store) -> None:
    await pod(await served(store), block=requests("200m"))
    api = await served(store, PLR_OFF)
    found = (await api.get(f"{PODS}/p")).json
    assert found["spec"]["resources"] == requests("200m")
    labelled = await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.json["spec"]["resources"] == requests("200m")


async def test_k3_and_k5_no_resize_of_a_pod_with_a_block_where_its_resize_is_off(store: Store) -> None:
    api = await served(store, PLIPPR_OFF)
    await pod(api, block=requests("200m"))
    for answer in (await resize(api, level="300m"), await resize(api, container="150m")):
        assert answer.code == 422
        assert causes(answer) == [f"Forbidden: {NOT_ALLOWED}"]


async def test_k4_a_block_that_a_resize_adds_is_dropped_and_the_rest_is_done(store: Store) -> None:
    api = await served(store, PLIPPR_OFF)
    await pod(api)
    answer = await resize(api, container="150m", level="300m")
    assert answer.code == 200
    assert "resources" not in answer.json["spec"]
    assert answer.json["spec"]["containers"][0]["resources"] == requests("150m")


async def test_k7_and_k16_a_node_that_does_not_declare_the_feature_is_not_asked(store: Store) -> None:
    api = await served(store)
    await node(api)
    await pod(api, block=requests("200m"), nodeName="n1")
    refused = await resize(api, level="300m")
    assert refused.code == 403
    assert 'which are not available on node "n1"' in refused.message
    await node(api, "InPlacePodLevelResourcesVerticalScaling")
    assert (await resize(api, level="300m")).code == 200


async def test_k6_without_declared_features_the_request_is_stored_and_the_status_stays(store: Store) -> None:
    chosen = {feature_gates.NODE_DECLARED_FEATURES: False}
    chain = Chain(default_plugins(store, gates=chosen, service_accounts=False))
    await served(store)
    server = ApiServer(store, Catalog(builtin_kinds()), AllowAll(), admission=chain, gates=chosen)
    await server.load()
    api = Api(server, AllowAll())
    await node(api)
    await pod(api, block=requests("200m"), nodeName="n1")
    await api.patch(f"{PODS}/p/status", {"status": {"resources": requests("200m")}})
    answer = await resize(api, level="300m")
    assert answer.code == 200
    assert answer.json["spec"]["resources"] == requests("300m")
    assert answer.json["status"]["resources"] == requests("200m")


async def test_k11_a_node_that_does_not_report_resources_is_too_old(store: Store) -> None:
    api = await served(store)
    await node(api)
    await pod(api, nodeName="n1")
    running = {"name": "a", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    running["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "containerStatuses": [running]}})
    answer = await resize(api, container="200m")
    assert causes(answer) == ["Forbidden: Pod running on node without support for resize"]


async def test_k13_off_and_on_again_leaves_pods_alone_and_permits_resizes_again(store: Store) -> None:
    api = await served(store)
    await pod(api, block=requests("200m"))
    assert (await resize(api, level="300m")).code == 200
    api = await served(store, PLIPPR_OFF)
    assert (await resize(api, level="400m")).code == 422
    kept = (await api.get(f"{PODS}/p")).json
    assert kept["spec"]["resources"] == requests("300m")
    assert kept["metadata"]["generation"] == 2
    api = await served(store)
    again = await resize(api, level="400m")
    assert again.code == 200
    assert again.meta["generation"] == 3


async def test_k17_the_upgrade_of_the_proposal(store: Store) -> None:
    api = await served(store, PLIPPR_OFF)
    await node(api)
    await pod(api, block=requests("200m"), nodeName="n1")
    api = await served(store)
    assert (await resize(api, level="300m")).code == 403, "its node is not upgraded"
    await node(api, "InPlacePodLevelResourcesVerticalScaling")
    await pod(api, "second", requests("200m"), nodeName="n1")
    assert (await resize(api, "second", level="300m")).code == 200
    api = await served(store, PLIPPR_OFF)
    assert (await resize(api, "second", level="400m")).code == 422
    assert (await api.get(f"{PODS}/p")).json["status"]["phase"] == "Pending"
    api = await served(store)
    assert (await resize(api, "second", level="400m")).code == 200
    assert (await api.get(f"{PODS}/p")).code == 200


async def test_k21_status_fields_of_a_feature_that_is_off_are_dropped_unless_stored(store: Store) -> None:
    status = {"resources": requests("200m"), "allocatedResources": {"cpu": "200m"}}
    off = await served(store, PLIPPR_OFF)
    await pod(off, "late", requests("200m"))
    late = (await off.patch(f"{PODS}/late/status", {"status": status})).json["status"]
    assert not {"resources", "allocatedResources"} & late.keys()
    on = await served(store)
    await pod(on, "early", requests("200m"))
    await on.patch(f"{PODS}/early/status", {"status": status})
    off = await served(store, PLIPPR_OFF)
    changed = {"resources": requests("300m"), "allocatedResources": {"cpu": "300m"}}
    early = (await off.patch(f"{PODS}/early/status", {"status": changed})).json["status"]
    assert {name: early[name] for name in changed} == changed


async def test_k23_a_client_that_does_not_know_the_block_does_not_remove_it(store: Store) -> None:
    api = await served(store)
    await pod(api, block=requests("200m"))
    for path in (f"{PODS}/p", f"{PODS}/p/resize"):
        body = (await api.get(f"{PODS}/p")).json
        del body["spec"]["resources"]
        answer = await api.put(path, body)
        assert answer.code == 200, answer.raw
        assert answer.json["spec"]["resources"] == requests("200m")


async def test_a_patch_that_takes_the_block_away_is_refused(store: Store) -> None:
    """As by Kubernetes 1.36.4: such a client knows the field."""
    api = await served(store)
    await pod(api, block=requests("200m"), containers=[{"name": "a", "image": "i"}])
    gone = {"spec": {"resources": None}}
    operations = [{"op": "remove", "path": "/spec/resources"}]
    for answer in (
        await api.patch(f"{PODS}/p/resize", gone),
        await api.patch(f"{PODS}/p/resize", gone, STRATEGIC),
        await api.patch(f"{PODS}/p/resize", operations, "application/json-patch+json"),
    ):
        assert answer.code == 422
        assert causes(answer) == [
            'Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
            "Forbidden: pod-level resources cannot be removed",
        ]
    assert (await api.patch(f"{PODS}/p", gone)).json["details"]["causes"][0]["field"] == "spec"
    assert (await api.get(f"{PODS}/p")).json["spec"]["resources"] == requests("200m")


async def test_regular_init_containers_stay_as_they_are_where_their_resize_is_off(store: Store) -> None:
    api = await served(store, "InPlacePodVerticalScalingInitContainers=false")
    init = [{"name": "i", "image": "i", "resources": requests("100m")}]
    await pod(api, initContainers=init)
    change = {"spec": {"initContainers": [{"name": "i", "resources": requests("200m")}]}}
    answer = await api.patch(f"{PODS}/p/resize", change, STRATEGIC)
    assert causes(answer) == ["Forbidden: resources for non-sidecar init containers are immutable"]


async def test_without_in_place_resizing_there_is_no_resize_subresource(store: Store) -> None:
    server, _ = await assemble(store, gates=feature_gates.parse("InPlacePodVerticalScaling=false"))
    api = Api(server, AllowAll())
    await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    await pod(api)
    assert (await resize(api, container="200m")).code == 404
    served_now = {one["name"] for one in (await api.get("/api/v1")).json["resources"]}
    assert "pods/resize" not in served_now
    assert "pods/status" in served_now


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nothing=true", "unknown feature gate 'Nothing'"),
        ("PodLevelResources", "feature gate 'PodLevelResources' is not of the form Name=true or Name=false"),
        (
            "PodLevelResources=maybe",
            "feature gate 'PodLevelResources=maybe' is not of the form Name=true or Name=false",
        ),
        (
            "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=true",
            "InPlacePodLevelResourcesVerticalScaling needs PodLevelResources",
        ),
    ],
)
def test_gates_that_make_no_sense(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="^" + problem):
        feature_gates.parse(text)


def test_what_needs_a_gate_that_is_off_is_off_too() -> None:
    assert feature_gates.parse("PodLevelResources=false") == {
        "PodLevelResources": False,
        "InPlacePodLevelResourcesVerticalScaling": False,
        "PodLevelResourcesFixDefaulting": False,
    }
    assert feature_gates.parse("") == {}
