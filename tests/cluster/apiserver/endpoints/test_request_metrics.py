"""Metrics of requests, with the labels that kube-apiserver 1.36 gives them (endpoints/metrics/metrics.go)."""

import re

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.auth.model import ADMIN

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"


async def series(api: Api, name: str) -> dict[frozenset[tuple[str, str]], float]:
    text = (await api.get("/metrics")).raw.decode()
    found = re.findall(rf"^{name}{{(.*)}} (\S+)$", text, re.MULTILINE)
    return {frozenset(re.findall(r'(\w+)="([^"]*)"', labels)): float(value) for labels, value in found}


def labels(verb: str, scope: str, code: str = "", **more: str) -> frozenset[tuple[str, str]]:
    common = {"group": "", "version": "v1", "resource": "configmaps", "subresource": "", "component": "apiserver"}
    shown = {**common, "dry_run": "", "verb": verb, "scope": scope, **({"code": code} if code else {}), **more}
    return frozenset(shown.items())


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "query", "expected"),
    [
        ("GET", CONFIG_MAPS, None, "", {}, labels("LIST", "namespace", "200")),
        ("GET", "/api/v1/configmaps", None, "", {}, labels("LIST", "cluster", "200")),
        ("GET", f"{CONFIG_MAPS}/a", None, "", {}, labels("GET", "resource", "200")),
        ("GET", f"{CONFIG_MAPS}/none", None, "", {}, labels("GET", "resource", "404")),
        ("GET", CONFIG_MAPS, None, "", {"watch": "true"}, labels("WATCH", "namespace", "200")),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "b"}}, "application/json", {}, labels("POST", "resource", "201")),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, "application/json", {}, labels("POST", "resource", "409")),
        (
            *("POST", CONFIG_MAPS, {"metadata": {"name": "c"}}, "application/json", {"dryRun": "All"}),
            labels("POST", "resource", "201", dry_run="All"),
        ),
        (
            "PUT",
            f"{CONFIG_MAPS}/a",
            {"metadata": {"name": "a"}},
            "application/json",
            {},
            labels("PUT", "resource", "200"),
        ),
        ("PATCH", f"{CONFIG_MAPS}/a", {}, "application/merge-patch+json", {}, labels("PATCH", "resource", "200")),
        (
            *("PATCH", f"{CONFIG_MAPS}/a", {"apiVersion": "v1", "kind": "ConfigMap"}, APPLY, {"fieldManager": "m"}),
            labels("APPLY", "resource", "200"),
        ),
        ("DELETE", f"{CONFIG_MAPS}/a", None, "application/json", {}, labels("DELETE", "resource", "200")),
        ("DELETE", CONFIG_MAPS, None, "application/json", {}, labels("DELETECOLLECTION", "namespace", "200")),
    ],
)
async def test_every_request_is_counted_as_what_it_is(
    api: Api,
    method: str,
    path: str,
    body: dict[str, object] | None,
    media: str,
    query: dict[str, str],
    expected: object,
) -> None:
    await api.config_map("a")
    before = await series(api, "apiserver_request_total")
    await api.send(method, path, body, {"content-type": media} if media else None, ADMIN, **query)
    after = await series(api, "apiserver_request_total")
    changed = {labels: value - before.get(labels, 0) for labels, value in after.items()}
    assert {labels: value for labels, value in changed.items() if value} == {expected: 1.0}


async def test_subresources_have_series_of_their_own(api: Api) -> None:
    await api.pod("p")
    await api.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Running"}})
    found = await series(api, "apiserver_request_total")
    assert found[labels("PATCH", "resource", "200", resource="pods", subresource="status")] == 1.0


async def test_resources_that_do_not_exist_are_not_counted(api: Api) -> None:
    await api.get("/apis/example.com/v1/anything")
    await api.get("/api/v1/anything")
    assert not [one for one in await series(api, "apiserver_request_total") if ("resource", "anything") in one]


async def test_durations_know_no_watches(api: Api) -> None:
    await api.config_map("a")
    await api.watch(CONFIG_MAPS)
    found = await series(api, "apiserver_request_duration_seconds_count")
    assert found == {labels("POST", "resource"): 1.0}


async def test_open_watches_are_counted_until_they_end(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS, timeoutSeconds="5")
    await api.config_map("a")
    await events.next()
    expected = frozenset(one for one in labels("WATCH", "namespace") if one[0] != "dry_run")
    assert await series(api, "apiserver_longrunning_requests") == {expected: 1.0}
    await events.rest()
    assert await series(api, "apiserver_longrunning_requests") == {expected: 0.0}


async def test_objects_are_counted_by_kind(api: Api) -> None:
    await api.config_map("a")
    await api.config_map("b")
    found = await series(api, "apiserver_resource_objects")
    assert found[frozenset({("group", ""), ("resource", "configmaps")})] == 2.0
    assert await series(api, "apiserver_current_inflight_requests") == {
        frozenset({("request_kind", kind)}): 0.0 for kind in ("mutating", "readOnly")
    }
