"""What RBAC rules allow and cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.auth.model import AccessRequest, User
from kohort.cluster.apiserver.auth.rbac_rules import Rule, breakdown, missing

BOB = User("bob")


def resource(verb: str, what: str, group: str = "", name: str = "") -> AccessRequest:
    plural, _, subresource = what.partition("/")
    return AccessRequest(BOB, verb, group, "v1", plural, subresource, "ns", name)


READ_PODS = Rule(("get", "list"), ("",), ("pods",))


@pytest.mark.parametrize(
    ("rule", "request_", "allowed"),
    [
        (READ_PODS, resource("get", "pods"), True),
        (READ_PODS, resource("delete", "pods"), False),
        (READ_PODS, resource("get", "pods", "apps"), False),
        (READ_PODS, resource("get", "pods/log"), False),
        (READ_PODS, resource("get", "secrets"), False),
        (Rule(("get",), ("",), ("pods/log",)), resource("get", "pods/log"), True),
        (Rule(("get",), ("",), ("pods/log",)), resource("get", "pods"), False),
        (Rule(("update",), ("apps",), ("*/scale",)), resource("update", "deployments/scale", "apps"), True),
        (Rule(("update",), ("apps",), ("*/scale",)), resource("update", "deployments/status", "apps"), False),
        (Rule(("update",), ("apps",), ("*/scale",)), resource("update", "deployments", "apps"), False),
        (Rule(("*",), ("*",), ("*",)), resource("anything", "things/part", "example.com", "x"), True),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), resource("get", "pods", name="b"), True),
        (Rule(("get",), ("",), ("pods",), ("a", "b")), resource("get", "pods", name="c"), False),
        (Rule(("list",), ("",), ("pods",), ("a", "b")), resource("list", "pods"), False),
        (Rule(("get",), None, None, None, ("/healthz", "/api*")), AccessRequest(BOB, "get", path="/apis/x"), True),
        (Rule(("get",), None, None, None, ("/healthz", "/api/*")), AccessRequest(BOB, "get", path="/api"), False),
        (Rule(("get",), None, None, None, ("/healthz",)), AccessRequest(BOB, "get", path="/healthz/x"), False),
        (Rule(("get",), None, None, None, ("*",)), AccessRequest(BOB, "get", path="/metrics"), True),
        (Rule(("get",), None, None, None, ("*",)), AccessRequest(BOB, "post", path="/metrics"), False),
        (Rule(("*",), ("*",), ("*",)), AccessRequest(BOB, "get", path="/metrics"), False),
        (Rule(("*",), None, None, None, ("*",)), resource("get", "pods"), False),
    ],
)
def test_what_a_rule_allows(rule: Rule, request_: AccessRequest, allowed: bool) -> None:
    assert rule.allows(request_) is allowed


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([READ_PODS], [Rule(("get",), ("",), ("pods",))], []),
        ([READ_PODS], [Rule(("get",), ("",), ("pods",), ("a",))], []),
        ([Rule(("get",), ("",), ("pods",), ("a",))], [Rule(("get",), ("",), ("pods",))], ["get pods"]),
        ([Rule(("get",), ("",), ("pods",), ("a",))], [Rule(("get",), ("",), ("pods",), ("a", "b"))], ["get pods b"]),
        ([READ_PODS], [Rule(("get", "delete"), ("",), ("pods", "secrets"))], ["delete pods", "get,delete secrets"]),
        ([Rule(("*",), ("*",), ("*",))], [Rule(("get",), ("",), ("pods/log",))], []),
        ([Rule(("*",), ("*",), ("*",))], [Rule(("get",), None, None, None, ("/x",))], ["get /x"]),
        ([Rule(("get",), None, None, None, ("/a/*",))], [Rule(("get",), None, None, None, ("/a/b", "/c"))], ["get /c"]),
        ([Rule(("*",), ("apps",), ("*/scale",))], [Rule(("get",), ("apps",), ("deployments/scale",))], []),
        ([Rule(("get",), ("",), ("pods",)), Rule(("list",), ("",), ("pods",))], [READ_PODS], []),
    ],
)
def test_what_is_missing_to_grant_something(held: list[Rule], wanted: list[Rule], lacking: list[str]) -> None:
    def short(rule: Rule) -> str:
        parts = [rule.resources, rule.resource_names, rule.non_resource_urls]
        return " ".join([",".join(rule.verbs), *(",".join(part) for part in parts if part)])

    assert sorted(short(rule) for rule in missing(held, wanted)) == sorted(lacking)


def test_a_rule_in_words() -> None:
    rule = Rule(("get", "list"), ("",), ("pods",), ("a",))
    assert str(rule) == '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
    assert str(Rule(("*",), None, None, None, ("*",))) == '{NonResourceURLs:["*"], Verbs:["*"]}'


def some(*choices: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True).map(tuple)


resource_rules = st.builds(
    Rule,
    some("get", "list", "*"),
    some("", "apps", "*"),
    some("pods", "pods/log", "*/log", "*"),
    st.just(()) | some("a", "b"),
)
requests = st.builds(
    resource,
    st.sampled_from(["get", "list", "watch"]),
    st.sampled_from(["pods", "pods/log", "secrets/log"]),
    st.sampled_from(["", "apps"]),
    st.sampled_from(["", "a", "b"]),
)


@given(resource_rules, requests)
def test_a_rule_broken_down_allows_the_same(rule: Rule, request: AccessRequest) -> None:
    assert rule.allows(request) == any(part.allows(request) for part in breakdown(rule))


@given(st.lists(resource_rules, max_size=3), resource_rules, requests)
def test_who_lacks_nothing_of_a_rule_may_do_all_of_it(held: list[Rule], wanted: Rule, request: AccessRequest) -> None:
    if not missing(held, [wanted]) and wanted.allows(request):
        assert any(rule.allows(request) for rule in held)
