"""In a cluster: users log in with tokens, and see what the API server lets them list."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from html import unescape
from typing import NamedTuple

import msgspec
import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar
from tests.dashboard.isolation import SECRET, leaks, without_rate_limits
from tests.dashboard.scene import Scene, Visit, model_set, scene

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard import access
from kohort.dashboard.access import TokenReviewer
from kohort.dashboard.running import RunningDashboard, running
from kohort.dashboard.server import DashboardSettings
from kohort.dashboard.sessions import COOKIE
from kohort.kube.client import Client
from kohort.kube.credentials import Credentials, Static
from kohort.kube.http import Request, Response, Stream
from kohort.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    EVENTS,
    LEADER_WORKER_SETS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.json_types import JsonObject

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
READ: list[JsonObject] = [
    {
        "apiGroups": ["leaderworkerset.x-k8s.io", "", "apps", "rollouts.kruise.io", "networking.k8s.io"],
        "resources": ["*"],
        "verbs": ["get", "list", "watch"],
    }
]


class Place(NamedTuple):
    scene: Scene
    running: RunningDashboard
    token: str
    """Of a user who may read the namespace `east`, and nothing else."""


async def reader(of: Scene, namespace: str, rules: list[JsonObject] = READ, name: str = "reader") -> str:
    """The token of a service account that may read one namespace."""
    client = of.client
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": namespace}})
    await client.create(ROLES, {"metadata": {"name": name, "namespace": namespace}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    body = {"metadata": {"name": name, "namespace": namespace}, "subjects": [subject], "roleRef": role}
    await client.create(ROLE_BINDINGS, body)
    answer: JsonObject = await client.create(SERVICE_ACCOUNTS, {"spec": {}}, namespace, "token", name)
    return str(answer["status"]["token"])


@asynccontextmanager
async def place_of(rules: list[JsonObject] = READ) -> AsyncIterator[Place]:
    async with scene(nodes=4) as found, found.cluster.listening() as address:
        await found.namespace("east", "west")
        await found.create(model_set("open-model", "east"), model_set(SECRET, "west"))
        await found.ready("open-model", "east")
        await found.ready(SECRET, "west")
        token = await reader(found, "east", rules)
        connection = Connection(address.server, ca=address.authority.encode())
        client = Client(HttpsTransport(connection, Credentials(Static(bearer=address.token))))
        async with running(
            client, ("127.0.0.1", 0), DashboardSettings(allow_actions=True), CliCommands(), tokens_of=connection
        ) as made:
            yield Place(found, made, token)
        await client.close()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with place_of() as found:
        yield found


@asynccontextmanager
async def logged_in(place: Place, token: str) -> AsyncIterator[Visit]:
    base = f"http://127.0.0.1:{place.running.port}"
    jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
    async with ClientSession(cookie_jar=jar) as session:
        async with session.post(f"{base}/dashboard/login", data={"token": token}) as answer:
            assert answer.status == 200, await answer.text()
        yield Visit(session, base)


async def test_a_user_sees_only_own_namespaces(place: Place) -> None:
    assert place.running.link() == ""
    async with logged_in(place, place.token) as user:
        found = await user.json("/dashboard/")
        assert [one["name"] for one in found["rows"]] == ["open-model"]
        assert (found["namespaces"], found["total"]) == (["east"], 1)
        for path in ("/dashboard/", "/dashboard/?namespace=west", "/dashboard/?name=secret"):
            text = await user.text(path)
            assert SECRET not in text
            assert "west" not in text or "west" in path


NODES_TOO: list[JsonObject] = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]


async def may_see_nodes(client: Client, namespace: str, name: str = "reader") -> None:
    """The service account may list nodes, too."""
    await client.create(CLUSTER_ROLES, {"metadata": {"name": f"node-{name}"}, "rules": NODES_TOO})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"node-{name}"}
    body = {"metadata": {"name": f"node-{name}"}, "subjects": [subject], "roleRef": role}
    await client.create(CLUSTER_ROLE_BINDINGS, body)


async def test_no_answer_of_any_path_knows_another_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    without_rate_limits(monkeypatch)
    async with place_of() as place, logged_in(place, place.token) as user:
        await place.scene.released_workload(DEPLOYMENTS, "open-model", "east")
        await place.scene.released_workload(DEPLOYMENTS, SECRET, "west")
        await user.until("/dashboard/", lambda page: len(page["rows"]) == 2)
        assert await leaks(user, place.running, "sim-0") == []


async def test_nodes_show_no_pods_of_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither their groups nor how many there are."""
    without_rate_limits(monkeypatch)
    async with place_of() as place:
        await may_see_nodes(place.scene.client, "east")
        async with logged_in(place, place.token) as user:
            page = await user.json("/dashboard/nodes")
            seen = [one for domain in page["domains"] for one in domain["nodes"]]
            assert page["partial"] and len(seen) == 4
            assert {group["set"] for one in seen for group in one["groups"]} == {"open-model"}
            assert sum(one["otherPods"] for one in seen) == 0
            assert await leaks(user, place.running, "sim-0") == []


async def test_a_drain_says_which_budgets_are_not_known() -> None:
    """A user who may list pods and nodes, and no PodDisruptionBudgets."""
    async with place_of() as place:
        client = place.scene.client
        await may_see_nodes(client, "east")
        for namespace in ("east", "west"):
            for name in (f"{SECRET}-one", f"{SECRET}-two"):
                body = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {}}}
                await client.create(POD_DISRUPTION_BUDGETS, body, namespace)
        budgets = [*READ, {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]}]
        token = await reader(place.scene, "east", budgets, name="operator")
        await may_see_nodes(client, "east", "operator")
        node = (place.scene.cluster.find(PODS, "open-model-0", "east") or {})["spec"]["nodeName"]
        page_of_drain = f"/dashboard/nodes/{node}/drain"
        async with logged_in(place, token) as user:
            page = await user.until(page_of_drain, lambda page: bool(page["blockedPods"]))
            assert page["budgetsUnknownIn"] == []
            assert {one["namespace"] for one in page["blockedPods"]} == {"east"}
        async with logged_in(place, place.token) as user:
            page = await user.json(page_of_drain)
            assert (page["budgetsUnknownIn"], page["blockedPods"]) == (["east"], [])
            text = await user.text(page_of_drain)
            assert "PodDisruptionBudgets of namespace east are not known: you may not list them" in text
            assert SECRET not in text and "the drain ends, as far as you may see" in text


async def test_nodes_are_offered_to_those_who_may_list_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    pages = ("/dashboard/", "/dashboard/sets/east/open-model", "/dashboard/what-if")
    link = 'href="/dashboard/nodes"'
    async with place_of() as place:
        async with logged_in(place, place.token) as user:
            assert [link in await user.text(one) for one in pages] == [False] * 3
            assert link not in await user.text("/dashboard/nothing", 404)
        await may_see_nodes(place.scene.client, "east")
        async with logged_in(place, place.token) as user:
            assert [link in await user.text(one) for one in pages] == [True] * 3
            assert link in await user.text("/dashboard/nothing", 404)


TABS = (
    *("", "/history", "/events", "/logs", "/release", "/resize", "/status.svg", "/log-stream"),
    *("/failures", "/actions/restart"),
)


@pytest.mark.parametrize("tab", TABS)
async def test_no_page_of_another_namespace_exists(place: Place, tab: str) -> None:
    async with logged_in(place, place.token) as user:
        answer = await user.json(f"/dashboard/sets/west/{SECRET}{tab}", status=404)
        absent = await user.json(f"/dashboard/sets/west/none{tab}", status=404)
        assert answer["message"].replace(SECRET, "none") == absent["message"]
        if tab != "/log-stream":
            await user.json(f"/dashboard/sets/east/open-model{tab}", status=404 if tab == "/release" else 200)


async def test_nodes_and_plans_show_nothing_of_other_namespaces(place: Place) -> None:
    async with logged_in(place, place.token) as user:
        await user.json("/dashboard/nodes", status=404)
        await user.json("/dashboard/nodes/sim-0/drain", status=404)
        await user.json(f"/dashboard/what-if?set=west/{SECRET}", status=404)
        kind = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet"
        manifest = f"{kind}\nmetadata: {{name: {SECRET}, namespace: west}}"
        answer = await posted(user, "/dashboard/what-if", {"manifest": manifest})
        assert "cannot get resource" in answer["refused"]


async def posted(user: Visit, path: str, body: dict[str, str], status: int = 200) -> JsonObject:
    found = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/"))
    assert found is not None
    headers = {"Accept": "application/json"}
    async with user.session.post(user.base + path, data={"csrf": found[1], **body}, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        made: JsonObject = await answer.json()
        return made


async def test_an_action_has_the_rights_of_its_user(place: Place) -> None:
    """The dashboard acts with the administrator's client here; the user may only read."""
    path = "/dashboard/sets/east/open-model/actions/restart"
    async with logged_in(place, place.token) as user:
        page = await user.json(path)
        assert "reader" in page["refused"] and "cannot patch" in page["refused"]
        answer = await posted(user, path, {}, status=409)
        assert "cannot patch" in answer["message"]
    writer = [*READ, {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["*"], "verbs": ["patch"]}]
    token = await reader(place.scene, "east", writer, name="writer")
    async with logged_in(place, token) as user:
        assert (await user.json(path))["refused"] == ""
        assert "recreates its groups" in (await posted(user, path, {}))["message"]
    await place.scene.cluster.until(lambda: any(_is_ours(one) for one in place.scene.cluster.objects(EVENTS)))
    (event,) = [one for one in place.scene.cluster.objects(EVENTS) if _is_ours(one)]
    assert event["message"].startswith("system:serviceaccount:east:writer ran kohort restart open-model -n east")


def _is_ours(event: JsonObject) -> bool:
    return event.get("reason") == "DashboardRestart"


async def test_a_wrong_token_is_refused(place: Place) -> None:
    base = f"http://127.0.0.1:{place.running.port}"
    async with ClientSession() as session:
        async with session.post(f"{base}/dashboard/login", data={"token": "wrong"}) as answer:
            assert answer.status == 401
            assert "Set-Cookie" not in answer.headers
        headers = {"Authorization": "Bearer wrong", "Accept": "application/json"}
        async with session.get(f"{base}/dashboard/", headers=headers) as answer:
            assert answer.status == 401


async def test_a_login_leads_to_the_page_that_was_asked_for(place: Place) -> None:
    base, wanted = f"http://127.0.0.1:{place.running.port}", "/dashboard/sets/east/open-model/history?from=1&to=1"
    jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
    async with ClientSession(cookie_jar=jar) as session:
        async with session.get(base + wanted) as answer:
            page = await answer.text()
        field = re.search(r'name="to" value="([^"]+)"', page)
        assert field is not None
        for to, reached in (
            ("https://evil.example.com/", "/dashboard/"),
            ("//evil.example.com/", "/dashboard/"),
            (unescape(field[1]), wanted),
        ):
            body = {"token": place.token, "to": to}
            async with session.post(f"{base}/dashboard/login", data=body, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, reached)


async def test_a_login_as_another_user_ends_the_former_session(place: Place) -> None:
    other = await reader(place.scene, "west", name="other")
    async with logged_in(place, place.token) as user:
        (former,) = [one.value for one in user.session.cookie_jar if one.key == COOKIE]
        async with user.session.post(f"{user.base}/dashboard/login", data={"token": other}) as answer:
            assert answer.status == 200
        assert [one["name"] for one in (await user.json("/dashboard/"))["rows"]] == [SECRET]
        headers = {"Cookie": f"{COOKIE}={former}", "Accept": "application/json"}
        async with ClientSession() as old, old.get(f"{user.base}/dashboard/", headers=headers) as answer:
            assert answer.status == 401


async def test_a_script_shows_its_token_with_each_request(place: Place) -> None:
    headers = {"Authorization": f"Bearer {place.token}", "Accept": "application/json"}
    base = f"http://127.0.0.1:{place.running.port}"
    async with ClientSession(headers=headers) as session, session.get(f"{base}/dashboard/") as answer:
        assert [one["name"] for one in (await answer.json())["rows"]] == ["open-model"]


async def test_a_session_ends_with_its_token(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    async with logged_in(place, place.token) as user:
        assert await user.json("/dashboard/")
        await place.scene.client.delete(SERVICE_ACCOUNTS, "reader", "east")
        await user.json("/dashboard/", status=401)


class Reviews:
    """An API server whose webhook of authentication says in which groups a user is now."""

    def __init__(self, *groups: str) -> None:
        self.groups = list(groups)

    async def send(self, request: Request) -> Response:
        status = {"authenticated": True, "user": {"username": "ada", "groups": self.groups}}
        return Response(201, {"content-type": "application/json"}, msgspec.json.encode({"status": status}))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("tokens are reviewed, nothing else")

    async def close(self) -> None:
        pass


async def test_a_group_that_a_user_has_left_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that a webhook authenticates keep their user, while its groups change."""
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    reviews = Reviews("ops", "research")
    reviewer = TokenReviewer(Client(reviews), Connection("https://127.0.0.1:1"))
    first = await reviewer.caller("token")
    reviews.groups.remove("ops")
    second = await reviewer.caller("token")
    assert first is not None and second is not None
    assert (first.user.groups, second.user.groups) == (("ops", "research"), ("research",))
    assert second.client is first.client
    await reviewer.close()


async def test_a_right_that_is_taken_away_ends_the_view(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    async with logged_in(place, place.token) as user:
        assert (await user.json("/dashboard/"))["total"] == 1
        await place.scene.client.delete(ROLE_BINDINGS, "reader", "east")
        assert (await user.json("/dashboard/"))["total"] == 0


async def test_a_right_that_is_taken_away_ends_logs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are being followed."""
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    async with logged_in(place, place.token) as user:
        address = f"{user.base}/dashboard/sets/east/open-model/log-stream"
        async with asyncio.timeout(60), user.session.get(address) as answer:
            assert answer.status == 200
            events = [line async for line in until_deleted(place, answer)]
        assert events[-1] == b"event: end\n"


async def until_deleted(place: Place, answer: ClientResponse) -> AsyncIterator[bytes]:
    """The events of a stream. The right of the user ends after the first one."""
    first = True
    async for line in answer.content:
        if line.startswith(b"event: "):
            yield line
            if first:
                await place.scene.client.delete(ROLE_BINDINGS, "reader", "east")
                first = False


async def test_a_stream_says_nothing_about_changes_elsewhere(place: Place) -> None:
    """Not even that there was one."""
    async with (
        logged_in(place, place.token) as user,
        user.session.get(f"{user.base}/dashboard/live?view=/dashboard/") as answer,
    ):
        for _ in ("retry", "sections"):
            await answer.content.readuntil(b"\n\n")
        heard = asyncio.create_task(answer.content.readuntil(b"\n\n"))
        for number in range(15):
            change = {"metadata": {"annotations": {"note": str(number)}}}
            await place.scene.client.patch(LEADER_WORKER_SETS, SECRET, "west", change)
            await asyncio.sleep(0.1)
        assert not heard.done()
        await place.scene.client.patch(LEADER_WORKER_SETS, "open-model", "east", {"spec": {"replicas": 3}})
        assert b"set-east.open-model" in await heard


async def test_what_may_not_be_listed_is_left_out() -> None:
    """A user who may list sets and not pods sees no name of a pod."""
    only_sets = [{"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["*"], "verbs": ["list"]}]
    async with place_of(only_sets) as place, logged_in(place, place.token) as user:
        text = await user.text("/dashboard/")
        assert "open-model" in text
        assert "open-model-0" not in text
        events = "/dashboard/sets/east/open-model/events"
        assert not (await user.json(events))["allowed"]
        text = await user.text(events)
        assert "You may not list events in namespace east." in text and "No events are kept" not in text
        assert not (await user.json("/dashboard/sets/east/open-model/failures"))["allowed"]
