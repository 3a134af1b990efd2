"""Scripts: what they get, what they may do, and what happens when they do something else."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.traffic.custom_scripts import script_input
from kohort.rollouts.traffic.lua.sandbox import Sandbox, ScriptProblem
from kohort.rollouts.traffic.model import (
    Header,
    HeaderMatch,
    HeaderModifier,
    Match,
    PathMatch,
    QueryParamMatch,
    TrafficStep,
)
from kohort.rollouts.traffic.scripts import built_in


@pytest_asyncio.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    box = Sandbox()
    yield box
    await box.close()


VALUES: list[Json] = [
    {"a": 1, "b": [1, 2.5, -3], "c": True, "d": False, "e": 'text "quoted" \\ \n \u00e9 \U0001f600'},
    {"empty": {}, "none": [], "deep": {"list": [{"x": []}]}},
    ["a", "b"],
    {"a/b": "c", "1": "number as a name"},
]


@pytest.mark.parametrize("value", VALUES)
async def test_values_pass_through_unchanged(sandbox: Sandbox, value: Json) -> None:
    assert await sandbox.run("return obj.value", {"value": value}) == value


async def test_what_a_script_prints_is_discarded(sandbox: Sandbox) -> None:
    assert await sandbox.run("print('here', obj) return { done = true }", {}) == {"done": True}


async def test_json_is_at_hand(sandbox: Sandbox) -> None:
    script = 'local t = json.decode(\'{"a":[1,2]}\') t.b = "x" return { text = json.encode(t) }'
    assert await sandbox.run(script, {}) == {"text": '{"a":[1,2],"b":"x"}'}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("while true do end", "did not finish within 1 s"),
        ("local s = 'x' while true do pcall(function() while true do end end) end", "did not finish within 1 s"),
        ("local t = {} while true do t[#t + 1] = {} end", "memory"),
        ("local s = 'x' while true do s = s .. s end", "memory"),
        ("return string.rep('x', 100 * 1024 * 1024)", "memory"),
        ("error('no such route')", "^script:1: no such route$"),
        ("error({ code = 2 })", "failed without saying why"),
        ("error()", "failed without saying why"),
        ("\x1bLuaQ", "compiled code"),
        ("this is not lua", "syntax|expected"),
        ("return { 1, nil, 3, [7] = 1 }", "holes"),
        ("local t = {1} return { a = t, b = t }", "the same table"),
        ("return { [1] = 1, a = 2 }", "both names and numbers"),
        ("return function() end", "cannot write a function"),
        ("return { a = 0/0 }", "finite"),
        ("local function f() return f() + 1 end return f()", "stack overflow"),
    ],
)
async def test_scripts_that_go_wrong_are_stopped_and_reported(sandbox: Sandbox, script: str, words: str) -> None:
    with pytest.raises(ScriptProblem, match=words):
        await sandbox.run(script, {})
    assert await sandbox.run("return { fine = obj.x }", {"x": 1}) == {"fine": 1}, "the next script runs"


@pytest.mark.parametrize(
    "name",
    [
        "os",
        "io",
        "debug",
        "package",
        "require",
        "dofile",
        "loadfile",
        "load",
        "loadstring",
        "python",
        "string.dump",
        "getfenv",
        "collectgarbage",
    ],
)
async def test_what_could_reach_out_is_not_there(sandbox: Sandbox, name: str) -> None:
    assert await sandbox.run(f"return {{ there = {name} ~= nil }}", {}) == {"there": False}


async def test_a_script_leaves_nothing_for_the_next(sandbox: Sandbox) -> None:
    await sandbox.run("secret = 1 string.upper = nil table.insert = nil return {}", {})
    assert await sandbox.run("return { secret = secret, upper = string.upper('a') }", {}) == {"upper": "A"}


async def test_the_child_is_used_again_until_it_dies(sandbox: Sandbox) -> None:
    for _ in range(3):
        await sandbox.run("return {}", {})
    assert sandbox.started == 1
    with pytest.raises(ScriptProblem):
        await sandbox.run("while true do end", {})
    await sandbox.run("return {}", {})
    assert sandbox.started == 2


async def test_many_at_once_take_turns(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.run("return { n = obj.n }", {"n": n}) for n in range(20)))
    assert [result["n"] for result in results] == list(range(20))


# The scripts for Istio

ISTIO = "networking.istio.io"


async def virtual_service(
    sandbox: Sandbox, spec: JsonObject, step: TrafficStep, canary: str = "svc-demo-canary"
) -> Json:
    script = built_in(ISTIO, "VirtualService")
    assert script is not None
    result = await sandbox.run(script, script_input({"spec": spec}, step, "svc-demo", canary))
    return result["spec"]


def to(host: str, weight: int | None = None, **more: Json) -> JsonObject:
    destination = {"host": host, **more}
    return {"destination": destination} if weight is None else {"destination": destination, "weight": weight}


DEMO = {"hosts": ["*"], "gateways": ["gw"], "http": [{"route": [to("svc-demo")]}]}


async def test_istio_weights(sandbox: Sandbox) -> None:
    spec = await virtual_service(sandbox, DEMO, TrafficStep(50))
    assert spec == {**DEMO, "http": [{"route": [to("svc-demo", 50), to("svc-demo-canary", 50)]}]}


async def test_istio_weights_scale_what_was_divided_already(sandbox: Sandbox) -> None:
    divided = {"http": [{"route": [to("svc-demo", 60, subset="a"), to("other", 40)]}]}
    spec = await virtual_service(sandbox, divided, TrafficStep(20))
    assert spec["http"][0]["route"] == [to("svc-demo", 48, subset="a"), to("other", 32), to("svc-demo-canary", 20)]


async def test_istio_rules_with_matches_or_other_hosts_are_left_alone(sandbox: Sandbox) -> None:
    others = {
        "http": [
            {"match": [{"uri": {"prefix": "/a"}}], "route": [to("svc-demo")]},
            {"route": [to("svc-demo-two")]},
            {"redirect": {"uri": "/"}},
        ],
        "tcp": [{"route": [to("svc-demo.default.svc.cluster.local", port={"number": 80})]}],
    }
    spec = await virtual_service(sandbox, others, TrafficStep(10))
    assert spec["http"] == others["http"]
    assert spec["tcp"][0]["route"] == [
        to("svc-demo.default.svc.cluster.local", 90, port={"number": 80}),
        to("svc-demo-canary.default.svc.cluster.local", 10, port={"number": 80}),
    ]


async def test_istio_matches_come_first_the_last_of_them_before_the_others(sandbox: Sandbox) -> None:
    step = TrafficStep(
        matches=(
            Match(headers=(HeaderMatch("user", "pc", "Exact"), HeaderMatch("name", "jo.*", "RegularExpression"))),
            Match(path=PathMatch("PathPrefix", "/beta"), query_params=(QueryParamMatch("v", "2"),)),
        ),
        header_modifier=HeaderModifier(set=(Header("x-gray", "1"),), remove=("x-old",)),
    )
    spec = await virtual_service(sandbox, DEMO, step)
    changes = {"request": {"set": {"x-gray": "1"}, "remove": ["x-old"]}}
    assert spec["http"] == [
        {
            "match": [{"uri": {"prefix": "/beta"}, "queryParams": {"v": {"exact": "2"}}}],
            "route": [to("svc-demo-canary")],
            "headers": changes,
        },
        {
            "match": [{"headers": {"user": {"exact": "pc"}, "name": {"regex": "jo.*"}}}],
            "route": [to("svc-demo-canary")],
            "headers": changes,
        },
        {"route": [to("svc-demo")]},
    ]


async def test_istio_subsets_where_the_service_is_shared(sandbox: Sandbox) -> None:
    spec = await virtual_service(sandbox, DEMO, TrafficStep(30), canary="svc-demo")
    assert spec["http"][0]["route"] == [to("svc-demo", 70), to("svc-demo", 30, subset="canary")]


async def test_istio_destination_rule(sandbox: Sandbox) -> None:
    script = built_in(ISTIO, "DestinationRule")
    assert script is not None
    data = {"spec": {"host": "svc-demo", "subsets": [{"name": "v1", "labels": {"version": "v1"}}], "trafficPolicy": {}}}
    result = await sandbox.run(script, script_input(data, TrafficStep(30), "svc-demo", "svc-demo"))
    gray = {"name": "canary", "labels": {"istio.service.tag": "gray"}}
    assert result["spec"] == {**data["spec"], "subsets": [*data["spec"]["subsets"], gray]}
