"""Behind a proxy: users are those whom it names, if it knows the secret."""

import hashlib
import hmac
import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from multidict import CIMultiDict
from tests.dashboard.isolation import SECRET
from tests.dashboard.scene import model_set, scene
from tests.dashboard.test_token_access import READ, ROLE_BINDINGS, ROLES

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard.access import ProxyUsers
from kohort.dashboard.running import running
from kohort.dashboard.server import DashboardSettings
from kohort.kube.client import Client
from kohort.kube.credentials import Credentials, Static
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.kube.transport import Connection, HttpsTransport

WORD = "a secret of the proxy"
ADA = {ProxyUsers.SECRET: WORD, ProxyUsers.USER: "ada", ProxyUsers.GROUPS: "research, ops"}


@pytest.fixture
async def base() -> AsyncIterator[str]:
    """A dashboard; ada may read the namespace `east`, and members of ops may change it."""
    async with scene(nodes=4) as found, found.cluster.listening() as address:
        await found.namespace("east", "west")
        await found.create(model_set("open-model", "east"), model_set(SECRET, "west"))
        await found.ready("open-model", "east")
        writes = [{"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["*"], "verbs": ["patch"]}]
        for name, rules, kind, subject in (("read", READ, "User", "ada"), ("write", writes, "Group", "ops")):
            metadata = {"name": name, "namespace": "east"}
            await found.client.create(ROLES, {"metadata": metadata, "rules": rules})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": subject}]
            await found.client.create(ROLE_BINDINGS, {"metadata": metadata, "roleRef": role, "subjects": subjects})
        connection = Connection(address.server, ca=address.authority.encode())
        transport = HttpsTransport(connection, Credentials(Static(bearer=address.token)))
        client, proxy = Client(transport), ProxyUsers(transport, WORD)
        settings = DashboardSettings(allow_actions=True)
        async with running(client, ("127.0.0.1", 0), settings, CliCommands(), proxy=proxy) as made:
            yield f"http://127.0.0.1:{made.port}"
            assert found.cluster.find(LEADER_WORKER_SETS, SECRET, "west") is not None
        await client.close()


async def status(base: str, headers: dict[str, str], path: str = "/dashboard/") -> int:
    every = {"Accept": "application/json", **headers}
    async with ClientSession(headers=every) as session, session.get(base + path) as answer:
        return answer.status


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {ProxyUsers.USER: "ada"},
        {**ADA, ProxyUsers.SECRET: "wrong"},
        {ProxyUsers.SECRET: WORD},
        {**ADA, ProxyUsers.USER: "system:admin"},
        {"Authorization": f"Bearer {WORD}", ProxyUsers.USER: "ada"},
    ],
)
async def test_headers_without_the_secret_name_no_user(base: str, headers: dict[str, str]) -> None:
    assert await status(base, headers) == 401


async def test_a_user_sees_and_does_what_the_cluster_allows(base: str) -> None:
    async with ClientSession(headers={"Accept": "application/json", **ADA}) as session:
        async with session.get(f"{base}/dashboard/") as answer:
            assert [one["name"] for one in (await answer.json())["rows"]] == ["open-model"]
        action = f"{base}/dashboard/sets/east/open-model/actions/restart"
        async with session.get(action) as answer:
            assert (await answer.json())["refused"] == ""
        async with session.post(action, data={"csrf": "guessed"}) as answer:
            assert answer.status == 403
    assert await status(base, ADA, f"/dashboard/sets/west/{SECRET}") == 404
    alone = {**ADA, ProxyUsers.GROUPS: "research,system:masters"}
    every = {"Accept": "application/json", **alone}
    async with ClientSession(headers=every) as session, session.get(action) as answer:
        assert "cannot patch" in (await answer.json())["refused"]


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 characters"):
        ProxyUsers(HttpsTransport(Connection("https://127.0.0.1:1")), "short")


@pytest.mark.parametrize("header", [ProxyUsers.SECRET, ProxyUsers.USER, ProxyUsers.GROUPS])
async def test_a_header_that_comes_twice_names_no_user(base: str, header: str) -> None:
    """A proxy that adds its header to that of the client, instead of replacing it, would let the client choose."""
    headers = CIMultiDict({"Accept": "application/json", **ADA})
    headers.add(header, ADA[header])
    async with ClientSession(headers=headers) as session, session.get(f"{base}/dashboard/") as answer:
        assert answer.status == 401


async def test_a_group_with_control_characters_names_no_user(base: str) -> None:
    assert await status(base, {**ADA, ProxyUsers.GROUPS: "ops,re\x85search"}) == 401


async def test_forms_do_not_reveal_the_secret_to_guesses(base: str) -> None:
    async with ClientSession(headers=ADA) as session, session.get(f"{base}/dashboard/") as answer:
        found = re.search(r'data-csrf="([^"]+)"', await answer.text())
    assert found is not None
    assert found[1] != hmac.new(WORD.encode(), b"csrf ada", hashlib.sha256).hexdigest()
