"""Answers to requests that are rarely sent on purpose, as recorded from Kubernetes."""

import base64

import msgspec
import pytest
from tests.cluster.apiserver.caller import Answer, Api

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.schema import protobuf_decode
from kohort.cluster.apiserver.storage.errors import WriteFailed
from kohort.cluster.apiserver.storage.model import Stored
from kohort.objects.json_types import Json

MAPS = "/api/v1/namespaces/default/configmaps"
BOB = User("bob", ("system:authenticated",))


async def test_a_refused_impersonation_names_the_narrowest_permission(api: Api) -> None:
    api.authorizer.refused.add("bob")
    said = Answer(await api.send("GET", MAPS, None, {"impersonate-user": "eve"}, BOB))
    assert said.code == 403
    assert said.message == (
        'configmaps is forbidden: User "bob" cannot impersonate-on:user-info:list resource "configmaps" '
        'in API group "" in the namespace "default"'
    )
    account = {"impersonate-user": "system:serviceaccount:a:b"}
    said = Answer(await api.send("GET", MAPS, None, account, BOB))
    assert "cannot impersonate-on:serviceaccount:list resource" in said.message
    grouped = Answer(await api.send("GET", MAPS, None, {**account, "impersonate-group": "g"}, BOB))
    assert 'cannot impersonate resource "serviceaccounts"' in grouped.message


async def test_export_is_gone(api: Api) -> None:
    await api.config_map("a")
    said = await api.get(f"{MAPS}/a", export="true")
    assert (said.code, said.message) == (
        400,
        "the export parameter, deprecated since v1.14, is no longer supported",
    )


async def test_a_family_of_media_types_is_not_enough(api: Api) -> None:
    await api.config_map("a")
    assert (await api.get(f"{MAPS}/a", {"accept": "application/*"})).code == 406
    assert (await api.get(f"{MAPS}/a", {"accept": "*/*"})).code == 200
    assert (await api.get(f"{MAPS}/a", {"accept": "application/json;as=;v=;g="})).code == 200


async def test_what_is_unknown_in_yaml_is_named_in_order(api: Api) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  zz: 1\nfoo: 1\n"
    said = Answer(await api.send("POST", MAPS, body, {"content-type": "application/yaml"}))
    assert said.warnings == ['299 - "unknown field \\"foo\\""', '299 - "unknown field \\"metadata.zz\\""']


async def test_protobuf_that_is_none(api: Api) -> None:
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    said = Answer(await api.send("POST", MAPS, b"{{{", headers))
    assert (said.code, said.message) == (
        400,
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
        "protobuf message, expected prefix [107 56 115 0] ({{{)",
    )


async def test_documents_have_the_old_paths_of_watches(api: Api) -> None:
    paths = (await api.get("/openapi/v3/apis/apps/v1")).json["paths"]
    assert paths["/apis/apps/v1/watch/namespaces/{namespace}/deployments/{name}"]["get"]["operationId"] == (
        "watchAppsV1NamespacedDeployment"
    )
    assert paths["/apis/apps/v1/watch/deployments"]["get"]["operationId"] == "watchAppsV1DeploymentListForAllNamespaces"


async def test_references_stand_alone(api: Api) -> None:
    schemas = (await api.get("/openapi/v3/apis/apps/v1")).json["components"]["schemas"]
    selector = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["selector"]
    meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
    assert selector["allOf"] == [{"$ref": meta}]
    assert "$ref" not in selector


async def test_a_write_that_fails_leaves_nothing_behind(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is answered with a Status that says no more than it must, and what was given out is given back."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.7.7", "ports": [{"port": 80}]}}

    async def full(*_: object, **__: object) -> Stored:
        raise WriteFailed("cannot write to /secret/place: disk full")

    with monkeypatch.context() as disk:
        disk.setattr(type(api.server.store), "write", full)
        said = await api.post("/api/v1/namespaces/default/services", service)
        assert (said.code, said.reason) == (500, "InternalError")
        assert "/secret/place" not in said.message
    assert (await api.post("/api/v1/namespaces/default/services", service)).code == 201


@pytest.mark.parametrize("media", ["application/merge-patch+json", "application/strategic-merge-patch+json"])
@pytest.mark.parametrize("field", ["kind", "apiVersion"])
@pytest.mark.parametrize("value", [5, {"a": 1}, [[]]])
async def test_a_type_that_is_no_text(api: Api, media: str, field: str, value: Json) -> None:
    await api.config_map("a")
    said = await api.patch(f"{MAPS}/a", {field: value}, media)
    assert (said.code, said.reason) == (422, "Invalid")
    assert [cause["field"] for cause in said.json["details"]["causes"]] == ["patch"]


async def test_a_field_without_a_name(api: Api) -> None:
    said = await api.post(MAPS, {"metadata": {"name": "a", "": "x"}})
    assert said.warnings == ['299 - "unknown field \\"metadata.\\""']


async def test_an_empty_number_is_none(api: Api) -> None:
    said = await api.get(MAPS, limit="")
    assert (said.code, said.message) == (400, 'strconv.ParseInt: parsing "": invalid syntax')


@pytest.mark.parametrize(
    ("start", "rv", "code", "message"),
    [
        ("../x", 1, 400, "invalid continue token: continue key is not valid: ../x"),
        ("a", 10**9, 504, "Timeout: Too large resource version: 1000000000, current: "),
    ],
)
async def test_a_forged_token(api: Api, start: str, rv: int, code: int, message: str) -> None:
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": rv, "start": start})
    said = await api.get(MAPS, continue_=base64.urlsafe_b64encode(token).decode().rstrip("="))
    assert (said.code, said.message[: len(message)]) == (code, message)


async def test_a_class_of_service_that_is_given_is_kept(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    body = {"metadata": {"name": "p"}, "spec": spec, "status": {"qosClass": "Guaranteed", "podIP": "10.0.0.1"}}
    said = await api.post("/api/v1/namespaces/default/pods", body)
    assert said.json["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


async def test_a_client_that_reads_protobuf_only(api: Api) -> None:
    await api.config_map("a")
    for path, code, kind in (
        (f"{MAPS}/a", 200, "ConfigMap"),
        (MAPS, 200, "ConfigMapList"),
        (f"{MAPS}/nope", 404, "Status"),
        ("/apis", 200, "APIGroupList"),
        ("/apis/apps/v1", 200, "APIResourceList"),
    ):
        plain = (await api.get(path)).json
        said = await api.get(path, {"accept": "application/vnd.kubernetes.protobuf"})
        assert (said.code, said.headers["content-type"]) == (code, "application/vnd.kubernetes.protobuf")
        decoded = protobuf_decode.decode(said.raw)
        assert decoded["kind"] == plain["kind"] == kind
        key = {"ConfigMap": "data", "Status": "message", "APIGroupList": "groups"}
        if kind in key:
            assert decoded[key[kind]] == plain[key[kind]]
    both = await api.get(MAPS, {"accept": "application/vnd.kubernetes.protobuf,application/json"})
    assert both.headers["content-type"] == "application/json"
