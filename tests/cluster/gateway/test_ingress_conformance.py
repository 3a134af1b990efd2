"""What the specification of Ingress says, as far as it applies to the gateway, one line for each."""

import pytest
from msgspec import convert

from kohort.cluster.gateway import ingresses
from kohort.cluster.gateway.route_table import Facts, RouteTable
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.networking import Ingress


def ingress(*paths: tuple[str, str, str, str], default: str = "", name: str = "i") -> Ingress:
    """Paths as (host, path type, path, Service)."""
    rules: list[JsonObject] = []
    for host, kind, path, service in paths:
        backend = {"service": {"name": service, "port": {"number": 80}}}
        rule: JsonObject = {"http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}}
        rules.append({**rule, **({"host": host} if host else {})})
    spec: JsonObject = {"rules": rules}
    if default:
        spec["defaultBackend"] = {"service": {"name": default, "port": {"name": "http"}}}
    return convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Ingress)


def served(one: Ingress, host: str, path: str) -> str:
    routes, _ = ingresses.routes_of([one])
    facts = Facts(host, path)
    found = RouteTable(routes).find(facts)
    chosen = None if found is None else found.choose(facts)
    return "" if chosen is None else chosen.service


SPECIFICATION = [
    # The examples of the reference: kind, path of the rule, path of the request, whether they match.
    ("Prefix", "/", "/any/path", True),
    ("Exact", "/foo", "/foo", True),
    ("Exact", "/foo", "/bar", False),
    ("Exact", "/foo", "/foo/", False),
    ("Exact", "/foo/", "/foo", False),
    ("Prefix", "/foo", "/foo", True),
    ("Prefix", "/foo", "/foo/", True),
    ("Prefix", "/foo/", "/foo", True),
    ("Prefix", "/foo/", "/foo/", True),
    ("Prefix", "/aaa/bb", "/aaa/bbb", False),
    ("Prefix", "/aaa/bbb", "/aaa/bbb", True),
    ("Prefix", "/aaa/bbb/", "/aaa/bbb", True),
    ("Prefix", "/aaa/bbb", "/aaa/bbb/", True),
    ("Prefix", "/aaa/bbb", "/aaa/bbb/ccc", True),
    ("Prefix", "/aaa/bbb", "/aaa/bbbxyz", False),
    ("ImplementationSpecific", "/aaa", "/aaa/b", True),
]


@pytest.mark.parametrize(("kind", "rule", "path", "matches"), SPECIFICATION)
def test_paths_match_as_the_specification_says(kind: str, rule: str, path: str, matches: bool) -> None:
    assert served(ingress(("", kind, rule, "llm")), "a.example", path) == ("llm" if matches else "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", "root"), ("/aaa", "aaa"), ("/aaa/bbb", "bbb"), ("/aaa/bbb/c", "bbb"), ("/aaa/ccc", "aaa"), ("/x", "root")],
)
def test_the_longest_path_counts(path: str, expected: str) -> None:
    one = ingress(("", "Prefix", "/", "root"), ("", "Prefix", "/aaa", "aaa"), ("", "Prefix", "/aaa/bbb", "bbb"))
    assert served(one, "a.example", path) == expected


def test_an_exact_path_counts_before_a_prefix() -> None:
    one = ingress(("", "Prefix", "/foo", "prefix"), ("", "Exact", "/foo", "exact"))
    assert [served(one, "", "/foo"), served(one, "", "/foo/x")] == ["exact", "prefix"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("foo.bar.com", "one"), ("FOO.bar.com", ""), ("x.wild.com", "wild"), ("wild.com", ""), ("other.com", "")],
)
def test_hosts_are_exact_or_wildcards(host: str, expected: str) -> None:
    """Hosts of requests are in lower case when they are compared."""
    one = ingress(("foo.bar.com", "Prefix", "/", "one"), ("*.wild.com", "Prefix", "/", "wild"))
    assert served(one, host, "/") == expected


def test_the_default_backend_takes_what_no_rule_does() -> None:
    one = ingress(("a.example", "Exact", "/x", "rule"), default="rest")
    assert [served(one, "a.example", "/x"), served(one, "a.example", "/y"), served(one, "b", "/x")] == [
        "rule",
        "rest",
        "rest",
    ]
    (*_, last), _ = ingresses.routes_of([one])
    assert last.backends()[0].port == "http", "a port by its name"


def test_a_backend_that_is_no_service_is_said_and_not_served() -> None:
    resource = {"resource": {"apiGroup": "k8s.example.com", "kind": "StorageBucket", "name": "static"}}
    rules = [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": resource}]}}]
    one = Ingress(ObjectMeta(name="i", namespace="default"), convert({"rules": rules}, type(ingress().spec)))
    routes, problems = ingresses.routes_of([one])
    assert routes == []
    assert "only Services are served" in problems[0]
