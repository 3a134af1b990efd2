"""What goes over the wire, and what comes back from it."""

import asyncio

import msgspec
import pytest
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client, PatchType, Selection
from kohort.kube.http import Request, Response
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.resources import CONFIG_MAPS, NODES, PODS, STATEFUL_SETS
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import Json
from kohort.objects.meta import ObjectMeta, PartialObject
from kohort.testing.faults import Faults
from kohort.testing.request_matching import reads, writes


class Wire:
    """Notes requests and answers with an empty object."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.client = Client(InProcessTransport(self._handle), field_manager="lws", user_agent="test/1")

    async def _handle(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, {}, b'{"metadata":{"name":"a"},"items":[]}')

    @property
    def last(self) -> Request:
        return self.requests[-1]

    @property
    def body(self) -> Json:
        return msgspec.json.decode(self.last.body)

    @property
    def line(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.last.query)
        return f"{self.last.method} {self.last.path}" + (f"?{query}" if query else "")


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def test_reads(wire: Wire) -> None:
    client = wire.client
    await client.get(PODS, "a", "n")
    assert wire.line == "GET /api/v1/namespaces/n/pods/a"
    assert wire.last.headers == {"accept": "application/json", "user-agent": "test/1"}
    await client.get(STATEFUL_SETS, "a", "n", subresource="scale")
    assert wire.line == "GET /apis/apps/v1/namespaces/n/statefulsets/a/scale"
    await client.get(NODES, "a")
    assert wire.line == "GET /api/v1/nodes/a"
    await client.list(PODS, label_selector="a=b", field_selector="spec.nodeName=x", limit=5, continue_="t")
    assert wire.line == "GET /api/v1/pods?labelSelector=a=b&fieldSelector=spec.nodeName=x&limit=5&continue=t"
    await client.list(PODS, "n", resource_version="7", resource_version_match="Exact")
    assert wire.line == "GET /api/v1/namespaces/n/pods?resourceVersion=7&resourceVersionMatch=Exact"
    await client.list(PODS, metadata_only=True)
    assert wire.last.headers["accept"] == "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def test_writes(wire: Wire) -> None:
    client = wire.client
    await client.create(PODS, {"metadata": {"name": "a", "namespace": "n"}})
    assert wire.line == "POST /api/v1/namespaces/n/pods?fieldManager=lws"
    assert wire.body == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "n"}}
    assert wire.last.headers["content-type"] == "application/json"
    await client.update(STATEFUL_SETS, {"metadata": {"name": "a", "namespace": "n"}}, dry_run=True)
    assert (
        wire.line == "PUT /apis/apps/v1/namespaces/n/statefulsets/a?fieldManager=lws&dryRun=All&fieldValidation=Strict"
    )
    await client.patch(PODS, "a", "n", {"spec": {}})
    assert wire.last.headers["content-type"] == "application/merge-patch+json"
    await client.patch(PODS, "a", "n", [{"op": "remove", "path": "/x"}], PatchType.JSON, "status")
    assert wire.line == "PATCH /api/v1/namespaces/n/pods/a/status?fieldManager=lws"
    assert wire.last.headers["content-type"] == "application/json-patch+json"
    assert wire.body == [{"op": "remove", "path": "/x"}]


@pytest.mark.parametrize("name", ["", "..", "../../kube-system/configmaps/a"])
async def test_nothing_is_sent_for_a_name_that_no_object_can_have(wire: Wire, name: str) -> None:
    assert await wire.client.find(CONFIG_MAPS, name, "ns") is None
    for request in (
        wire.client.get(CONFIG_MAPS, name, "ns"),
        wire.client.update(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "ns"}}),
        wire.client.patch(CONFIG_MAPS, name, "ns", {}),
        wire.client.delete(CONFIG_MAPS, name, "ns"),
    ):
        with pytest.raises(errors.NotFound):
            await request
    assert wire.requests == []


async def test_a_status_is_merged_into_that_of_the_object_that_was_read(wire: Wire) -> None:
    pod = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"}}
    assert await wire.client.patch_status(PODS, pod, {"phase": "Failed"}) == {"metadata": {"name": "a"}, "items": []}
    assert wire.line == "PATCH /api/v1/namespaces/n/pods/a/status?fieldManager=lws"
    assert wire.last.headers["content-type"] == "application/merge-patch+json"
    assert wire.body == {"status": {"phase": "Failed"}}
    await wire.client.patch_status(PODS, pod, {"phase": "Failed"}, locked=True)
    assert wire.body == {"status": {"phase": "Failed"}, "metadata": {"resourceVersion": "7"}}


async def test_the_status_of_an_object_that_is_gone_is_not_written() -> None:
    client = Client(InProcessTransport(ModelServer().handle))
    assert await client.patch_status(PODS, {"metadata": {"name": "a", "namespace": "n"}}, {}) is None


async def test_a_typed_view_is_sent_with_the_kind_of_its_resource(wire: Wire) -> None:
    view = PartialObject(metadata=ObjectMeta(name="a", namespace="n"))
    await wire.client.create(CONFIG_MAPS, view)
    assert wire.body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}}


async def test_a_subresource_with_an_own_kind_is_sent_as_it_is(wire: Wire) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "n"}}
    await wire.client.create(PODS, eviction, "n", "eviction", "a")
    assert wire.line == "POST /api/v1/namespaces/n/pods/a/eviction?fieldManager=lws"
    assert wire.body == eviction


async def test_apply_names_its_manager_and_forces(wire: Wire) -> None:
    await wire.client.apply(STATEFUL_SETS, {"metadata": {"name": "a", "namespace": "n"}, "spec": {}})
    assert wire.line == "PATCH /apis/apps/v1/namespaces/n/statefulsets/a?fieldManager=lws&force=true"
    assert wire.last.headers["content-type"] == "application/apply-patch+yaml"
    assert wire.body["kind"] == "StatefulSet"
    await wire.client.apply(STATEFUL_SETS, {"metadata": {"name": "a"}}, field_manager="other", force=False)
    assert wire.line == "PATCH /apis/apps/v1/statefulsets/a?fieldManager=other"


async def test_deletes_carry_their_options_in_the_body(wire: Wire) -> None:
    await wire.client.delete(
        PODS, "a", "n", propagation="Foreground", grace_seconds=0, uid="u", resource_version="7", dry_run=True
    )
    assert wire.line == "DELETE /api/v1/namespaces/n/pods/a"
    assert wire.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    await wire.client.delete_collection(PODS, "n", label_selector="a=b")
    assert wire.line == "DELETE /api/v1/namespaces/n/pods?labelSelector=a=b"
    assert wire.body == {"apiVersion": "v1", "kind": "DeleteOptions"}


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


async def test_answers_are_decoded_into_the_view(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    server.put("configmaps", "n", "a")
    whole = await client.get(CONFIG_MAPS, "a", "n")
    assert whole["metadata"]["resourceVersion"] == "101"
    view = await client.get(CONFIG_MAPS, "a", "n", type=PartialObject)
    assert view.metadata.resource_version == "101"
    assert await client.find(CONFIG_MAPS, "b", "n") is None


async def test_items_of_a_list_get_their_kind_back(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    server.put("configmaps", "n", "a")
    page = await client.list(CONFIG_MAPS, "n")
    assert (page.items[0]["apiVersion"], page.items[0]["kind"]) == ("v1", "ConfigMap")
    assert page.resource_version == "101"


async def test_pages_follow_the_continue_token(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    for number in range(7):
        server.put("configmaps", "n", f"m{number}")
    sizes = [len(page) async for page in client.pages(Selection(CONFIG_MAPS), chunk=3)]
    assert sizes == [3, 3, 1]


async def test_failures_are_raised_as_what_they_are(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    server.put("configmaps", "n", "a")
    with pytest.raises(errors.NotFound) as missing:
        await client.get(CONFIG_MAPS, "b", "n")
    assert (missing.value.code, missing.value.reason) == (404, "NotFound")
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")
    with pytest.raises(errors.Conflict):
        await client.update(CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "1"}}, "n")


async def test_an_answer_that_is_no_status_still_gives_a_readable_error() -> None:
    async def proxy(request: Request) -> Response:
        return Response(503, {}, b"<html>upstream is gone</html>")

    with pytest.raises(errors.ServiceUnavailable, match="upstream is gone"):
        await Client(InProcessTransport(proxy)).get(PODS, "a", "n")


async def test_a_server_that_asks_for_patience_gets_it(server: ModelServer) -> None:
    faults = Faults()
    client = Client(faults.wrap(InProcessTransport(server.handle)))
    faults.refuse(errors.too_many_requests("slow down", retry_after=7), on=writes(), times=2)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")
    assert asyncio.get_running_loop().time() == pytest.approx(14)


async def test_patience_has_an_end(server: ModelServer) -> None:
    faults = Faults()
    client = Client(faults.wrap(InProcessTransport(server.handle)))
    faults.refuse(errors.too_many_requests("slow down", retry_after=1), times=None)
    with pytest.raises(errors.TooManyRequests):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")


async def test_a_failure_without_that_request_is_raised_at_once(server: ModelServer) -> None:
    faults = Faults()
    client = Client(faults.wrap(InProcessTransport(server.handle)))
    faults.refuse(errors.internal("no"), on=writes())
    with pytest.raises(errors.InternalError):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "n")
    assert asyncio.get_running_loop().time() == 0


async def test_reads_survive_a_lost_connection_and_writes_do_not_repeat_themselves(server: ModelServer) -> None:
    faults = Faults()
    client = Client(faults.wrap(InProcessTransport(server.handle)))
    server.put("configmaps", "n", "a")
    faults.time_out(1, on=reads(), times=2)
    assert (await client.get(CONFIG_MAPS, "a", "n"))["metadata"]["name"] == "a"
    faults.lose_answer(on=writes())
    with pytest.raises(errors.Unreachable):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "b"}}, "n")
    assert sum(1 for request in server.requests if request.method == "POST") == 1


async def test_a_limiter_spreads_what_exceeds_its_burst(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle), limiter=TokenBucket(rate=10, burst=5))
    server.put("configmaps", "n", "a")
    await asyncio.gather(*(client.get(CONFIG_MAPS, "a", "n") for _ in range(15)))
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)


async def test_a_plain_watch_yields_changes_until_the_server_ends_it(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    server.put("configmaps", "n", "a")

    async def look() -> list[tuple[str, str]]:
        watch = client.watch(CONFIG_MAPS, "n", type=PartialObject)
        return [(event.type, event.object.metadata.name) async for event in watch]

    task = asyncio.create_task(look())
    await asyncio.sleep(1)
    server.put("configmaps", "n", "b")
    server.put("configmaps", "elsewhere", "c")
    server.send_bookmarks()
    server.end_watches()
    assert await task == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize(
    ("patch_type", "content_type"),
    [
        (PatchType.MERGE, "application/merge-patch+json"),
        (PatchType.STRATEGIC, "application/strategic-merge-patch+json"),
        (PatchType.JSON, "application/json-patch+json"),
        (PatchType.APPLY, "application/apply-patch+yaml"),
    ],
)
async def test_every_patch_type_has_its_content_type(wire: Wire, patch_type: PatchType, content_type: str) -> None:
    await wire.client.patch(PODS, "a", "n", {"metadata": {}}, patch_type)
    assert wire.last.headers["content-type"] == content_type
    assert wire.line == "PATCH /api/v1/namespaces/n/pods/a?fieldManager=lws"


async def test_a_json_patch_is_a_list(wire: Wire) -> None:
    operations = [{"op": "remove", "path": "/metadata/labels"}]
    await wire.client.patch(PODS, "a", "n", operations, PatchType.JSON)
    assert wire.body == operations


async def test_a_dry_run_is_strict(wire: Wire) -> None:
    body = {"metadata": {"name": "a", "namespace": "n"}}
    strict = "fieldManager=lws&dryRun=All&fieldValidation=Strict"
    await wire.client.create(PODS, body, dry_run=True)
    assert wire.line == f"POST /api/v1/namespaces/n/pods?{strict}"
    await wire.client.update(PODS, body, dry_run=True)
    assert wire.line == f"PUT /api/v1/namespaces/n/pods/a?{strict}"
    await wire.client.patch(PODS, "a", "n", {}, dry_run=True)
    assert wire.line == f"PATCH /api/v1/namespaces/n/pods/a?{strict}"


async def test_the_namespace_comes_from_the_argument_or_from_the_object(wire: Wire) -> None:
    await wire.client.create(PODS, {"metadata": {"name": "a", "namespace": "own"}})
    assert wire.last.path == "/api/v1/namespaces/own/pods"
    await wire.client.create(PODS, {"metadata": {"name": "a"}}, "given")
    assert wire.last.path == "/api/v1/namespaces/given/pods"
    await wire.client.create(NODES, {"metadata": {"name": "a"}})
    assert wire.last.path == "/api/v1/nodes"


async def test_subresources_are_created_below_their_object(wire: Wire) -> None:
    await wire.client.create(PODS, {"kind": "Binding", "target": {"name": "n1"}}, "n", "binding", "a")
    assert wire.last.path == "/api/v1/namespaces/n/pods/a/binding"
    await wire.client.update(STATEFUL_SETS, {"kind": "Scale", "metadata": {"name": "a"}}, "n", subresource="scale")
    assert wire.last.path == "/apis/apps/v1/namespaces/n/statefulsets/a/scale"


async def test_answers_of_writes_are_decoded_into_the_view(wire: Wire) -> None:
    body = {"metadata": {"name": "a", "namespace": "n"}}
    created = await wire.client.create(PODS, body, type=PartialObject)
    updated = await wire.client.update(PODS, body, type=PartialObject)
    patched = await wire.client.patch(PODS, "a", "n", {}, type=PartialObject)
    applied = await wire.client.apply(PODS, body, type=PartialObject)
    assert [one.metadata.name for one in (created, updated, patched, applied)] == ["a"] * 4
    untouched = await wire.client.patch(PODS, "a", "n", {}, type=msgspec.Raw)
    assert bytes(untouched).startswith(b'{"metadata"'), "not decoded at all"


async def test_a_locked_status_is_written_only_over_the_version_that_was_read(wire: Wire) -> None:
    pod = {"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"}}
    await wire.client.patch_status(PODS, pod, {"phase": "Running"}, locked=True)
    assert wire.body == {"status": {"phase": "Running"}, "metadata": {"resourceVersion": "7"}}
    await wire.client.patch_status(PODS, pod, {"phase": "Running"})
    assert wire.body == {"status": {"phase": "Running"}}


async def test_finding_what_does_not_exist(server: ModelServer) -> None:
    client = Client(InProcessTransport(server.handle))
    assert await client.find(CONFIG_MAPS, "a", "n") is None
    server.put("configmaps", "n", "a")
    found = await client.find(CONFIG_MAPS, "a", "n", type=PartialObject)
    assert found is not None and found.metadata.name == "a"


async def test_raw_requests_go_to_any_path(wire: Wire) -> None:
    await wire.client.raw("GET", "/healthz", (("verbose", ""),), accept="text/plain")
    assert wire.line == "GET /healthz?verbose="
    assert wire.last.headers["accept"] == "text/plain" and "content-type" not in wire.last.headers
    await wire.client.raw("POST", "/x", body=b"{}")
    assert wire.last.headers["content-type"] == "application/json"


async def test_metadata_lists_ask_for_partial_objects(wire: Wire) -> None:
    await wire.client.list(PODS, metadata_only=True)
    assert "as=PartialObjectMetadataList" in wire.last.headers["accept"]


async def test_writes_are_real_unless_a_dry_run_is_asked_for(wire: Wire) -> None:
    """Of every verb; a default that turned would make an operator that changes nothing."""
    body = {"metadata": {"name": "a", "namespace": "n"}}
    client = wire.client
    for dry_run in (None, False, True):
        more: dict[str, Json] = {} if dry_run is None else {"dry_run": dry_run}
        for write in (
            client.create(PODS, body, "n", **more),
            client.update(PODS, body, **more),
            client.patch(PODS, "a", "n", {}, **more),
            client.apply(PODS, {**body, "apiVersion": "v1", "kind": "Pod"}, **more),
            client.delete(PODS, "a", "n", **more),
        ):
            await write
            asked = dict(wire.last.query).get("dryRun") or (wire.body or {}).get("dryRun")
            assert bool(asked) == bool(dry_run), wire.line


async def test_whole_objects_are_listed_unless_only_metadata_is_asked_for(wire: Wire) -> None:
    await wire.client.list(PODS, "n")
    assert wire.last.headers["accept"] == "application/json"
    await wire.client.list(PODS, "n", metadata_only=True)
    assert "PartialObjectMetadataList" in wire.last.headers["accept"]
