"""The path grammar (specification 1.2) and the verbs (1.3)."""

import pytest

from kohort.cluster.apiserver.endpoints.paths import ResourcePath, check_segments, parse, verb_of
from kohort.kube.errors import NotFound


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/nodes/n", ResourcePath("", "v1", "nodes", name="n")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/a", ResourcePath("", "v1", "namespaces", "a", "a")),
        ("/api/v1/namespaces/a/status", ResourcePath("", "v1", "namespaces", "a", "a", "status")),
        ("/api/v1/namespaces/a/finalize", ResourcePath("", "v1", "namespaces", "a", "a", "finalize")),
        ("/api/v1/namespaces/a/pods", ResourcePath("", "v1", "pods", "a")),
        ("/api/v1/namespaces/a/pods/p/log", ResourcePath("", "v1", "pods", "a", "p", "log")),
        ("/apis/apps/v1/deployments", ResourcePath("apps", "v1", "deployments")),
        (
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            ResourcePath("apps", "v1", "deployments", "a", "d", "scale"),
        ),
        ("/api/v1/watch/pods", ResourcePath("", "v1", "pods", watch=True)),
        ("/api/v1/watch/namespaces/a/pods/p", ResourcePath("", "v1", "pods", "a", "p", watch=True)),
        (
            "/api/v1/namespaces/a/services/http:s:80/proxy/x/y",
            ResourcePath("", "v1", "services", "a", "http:s:80", "proxy", "/x/y"),
        ),
    ],
)
def test_resource_paths(path: str, expected: ResourcePath) -> None:
    assert parse(path) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/version"]
)
def test_paths_without_a_resource(path: str) -> None:
    assert parse(path) is None


@pytest.mark.parametrize("path", ["/api/v1//pods", "/api/v1/namespaces/a//p", "/apis//v1/pods"])
def test_empty_segments_name_nothing(path: str) -> None:
    with pytest.raises(NotFound):
        parse(path)


@pytest.mark.parametrize("path", ["/api/v1/../secrets", "/api/v1/./pods", "/api/v1/a\\b", "/api/v1/a\x00b"])
def test_segments_that_mean_something_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(NotFound):
        check_segments(path)


@pytest.mark.parametrize(
    ("method", "path", "watch", "verb"),
    [
        ("GET", "/api/v1/pods", False, "list"),
        ("GET", "/api/v1/pods", True, "watch"),
        ("GET", "/api/v1/namespaces/a/pods/p", False, "get"),
        ("GET", "/api/v1/namespaces/a/pods/p", True, "get"),
        ("GET", "/api/v1/watch/namespaces/a/pods/p", False, "watch"),
        ("POST", "/api/v1/namespaces/a/pods", False, "create"),
        ("PUT", "/api/v1/namespaces/a/pods/p", False, "update"),
        ("PATCH", "/api/v1/namespaces/a/pods/p", False, "patch"),
        ("DELETE", "/api/v1/namespaces/a/pods/p", False, "delete"),
        ("DELETE", "/api/v1/namespaces/a/pods", False, "deletecollection"),
        ("HEAD", "/api/v1/namespaces/a/pods/p", False, ""),
        ("OPTIONS", "/api/v1/namespaces/a/pods/p", False, ""),
    ],
)
def test_verbs(method: str, path: str, watch: bool, verb: str) -> None:
    parsed = parse(path)
    assert parsed is not None
    assert verb_of(method, parsed, watch=watch) == verb
