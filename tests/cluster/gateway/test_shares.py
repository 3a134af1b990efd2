"""What a real HTTP client sees of weights and matches."""

import pytest
from tests.cluster.gateway.plane import GATEWAY, NGINX, backend, http_route, ingress, stage

from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import HTTP_ROUTES, INGRESSES

REQUESTS = 2000
POINTS = 3.0


def check_share(seen: dict[str, int], percent: int, requests: int = REQUESTS) -> None:
    """All answered, none by anybody else, and the canary within the points."""
    assert sum(seen.values()) == requests
    assert seen.keys() <= {"stable", "canary"}, seen
    assert abs(100 * seen.get("canary", 0) / requests - percent) <= POINTS


async def test_shares_of_a_canary_ingress_while_its_weight_changes() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        check_share(await scene.count(100), 0, 100)
        await client.create(INGRESSES, ingress("llm-canary", "llm-canary", canary="true", canary_weight="0"))
        for weight in (20, 50, 100, 5, 0):
            said = {"metadata": {"annotations": {NGINX + "canary-weight": str(weight)}}}
            await client.patch(INGRESSES, "llm-canary", "default", said)
            # Requests go on while the change arrives; none of them may be lost.
            no_losses(await scene.count(60))
            check_share(await scene.count(REQUESTS), weight)
        await client.delete(INGRESSES, "llm-canary", "default")
        no_losses(await scene.count(60))
        check_share(await scene.count(100), 0, 100)


def no_losses(seen: dict[str, int]) -> None:
    assert seen.keys() <= {"stable", "canary"}, seen


@pytest.mark.parametrize("weight", [1, 20, 50])
async def test_shares_of_an_http_route(weight: int) -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        split = {"backendRefs": [backend("llm", 100 - weight), backend("llm-canary", weight)]}
        await client.create(HTTP_ROUTES, http_route(split))
        await scene.open()
        check_share(await scene.count(REQUESTS), weight)


async def test_a_canary_by_header() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("llm", "llm"))
        said = {"canary": "true", "canary_by_header": "user", "canary_by_header_value": "demo"}
        await client.create(INGRESSES, ingress("llm-canary", "llm-canary", **said))
        await scene.open()
        assert await scene.count(50, headers={"user": "demo"}) == {"canary": 50}
        assert await scene.count(50, headers={"user": "other"}) == {"stable": 50}
        assert await scene.count(50) == {"stable": 50}


async def test_a_canary_by_header_pattern_or_cookie() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("llm", "llm"))
        said = {
            "canary": "true",
            "canary_by_header": "user",
            "canary_by_header_pattern": "de.*",
            "canary_by_cookie": "beta",
        }
        await client.create(INGRESSES, ingress("llm-canary", "llm-canary", **said))
        await scene.open()
        assert await scene.get(headers={"user": "demo"}) == (200, "canary")
        assert await scene.get(headers={"user": "x"}) == (200, "stable")
        assert await scene.get(headers={"cookie": "beta=always"}) == (200, "canary")
        assert await scene.get(headers={"cookie": "beta=never"}) == (200, "stable")


async def test_matches_of_an_http_route() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        header = {"headers": [{"name": "User", "value": "demo"}]}
        query = {"queryParams": [{"name": "v", "value": "[2-3]", "type": "RegularExpression"}]}
        path = {"path": {"type": "Exact", "value": "/beta"}}
        method = {"method": "PUT"}
        await client.create(
            HTTP_ROUTES,
            http_route(
                {"backendRefs": [backend("llm")]},
                {"matches": [header, query, path, method], "backendRefs": [backend("llm-canary")]},
            ),
        )
        await scene.open()
        assert await scene.get() == (200, "stable")
        assert await scene.get(headers={"user": "demo"}) == (200, "canary")
        assert await scene.get("/?v=2") == (200, "canary")
        assert await scene.get("/?v=22") == (200, "stable")
        assert await scene.get("/beta") == (200, "canary")
        assert await scene.get("/beta/x") == (200, "stable")
        async with scene.http.put(scene.plane.address) as answer:
            assert await answer.text() == "canary"


async def test_header_modifiers_of_an_http_route() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        change = {
            "set": [{"name": "x-set", "value": "new"}],
            "add": [{"name": "x-add", "value": "more"}],
            "remove": ["x-gone"],
        }
        answer_change = {"set": [{"name": "x-server", "value": "hidden"}]}
        filters = [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": change},
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": answer_change},
        ]
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm", filters=filters)]}))
        await scene.open()
        sent = {"x-set": "old", "x-add": "one", "x-gone": "1"}
        async with scene.http.get(scene.plane.address + "/headers", headers=sent) as answer:
            got = [tuple(pair) for pair in await answer.json()]
        assert ("x-set", "new") in got and ("x-set", "old") not in got
        assert ("x-add", "one") in got and ("x-add", "more") in got
        assert "x-gone" not in dict(got)
        async with scene.http.get(scene.plane.address) as answer:
            assert answer.headers["x-server"] == "hidden"
