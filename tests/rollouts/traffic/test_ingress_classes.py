"""Annotations of canary Ingresses, class by class, and the Ingress itself."""

import pytest

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic import ingress
from kohort.rollouts.traffic.model import (
    Header,
    HeaderMatch,
    HeaderModifier,
    IngressRef,
    Match,
    QueryParamMatch,
    RouteRef,
    TrafficRequest,
    TrafficStep,
)
from kohort.rollouts.traffic.pending_writes import TrafficProblem
from kohort.rules.rollout_labels import ROUTED_BY

N, A, M = "nginx.ingress.kubernetes.io/", "alb.ingress.kubernetes.io/", "mse.ingress.kubernetes.io/"
OWNER = {"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "name": "r", "uid": "u1", "controller": True}
REF = RouteRef(service="llm", ingress=IngressRef("llm"))


def header(name: str, value: str, type: str = "Exact") -> Match:
    return Match(headers=(HeaderMatch(name, value, type),))


@pytest.mark.parametrize(
    ("rule", "step", "expected"),
    [
        (ingress.nginx, TrafficStep(20), {N + "canary": "true", N + "canary-weight": "20"}),
        (ingress.nginx, TrafficStep(0), {N + "canary": "true", N + "canary-weight": "0"}),
        (
            ingress.nginx,
            TrafficStep(matches=(header("user", "demo"),)),
            {N + "canary": "true", N + "canary-by-header": "user", N + "canary-by-header-value": "demo"},
        ),
        (
            ingress.nginx,
            TrafficStep(5, (header("user", "de.*", "RegularExpression"),)),
            {
                N + "canary": "true",
                N + "canary-weight": "5",
                N + "canary-by-header": "user",
                N + "canary-by-header-pattern": "de.*",
            },
        ),
        (
            ingress.nginx,
            TrafficStep(matches=(header("canary-by-cookie", "beta"),)),
            {N + "canary": "true", N + "canary-by-cookie": "beta"},
        ),
        (
            ingress.nginx,
            TrafficStep(matches=(header("a", "1"), header("b", "2"))),
            {N + "canary": "true", N + "canary-by-header": "b", N + "canary-by-header-value": "2"},
        ),
        (
            ingress.nginx,
            TrafficStep(matches=(Match(query_params=(QueryParamMatch("q", "1"),)),)),
            {N + "canary": "true"},
        ),
        (ingress.higress, TrafficStep(20), {N + "canary": "true", N + "canary-weight": "20"}),
        (ingress.aliyun_alb, TrafficStep(20), {A + "canary": "true", A + "canary-weight": "20", A + "order": "1"}),
        (
            ingress.aliyun_alb,
            TrafficStep(matches=(header("user", "demo"),)),
            {
                A + "canary": "true",
                A + "canary-by-header": "user",
                A + "canary-by-header-value": "demo",
                A + "order": "1",
            },
        ),
        (
            ingress.mse,
            TrafficStep(matches=(Match(query_params=(QueryParamMatch("user", "demo"),)),)),
            {
                N + "canary": "true",
                N + "canary-by-query": "user",
                N + "canary-by-query-value": "demo",
                M + "canary-by-query": "user",
                M + "canary-by-query-value": "demo",
            },
        ),
        (
            ingress.mse,
            TrafficStep(10, header_modifier=HeaderModifier(set=(Header("gray", "blue"),))),
            {N + "canary": "true", N + "canary-weight": "10", M + "request-header-control-update": "gray blue"},
        ),
    ],
)
def test_annotations_of_a_step(rule: ingress.ClassRule, step: TrafficStep, expected: dict[str, str]) -> None:
    assert rule({}, step) == expected


@pytest.mark.parametrize("name", sorted(ingress.CLASSES))
def test_a_step_leaves_nothing_of_the_one_before_and_keeps_what_is_not_its_own(name: str) -> None:
    rule = ingress.CLASSES[name]
    both = TrafficStep(5, (header("user", "x", "RegularExpression"), header("canary-by-cookie", "c"), header("u", "y")))
    after = rule(rule({"mine": "x"}, both), TrafficStep(40))
    assert after == rule({"mine": "x"}, TrafficStep(40))
    assert after["mine"] == "x"


@pytest.mark.parametrize("rule", [ingress.higress, ingress.aliyun_alb])
def test_classes_that_need_headers_say_so(rule: ingress.ClassRule) -> None:
    with pytest.raises(TrafficProblem, match=r"matches\[0\] has no headers"):
        rule({}, TrafficStep(matches=(Match(),)))


def test_mse_marks_its_subset() -> None:
    assert ingress.mse({M + "service-subset": ""}, TrafficStep(1))[M + "service-subset"] == "gray"


def test_what_an_ingress_cannot_say_is_reported() -> None:
    match = Match(headers=(HeaderMatch("a", "1"), HeaderMatch("b", "2")), query_params=(QueryParamMatch("q", "1"),))
    (event,) = ingress.not_expressible(IngressRef("llm"), TrafficStep(matches=(match,)))
    assert event.warning
    assert "only header a" in event.message
    assert "no queryParams" in event.message
    assert ingress.not_expressible(IngressRef("llm"), TrafficStep(matches=(header("a", "1"),))) == ()


def path(service: str, text: str = "/") -> JsonObject:
    return {"path": text, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}}


def user_ingress() -> JsonObject:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": "llm",
            "namespace": "default",
            "labels": {"team": "a"},
            "annotations": {"mine": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {
            "ingressClassName": "nginx",
            "tls": [{"hosts": ["a.example.com"]}],
            "defaultBackend": {"service": {"name": "llm", "port": {"number": 80}}},
            "rules": [
                {"host": "a.example.com", "http": {"paths": [path("llm"), path("other", "/other")]}},
                {"host": "b.example.com", "http": {"paths": [path("other")]}},
                {"host": "c.example.com"},
                {"host": "d.example.com", "http": {"paths": [{"path": "/", "backend": {"resource": {"name": "b"}}}]}},
            ],
        },
    }


def test_the_canary_ingress_has_the_paths_of_the_stable_service_only() -> None:
    copy = ingress.canary_ingress(user_ingress(), REF, TrafficRequest("default", OWNER, (REF,)))
    assert copy["metadata"] == {
        "name": "llm-canary",
        "namespace": "default",
        "labels": {"team": "a", ROUTED_BY: OWNER["uid"]},
        "annotations": {"mine": "x"},
        "ownerReferences": [OWNER],
    }
    assert copy["spec"] == {
        "ingressClassName": "nginx",
        "tls": [{"hosts": ["a.example.com"]}],
        "rules": [{"host": "a.example.com", "http": {"paths": [path("llm-canary")]}}],
    }


def test_an_ingress_without_the_service_is_refused_in_words() -> None:
    other = RouteRef(service="nobody", ingress=IngressRef("llm"))
    with pytest.raises(TrafficProblem, match=r"Ingress default/llm .*no path with backend service nobody.*spec\.rules"):
        ingress.check_ingress(user_ingress(), other, TrafficRequest("default", {}, (other,)))
    with pytest.raises(TrafficProblem, match="does not exist"):
        ingress.check_ingress(None, REF, TrafficRequest("default", {}, (REF,)))


@pytest.mark.parametrize(
    ("step", "exists", "missing"),
    [
        (TrafficStep(), False, False),
        (TrafficStep(0), False, False),
        (TrafficStep(20), False, True),
        (TrafficStep(20), True, False),
        (TrafficStep(matches=(header("user", "demo"),)), False, True),
        (TrafficStep(matches=(header("user", "demo"),)), True, False),
        (TrafficStep(0, matches=(header("user", "demo"),)), False, True),
    ],
)
def test_when_the_canary_ingress_is_created(step: TrafficStep, exists: bool, missing: bool) -> None:
    assert ingress.is_missing({"metadata": {}} if exists else None, step) is missing
