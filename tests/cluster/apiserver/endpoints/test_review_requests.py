"""Reviews and tokens: questions that are answered and never stored. Expected answers are those of Kubernetes 1.36."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.cluster.apiserver.caller import Answer

from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

BOB = User("bob", ("system:authenticated",))


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server, _ = await assemble(open_store(None))
    yield server
    await server.close()


async def post(server: ApiServer, path: str, body: JsonObject) -> JsonObject:
    headers = {"content-type": "application/json", "user-agent": "probe/1"}
    request = Request("POST", path, (), headers, msgspec.json.encode(body))
    answer = Answer(await server.handle(request, ADMIN))
    assert answer.code == 201, answer.message
    document: JsonObject = answer.json
    return document


def owned(answer: JsonObject) -> list[tuple[str, str, Json]]:
    entries = answer["metadata"].get("managedFields") or []
    return [(one["manager"], one.get("subresource", ""), one["fieldsV1"]) for one in entries]


async def test_an_answer_that_repeats_the_question_says_who_asked(server: ApiServer) -> None:
    spec = {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    answer = await post(server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    attributes: JsonObject = {".": {}, "f:resource": {}, "f:verb": {}}
    assert owned(answer) == [("probe", "", {"f:spec": {"f:resourceAttributes": attributes, "f:user": {}}})]
    answer = await post(server, "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nope"}})
    assert owned(answer) == [("probe", "", {"f:spec": {"f:token": {}}})]


async def test_an_answer_of_its_own_does_not(server: ApiServer) -> None:
    rules = await post(server, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "x"}})
    assert owned(rules) == []
    assert owned(await post(server, "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})) == []


async def test_a_token_says_who_asked_for_it(server: ApiServer) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await post(server, accounts, {"metadata": {"name": "robot"}})
    answer = await post(server, f"{accounts}/robot/token", {"spec": {"audiences": ["a"]}})
    assert owned(answer) == [("probe", "token", {"f:spec": {"f:audiences": {}, "f:expirationSeconds": {}}})]


async def test_a_path_that_is_forbidden_is_no_object(server: ApiServer) -> None:
    refused = Answer(await server.handle(Request("GET", "/metrics"), BOB))
    assert refused.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "bob" cannot get path "/metrics"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}},
        ),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nope"}}),
        ("/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {"audiences": ["a"]}}),
    ],
)
async def test_what_is_not_stored_is_no_table(server: ApiServer, path: str, body: JsonObject) -> None:
    await post(server, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})

    async def answered(accept: str) -> Answer:
        headers = {"content-type": "application/json", "accept": accept}
        return Answer(await server.handle(Request("POST", path, (), headers, msgspec.json.encode(body)), ADMIN))

    refused = await answered(TABLE)
    assert (refused.code, refused.reason) == (406, "NotAcceptable")
    assert "only the following media types are accepted" in refused.message
    assert (await answered(f"{TABLE},application/json")).code == 201, "kubectl accepts both"
    assert (await answered(METADATA)).json["kind"] == "PartialObjectMetadata"
