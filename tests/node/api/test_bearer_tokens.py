"""Clients of the node's API that show a bearer token instead of a certificate."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from tests.node.agent.node_bench import node

from kohort.kube.certificate_issuing import new_authority
from kohort.kube.errors import Forbidden, Status
from kohort.kube.resources import PODS
from kohort.node.api.authorization import Access, ClientUser, access_of, review_of
from kohort.node.api.client_authentication import serving_context
from kohort.node.api.server import NodeApi
from kohort.node.api.token_authentication import REMEMBERED_SECONDS, CannotAuthenticate, TokenAuthenticator
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster, virtual_time

ROBOT: JsonObject = {
    "username": "system:serviceaccount:default:robot",
    "uid": "u1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
}


class Reviews:
    """An API server that knows one token."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, review: JsonObject) -> JsonObject:
        self.asked.append(review["spec"]["token"])
        known = review["spec"]["token"] == "good"
        return {"status": {"authenticated": True, "user": ROBOT} if known else {"user": {}, "error": "unknown"}}


def test_the_api_server_says_whose_token_it_is_and_the_answer_is_remembered_for_a_while() -> None:
    async def program() -> None:
        reviews = Reviews()
        tokens = TokenAuthenticator(reviews)
        user = await tokens.user_of("good")
        assert user == ClientUser(
            "system:serviceaccount:default:robot",
            ("system:serviceaccounts", "system:authenticated"),
            "u1",
            (("authentication.kubernetes.io/credential-id", ("JTI=1",)),),
        )
        assert await tokens.user_of("bad") is None
        assert (await tokens.user_of("good"), await tokens.user_of("bad")) == (user, None)
        assert reviews.asked == ["good", "bad"]
        await asyncio.sleep(REMEMBERED_SECONDS + 1)
        assert await tokens.user_of("good") == user
        assert reviews.asked == ["good", "bad", "good"]

    virtual_time.run(program())


async def test_without_a_token_the_api_server_is_not_asked() -> None:
    reviews = Reviews()
    assert await TokenAuthenticator(reviews).user_of("") is None
    assert reviews.asked == []


async def test_a_token_that_cannot_be_checked_opens_nothing() -> None:
    async def broken(review: JsonObject) -> JsonObject:
        raise Forbidden(Status(code=403, message="tokenreviews is forbidden"))

    with pytest.raises(CannotAuthenticate, match="tokenreviews is forbidden"):
        await TokenAuthenticator(broken).user_of("good")


def test_the_authorizer_is_asked_about_the_whole_user() -> None:
    user = ClientUser("robot", ("system:authenticated", "a"), "u1", (("scope", ("x", "y")),))
    spec = review_of(user, access_of("/metrics"), "n1")["spec"]
    assert (spec["user"], spec["uid"], spec["extra"]) == ("robot", "u1", {"scope": ["x", "y"]})
    assert spec["groups"] == ["system:authenticated", "a"]
    assert spec["resourceAttributes"] == {
        "verb": "get",
        "group": "",
        "version": "v1",
        "resource": "nodes",
        "subresource": "metrics",
        "namespace": "",
        "name": "n1",
    }
    assert review_of(ClientUser("robot"), access_of("/metrics"), "n1")["spec"]["groups"] == ["system:authenticated"]


@asynccontextmanager
async def served(place: Path) -> AsyncIterator[tuple[Cluster, str]]:
    """A cluster, and the API of its node."""
    authority, _ = new_authority("tests", timedelta(days=1))
    async with node(place / "node") as bench:
        api = NodeApi(bench.agent)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await api.start(listening, serving_context(place, "127.0.0.1", "n1", authority.decode()))
            try:
                yield bench.cluster, f"https://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                await api.stop()


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("header", ["", "Bearer forged", "Basic YTpi"])
async def test_a_client_without_certificate_or_valid_token_is_unauthorized(tmp_path: Path, header: str) -> None:
    headers = {"Authorization": header} if header else {}
    async with served(tmp_path) as (_, address), aiohttp.ClientSession() as session:
        for path in ("/healthz", "/metrics", "/containerLogs/default/a/c"):
            async with session.get(address + path, headers=headers, ssl=trusting()) as answer:
                assert (answer.status, "bearer token" in await answer.text()) == (401, True)


async def test_a_token_that_the_cluster_knows_is_accepted(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, address), aiohttp.ClientSession() as session:
        async with cluster.listening() as known:
            headers = {"Authorization": f"Bearer {known.token}"}
        async with session.get(f"{address}/healthz", headers=headers, ssl=trusting()) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")


def phase(pod: JsonObject | None) -> str:
    return str(pod["status"].get("phase")) if pod is not None else ""


async def test_the_pods_of_the_node_are_listed_whole(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, address), aiohttp.ClientSession() as session:
        async with cluster.listening() as known:
            headers = {"Authorization": f"Bearer {known.token}"}
        for name, place in (("here", "n1"), ("elsewhere", "n2")):
            spec = {"nodeName": place, "containers": [{"name": "c", "image": "host", "command": ["run"]}]}
            pod = {"metadata": {"name": name, "namespace": "default"}, "spec": {**spec, "schedulerName": "mine"}}
            await cluster.client.create(PODS, pod, "default")
        await cluster.until(lambda: phase(cluster.find(PODS, "here", "default")) == "Running", 60)
        async with session.get(f"{address}/pods", headers=headers, ssl=trusting()) as answer:
            found = await answer.json()
        assert found["kind"] == "PodList"
        assert [(each["metadata"]["name"], each["spec"]["schedulerName"]) for each in found["items"]] == [
            ("here", "mine")
        ]
    assert access_of("/pods") == Access("get", "pods")
