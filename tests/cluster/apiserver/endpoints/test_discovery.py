"""Discovery, version, health (specification 1.8, 1.9) and who may see them."""

import pytest
from tests.cluster.apiserver.caller import Answer, Api

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.kinds.version_priority import version_priority

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL_132 = f"{V2},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"


def test_versions_are_preferred_by_maturity_then_number() -> None:
    shuffled = ["v1alpha1", "foo", "v1", "v11beta2", "v2", "v10", "v1beta1", "v3beta1", "bar"]
    assert sorted(shuffled, key=version_priority) == [
        "v10", "v2", "v1", "v11beta2", "v3beta1", "v1beta1", "v1alpha1", "bar", "foo",
    ]  # fmt: skip


async def test_the_legacy_tree(api: Api) -> None:
    versions = await api.get("/api")
    assert (versions.json["kind"], versions.json["versions"]) == ("APIVersions", ["v1"])
    groups = {group["name"]: group for group in (await api.get("/apis")).json["groups"]}
    assert [one["version"] for one in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await api.get("/apis/apps")).json == {"kind": "APIGroup", "apiVersion": "v1", **groups["apps"]}
    resources = {one["name"]: one for one in (await api.get("/api/v1")).json["resources"]}
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["nodes"]["namespaced"] is False


@pytest.mark.parametrize("accept", [V2, KUBECTL_132])
async def test_the_aggregated_form(api: Api, accept: str) -> None:
    found = await api.get("/apis", {"accept": accept})
    assert found.headers["content-type"] == V2
    assert found.json["kind"] == "APIGroupDiscoveryList"
    apps = next(item for item in found.json["items"] if item["metadata"]["name"] == "apps")
    deployments = next(one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }
    again = Answer(await api.send("GET", "/apis", None, {"accept": accept, "if-none-match": found.headers["etag"]}))
    assert (again.code, again.raw) == (304, b"")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "text/html",
    ],
)
@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps"])
async def test_forms_that_discovery_does_not_have(api: Api, path: str, accept: str) -> None:
    assert (await api.get(path, {"accept": accept})).code == 406
    assert (await api.get(path, {"accept": f"{accept},application/json"})).code == 200


async def test_the_version_is_served_as_indented_json_only(api: Api) -> None:
    assert (await api.get("/version", {"accept": "application/yaml"})).code == 406
    assert (await api.get("/version")).raw.count(b"\n") == 14


@pytest.mark.parametrize("path", ["/apis/apps/v9", "/api/v2", "/api/v1/nopes", "/apis/apps/v1/nopes"])
async def test_what_does_not_exist_among_known_things(api: Api, path: str) -> None:
    found = await api.get(path)
    assert (found.code, found.message) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize("path", ["/apis/nope", "/apis/nope/v1", "/apis/nope/v1/nopes", "/nope", "/healthz/nope"])
async def test_unknown_paths(api: Api, path: str) -> None:
    assert (await api.get(path)).raw == b"404 page not found\n"


async def test_the_root_lists_what_there_is(api: Api) -> None:
    paths = (await api.get("/")).json["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/healthz/ping", "/openapi/v3", "/version"} <= set(paths)


async def test_health(api: Api) -> None:
    assert (await api.get("/healthz")).raw == b"ok"
    assert (await api.get("/livez/ping")).raw == b"ok"
    assert (await api.get("/readyz")).code == 500
    assert b"[-]poststarthook/bootstrap failed: reason withheld" in (await api.get("/readyz")).raw
    api.server.ready = True
    assert (await api.get("/readyz")).raw == b"ok"
    verbose = (await api.get("/readyz", verbose="")).raw.decode()
    assert "[+]etcd ok" in verbose
    assert verbose.endswith("readyz check passed\n")


async def test_version(api: Api) -> None:
    found = (await api.get("/version")).json
    assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "36", "v1.36.4+kohort")


async def test_openapi(api: Api) -> None:
    index = (await api.get("/openapi/v3")).json["paths"]
    url = index["api/v1"]["serverRelativeURL"]
    path, _, digest = url.partition("?hash=")
    document = await api.get(path, hash=digest)
    assert document.json["openapi"].startswith("3.0")
    containers = document.json["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["description"] == "What runs, side by side; at least one."
    assert document.headers["cache-control"] == "public, immutable"
    again = await api.send("GET", path, None, {"if-none-match": document.headers["etag"]})
    assert again.status == 304
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await api.send("GET", "/openapi/v2", None, {"accept": protobuf})
    assert (answer.status, answer.headers["content-type"]) == (200, protobuf.replace("@", "."))
    assert isinstance(answer.body, bytes) and b"io.k8s.api.core.v1.PodSpec" in answer.body
    again = await api.send("GET", "/openapi/v2", None, {"accept": protobuf, "if-none-match": answer.headers["etag"]})
    assert again.status == 304


async def test_refusals_name_what_was_wanted(api: Api) -> None:
    api.authorizer.refused.add("eve")
    eve = User("eve")
    cases = {
        "/api/v1/namespaces": 'namespaces is forbidden: User "eve" cannot list resource "namespaces" in API group "" '
        "at the cluster scope",
        "/apis/apps/v1/namespaces/a/deployments/d/scale": 'deployments.apps "d" is forbidden: User "eve" cannot get '
        'resource "deployments/scale" in API group "apps" in the namespace "a"',
        "/metrics": 'forbidden: User "eve" cannot get path "/metrics"',
    }
    for path, message in cases.items():
        found = Answer(await api.send("GET", path, user=eve))
        assert (found.code, found.message) == (403, message)


async def test_impersonating_a_user_that_is_refused(api: Api) -> None:
    api.authorizer.refused.add("eve")
    found = Answer(await api.send("GET", "/api/v1/nodes", None, {"impersonate-user": "eve"}))
    assert (found.code, found.reason) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "/api/v1/namespaces/default/configmaps/a"),
        ("HEAD", "/version"),
        ("HEAD", "/api/v1"),
        ("OPTIONS", "/api/v1/namespaces/default/configmaps/a"),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", "/api/v1/configmaps"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/version"),
    ],
)
async def test_methods_that_a_path_does_not_have(api: Api, method: str, path: str) -> None:
    found = Answer(await api.send(method, path))
    assert (found.code, found.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize("path", ["/api/v1/namespaces/a/nodes", "/api/v1/pods/p", "/api/v1/namespaces/a/pods/p/nope"])
async def test_paths_outside_the_scope_of_a_kind(api: Api, path: str) -> None:
    assert (await api.get(path)).code == 404


async def test_indexes_answer_to_any_method(api: Api) -> None:
    for method, path in (("PUT", "/apis"), ("PATCH", "/apis/apps"), ("OPTIONS", "/apis"), ("POST", "/openapi/v2")):
        assert Answer(await api.send(method, path)).code == 200, path
