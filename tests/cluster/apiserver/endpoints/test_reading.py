"""Lists and gets (specification 1.15, 1.16)."""

import asyncio
import base64
import json

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import COMPACT_SECONDS, ObjectStore, open_store
from kohort.testing import virtual_time

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ALL = "/api/v1/configmaps"
META_LIST = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
META = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}


async def test_items_of_built_in_lists_do_not_repeat_their_kind(api: Api) -> None:
    await api.config_map("a")
    found = await api.get(CONFIG_MAPS)
    assert (found.json["kind"], found.json["apiVersion"]) == ("ConfigMapList", "v1")
    assert sorted(found.json["items"][0]) == ["data", "metadata"]
    assert found.raw.endswith(b"]}\n")


async def test_an_empty_list_has_items_and_a_revision(api: Api) -> None:
    found = await api.get("/api/v1/secrets")
    assert found.json["items"] == []
    assert int(found.meta["resourceVersion"]) > 0


async def test_a_missing_object(api: Api) -> None:
    found = await api.get(f"{CONFIG_MAPS}/x")
    assert (found.code, found.message) == (404, 'configmaps "x" not found')
    assert found.json["details"] == {"name": "x", "kind": "configmaps"}


async def test_pages_come_from_one_snapshot(api: Api) -> None:
    for number in range(7):
        await api.config_map(f"p{number}")
    first = await api.get(CONFIG_MAPS, limit="3")
    assert (first.names, first.meta["remainingItemCount"]) == (["p0", "p1", "p2"], 4)
    await api.delete(f"{CONFIG_MAPS}/p4")
    await api.config_map("p3a")
    second = await api.get(CONFIG_MAPS, limit="3", continue_=first.meta["continue"])
    assert (second.names, second.meta["remainingItemCount"]) == (["p3", "p4", "p5"], 1)
    last = await api.get(CONFIG_MAPS, limit="3", continue_=second.meta["continue"])
    assert last.names == ["p6"]
    assert "continue" not in last.meta
    assert len({page.meta["resourceVersion"] for page in (first, second, last)}) == 1


async def test_pages_over_all_namespaces_are_in_key_order(api: Api) -> None:
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        await api.config_map(name, namespace)
    first = await api.get(ALL, limit="2")
    second = await api.get(ALL, limit="2", continue_=first.meta["continue"])
    assert first.names + second.names == ["y", "z", "x"]


async def test_with_a_selector_nothing_is_said_about_what_remains(api: Api) -> None:
    for number in range(6):
        await api.config_map(f"p{number}", labels={"t": str(number % 2)})
    first = await api.get(CONFIG_MAPS, limit="2", labelSelector="t=1")
    assert first.names == ["p1", "p3"]
    assert "remainingItemCount" not in first.meta
    second = await api.get(CONFIG_MAPS, limit="2", labelSelector="t=1", continue_=first.meta["continue"])
    assert second.names == ["p5"]
    assert "continue" not in second.meta


async def test_an_expired_token_comes_with_another_that_goes_on_anyway(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.config_map(name)
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\0"})
    token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    store = api.server.store
    assert isinstance(store, ObjectStore)
    store._start = 2  # the history begins after the token
    expired = await api.get(CONFIG_MAPS, limit="1", continue_=token)
    assert (expired.code, expired.reason) == (410, "Expired")
    on = await api.get(CONFIG_MAPS, limit="1", continue_=expired.meta["continue"])
    assert on.names == ["b"]


def test_a_token_expires_as_if_the_store_were_compacted() -> None:
    """Whatever else is written, and however little: five minutes are what Kubernetes gives a client."""

    async def scenario() -> None:
        authorizer = AllowAll()
        api = Api(ApiServer(open_store(None), Catalog(builtin_kinds()), authorizer), authorizer)
        for name in ("a", "b", "c"):
            await api.config_map(name)
        token = (await api.get(CONFIG_MAPS, limit="1")).meta["continue"]
        await asyncio.sleep(COMPACT_SECONDS + 10)
        assert (await api.get(CONFIG_MAPS, limit="1", continue_=token)).names == ["b"], "nothing newer was written"
        await api.config_map("d", "elsewhere")
        await asyncio.sleep(COMPACT_SECONDS - 10)
        assert (await api.get(CONFIG_MAPS, limit="1", continue_=token)).names == ["b"]
        await asyncio.sleep(20)
        expired = await api.get(CONFIG_MAPS, limit="1", continue_=token)
        assert (expired.code, expired.reason) == (410, "Expired")
        on = await api.get(CONFIG_MAPS, limit="1", continue_=expired.meta["continue"])
        assert (on.names, on.meta["remainingItemCount"]) == (["b"], 1)
        rest = await api.get(CONFIG_MAPS, limit="1", continue_=on.meta["continue"])
        assert (rest.names, rest.meta["resourceVersion"]) == (["c"], on.meta["resourceVersion"])

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            {"continue_": "bogus!"},
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 5",
        ),
        ({"resourceVersion": "abc"}, 400, "invalid resource version: "),
        ({"fieldSelector": "data.x=1"}, 400, '"data.x" is not a known field selector: only "metadata.name", '),
        ({"fieldSelector": "nope"}, 400, "invalid selector: 'nope'; can't understand 'nope'"),
        ({"labelSelector": "a in"}, 400, "unable to parse requirement: "),
        ({"limit": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ],
)
async def test_what_a_list_refuses(api: Api, query: dict[str, str], code: int, message: str) -> None:
    found = await api.get(CONFIG_MAPS, None, **query)
    assert found.code == code
    assert found.message.startswith(message)


async def test_a_token_and_a_revision_exclude_each_other(api: Api) -> None:
    for name in ("a", "b"):
        await api.config_map(name)
    token = (await api.get(CONFIG_MAPS, limit="1")).meta["continue"]
    refused = await api.get(CONFIG_MAPS, limit="1", continue_=token, resourceVersion="5")
    assert refused.message == "specifying resource version is not allowed when using continue"
    assert (await api.get(CONFIG_MAPS, limit="1", continue_=token, resourceVersion="0")).code == 200


async def test_exact_lists_show_the_past(api: Api) -> None:
    then = (await api.config_map("a")).meta["resourceVersion"]
    await api.config_map("b")
    exact = await api.get(CONFIG_MAPS, resourceVersion=then, resourceVersionMatch="Exact")
    assert (exact.names, exact.meta["resourceVersion"]) == (["a"], then)
    legacy = await api.get(CONFIG_MAPS, resourceVersion=then, limit="10")
    assert legacy.names == ["a"]
    newer = await api.get(CONFIG_MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan", limit="10")
    assert newer.names == ["a", "b"]


async def test_the_future_is_waited_for_and_then_refused(api: Api) -> None:
    found = await api.get(CONFIG_MAPS, resourceVersion="10000000")
    assert (found.code, found.reason) == (504, "Timeout")
    assert found.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert found.json["details"]["retryAfterSeconds"] == 1
    assert found.headers["retry-after"] == "1"


async def test_metadata_only(api: Api) -> None:
    await api.config_map("a", labels={"x": "y"})
    listed = await api.get(CONFIG_MAPS, META_LIST)
    assert (listed.json["kind"], listed.json["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [sorted(item) for item in listed.json["items"]] == [["apiVersion", "kind", "metadata"]]
    one = await api.get(f"{CONFIG_MAPS}/a", META)
    assert (one.json["kind"], one.meta["labels"]) == ("PartialObjectMetadata", {"x": "y"})
    wrong = await api.get(CONFIG_MAPS, META)
    assert (wrong.code, wrong.reason) == (406, "NotAcceptable")
    assert "is a list (*core.ConfigMapList)" in wrong.message


async def test_yaml_is_sorted_and_quotes_what_would_be_misread(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "data": {"n": "5", "s": "a: b", "m": "l1\nl2\n"}}
    await api.post(CONFIG_MAPS, body)
    found = await api.get(f"{CONFIG_MAPS}/a", {"accept": "application/yaml"})
    lines = found.raw.decode().splitlines()
    assert lines[:7] == ["apiVersion: v1", "data:", "  m: |", "    l1", "    l2", '  "n": "5"', "  s: 'a: b'"]
    missing = await api.get(f"{CONFIG_MAPS}/x", {"accept": "application/yaml"})
    assert missing.headers["content-type"] == "application/yaml"
    assert missing.raw.startswith(b"apiVersion: v1\ncode: 404\n")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/nodes", 400),
        ("/api/v1/namespaces", 400),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", 400),
        ("/apis/resource.k8s.io/v1/resourceslices", 400),
        ("/api/v1/persistentvolumes", 200),
        ("/api/v1/pods", 200),
    ],
)
async def test_kinds_with_own_selectable_fields_are_selected_by_namespace_only_if_they_have_one(
    api: Api, path: str, code: int
) -> None:
    assert (await api.get(path, fieldSelector="metadata.namespace=x")).code == code
