"""Rules of an HTTPRoute during a release, and how they are found back."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.patch import merge
from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.httproute import plan_restore, plan_step, routed
from kohort.rollouts.traffic.model import (
    Header,
    HeaderMatch,
    HeaderModifier,
    Match,
    PathMatch,
    QueryParamMatch,
    TrafficStep,
)


def ref(name: str, weight: int | None = 1, **more: object) -> JsonObject:
    return {
        "group": "",
        "kind": "Service",
        "name": name,
        "port": 80,
        **({} if weight is None else {"weight": weight}),
    } | {**more}


def prefix(value: str) -> JsonObject:
    return {"path": {"type": "PathPrefix", "value": value}}


def rule(*refs: JsonObject, at: str = "/", **more: object) -> JsonObject:
    return {"matches": [prefix(at)], "backendRefs": list(refs), **more}


def route(*rules: JsonObject) -> JsonObject:
    metadata = {"name": "llm", "namespace": "default", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"hostnames": ["a"], "rules": list(rules)}}


def by_header(name: str = "user", value: str = "demo") -> Match:
    return Match(headers=(HeaderMatch(name, value),))


def exact(name: str, value: str) -> JsonObject:
    return {"type": "Exact", "name": name, "value": value}


def stepped(before: JsonObject, step: TrafficStep, canary: str = "llm-canary") -> JsonObject:
    plan = plan_step(before, "llm", canary, step)
    assert plan.writes, "nothing to change"
    return merge.apply(before, plan.writes[0].body)


def restored(before: JsonObject, canary: str = "llm-canary") -> JsonObject:
    plan = plan_restore(before, "llm", canary)
    assert plan.writes, "nothing to restore"
    return merge.apply(before, plan.writes[0].body)


# Weights


def test_a_weight_divides_rules_with_the_stable_service_and_no_other() -> None:
    other = rule(ref("other"), at="/other")
    assert routed([rule(ref("llm")), other], "llm", "llm-canary", TrafficStep(20)) == [
        rule(ref("llm", 80), ref("llm-canary", 20)),
        other,
    ]


def test_a_reference_without_kind_is_a_service() -> None:
    (only,) = routed([{"backendRefs": [{"name": "llm", "port": 80}]}], "llm", "llm-canary", TrafficStep(20))
    assert [(one["name"], one["weight"]) for one in only["backendRefs"]] == [("llm", 80), ("llm-canary", 20)]


def test_a_reference_of_another_kind_is_left_alone() -> None:
    pool = rule({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llm"})
    assert routed([pool], "llm", "llm-canary", TrafficStep(20)) == [pool]


def test_other_backends_of_a_rule_keep_their_share() -> None:
    (only,) = routed([rule(ref("llm", 3), ref("other", 1))], "llm", "llm-canary", TrafficStep(50))
    weights = {one["name"]: one["weight"] for one in only["backendRefs"]}
    total = sum(weights.values())
    assert {name: weight / total for name, weight in weights.items()} == {
        "llm": 0.375,
        "llm-canary": 0.375,
        "other": 0.25,
    }


def test_w09_a_header_modifier_with_a_weight_is_a_filter_of_the_canary_only() -> None:
    step = TrafficStep(20, header_modifier=HeaderModifier(set=(Header("x-version", "new"),)))
    (only,) = routed([rule(ref("llm"))], "llm", "llm-canary", step)
    stable, canary = only["backendRefs"]
    assert "filters" not in stable
    assert canary["filters"] == [
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-version", "value": "new"}]}}
    ]


# Matches


def test_a_match_adds_a_narrower_rule_for_the_canary_behind_all_others() -> None:
    rules = [rule(ref("llm"), at="/v1", filters=[{"type": "URLRewrite"}]), rule(ref("other"), at="/other")]
    step = TrafficStep(20, (by_header(), Match(query_params=(QueryParamMatch("v", "2"),))))
    assert routed(rules, "llm", "llm-canary", step) == [
        *rules,
        {
            "matches": [
                {**prefix("/v1"), "headers": [exact("user", "demo")]},
                {**prefix("/v1"), "queryParams": [exact("v", "2")]},
            ],
            "filters": [{"type": "URLRewrite"}],
            "backendRefs": [ref("llm-canary")],
        },
    ]


def test_matches_with_a_path_stand_as_they_are_once() -> None:
    rules = [rule(ref("llm"), at="/a"), rule(ref("llm"), at="/b")]
    step = TrafficStep(matches=(Match(path=PathMatch("Exact", "/beta")), by_header()))
    _, _, first, second = routed(rules, "llm", "llm-canary", step)
    beta = {"path": {"type": "Exact", "value": "/beta"}}
    assert first["matches"] == [beta, {**prefix("/a"), "headers": [exact("user", "demo")]}]
    assert second["matches"] == [{**prefix("/b"), "headers": [exact("user", "demo")]}]


def test_every_match_of_a_rule_is_combined_and_keeps_its_method_and_headers() -> None:
    before = {"matches": [{"method": "GET", "headers": [exact("a", "1")]}, prefix("/b")], "backendRefs": [ref("llm")]}
    *_, added = routed([before], "llm", "llm-canary", TrafficStep(matches=(by_header(),)))
    assert added["matches"] == [
        {"method": "GET", "headers": [exact("a", "1"), exact("user", "demo")]},
        {**prefix("/b"), "headers": [exact("user", "demo")]},
    ]


def test_a_combination_that_no_request_satisfies_is_left_out() -> None:
    before = {"matches": [{"headers": [exact("User", "other")]}], "backendRefs": [ref("llm")]}
    assert routed([before], "llm", "llm-canary", TrafficStep(matches=(by_header(),))) == [before]


def test_a_modifier_goes_into_the_filter_that_is_there() -> None:
    theirs = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "A", "value": "1"}]}}
    modifier = HeaderModifier(set=(Header("a", "2"),), remove=("b",))
    *_, added = routed(
        [rule(ref("llm"), filters=[theirs])],
        "llm",
        "llm-canary",
        TrafficStep(matches=(by_header(),), header_modifier=modifier),
    )
    (only,) = added["filters"]
    assert only["requestHeaderModifier"] == {"set": [{"name": "a", "value": "2"}], "remove": ["b"]}


# Order of steps, and the way back


def test_w09_steps_in_any_order_build_on_the_original() -> None:
    fresh = route(rule(ref("llm", 7)))
    by_weight, by_match = TrafficStep(20), TrafficStep(matches=(by_header(),))
    rules = stepped(stepped(fresh, by_weight), by_match)["spec"]["rules"]
    assert rules[0] == rule(ref("llm", 7)), "a match after a weight loses no rule and no weight"
    assert len(rules) == 2
    assert stepped(stepped(fresh, by_match), by_weight)["spec"]["rules"] == [
        rule(ref("llm", 80), ref("llm-canary", 20))
    ]


steps = st.lists(
    st.one_of(
        st.integers(0, 100).map(TrafficStep),
        st.sampled_from(["a", "b"]).map(lambda name: TrafficStep(matches=(by_header(name),))),
    ),
    min_size=1,
)
rules_of_users = st.lists(
    st.sampled_from(
        [
            rule(ref("llm")),
            rule(ref("llm", None)),
            rule(ref("llm", 5), ref("other", 3)),
            rule(ref("other")),
            rule(ref("llm", 0), at="/x"),
            {"backendRefs": [ref("llm")]},
            {"filters": [{"type": "RequestRedirect"}]},
        ]
    ),
    min_size=1,
)


@given(rules_of_users, steps, st.sampled_from(["llm-canary", "llm"]))
def test_w09_after_any_steps_the_route_is_restored_byte_for_byte(
    rules: list[JsonObject], taken: list[TrafficStep], canary: str
) -> None:
    fresh = route(*rules)
    now = fresh
    for step in taken:
        plan = plan_step(now, "llm", canary, step)
        now = merge.apply(now, plan.writes[0].body) if plan.writes else now
        assert plan_step(now, "llm", canary, step).writes == (), "a second pass has nothing to do"
    plan = plan_restore(now, "llm", canary)
    now = merge.apply(now, plan.writes[0].body) if plan.writes else now
    assert now["spec"] == fresh["spec"]
    assert not now["metadata"].get("annotations")
    assert plan_restore(now, "llm", canary).writes == ()


def test_what_the_user_edits_meanwhile_is_the_original_from_then_on() -> None:
    now = stepped(route(rule(ref("llm"))), TrafficStep(20))
    now["spec"]["rules"].append(rule(ref("other"), at="/new"))
    now = stepped(now, TrafficStep(30))
    assert now["spec"]["rules"] == [rule(ref("llm", 70), ref("llm-canary", 30)), rule(ref("other"), at="/new")]
    assert restored(now)["spec"]["rules"] == [rule(ref("llm", 1)), rule(ref("other"), at="/new")]


def test_an_untouched_route_is_not_restored() -> None:
    assert plan_restore(route(rule(ref("llm"))), "llm", "llm-canary").writes == ()
    assert plan_restore(None, "llm", "llm-canary").writes == ()


def test_a_step_without_traffic_leaves_an_untouched_route_alone() -> None:
    assert plan_step(route(rule(ref("llm"))), "llm", "llm-canary", TrafficStep(0)).writes == ()


def test_writes_name_the_version_they_were_planned_on() -> None:
    (write,) = plan_step(route(rule(ref("llm"))), "llm", "llm-canary", TrafficStep(20)).writes
    assert write.body["metadata"]["resourceVersion"] == "1"
    assert write.body["metadata"]["annotations"].keys() == {"rollouts.kruise.io/original-rules"}


# Rules that others have divided


def test_rules_that_another_implementation_has_divided_are_whole_again() -> None:
    """It keeps no copy of them, and leaves a weight of 1."""
    original = rule(ref("llm"))
    untouched = rule(ref("other", 7), at="/other")
    weighted = route(rule(ref("llm", 40), ref("llm-canary", 60)), untouched)
    matched = route(original, untouched, rule(ref("llm-canary"), matches=[{"headers": [exact("user", "demo")]}]))
    for live in (weighted, matched):
        assert restored(live)["spec"]["rules"] == [original, untouched]
        onward = stepped(live, TrafficStep(80))
        assert onward["spec"]["rules"] == [rule(ref("llm", 20), ref("llm-canary", 80)), untouched]
        assert restored(onward)["spec"]["rules"] == [original, untouched]


def test_a_route_without_weights_is_not_written() -> None:
    assert not plan_restore(route(rule(ref("llm", 5))), "llm", "llm-canary").writes
