"""TLS of the dashboard's own: users are those of client certificates, and see what the API server lets them list."""

import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import ClientConnectionError, ClientSession, TCPConnector
from tests.dashboard.isolation import SECRET
from tests.dashboard.scene import Scene, model_set, scene
from tests.dashboard.test_token_access import READ, ROLE_BINDINGS, ROLES, reader

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard.access import CertificateUsers
from kohort.dashboard.running import running
from kohort.dashboard.server import DashboardSettings
from kohort.dashboard.tls_listener import TlsFiles, TlsListener, authority_in_file, cluster_client_authority
from kohort.kube.certificate_issuing import Authority, new_authority
from kohort.kube.client import Client
from kohort.kube.credentials import Credentials, Static
from kohort.kube.resources import CONFIG_MAPS, EVENTS
from kohort.kube.transport import Connection, HttpsTransport

DAY = timedelta(days=1)
ACTION = "/dashboard/sets/east/open-model/actions/restart"


class Files:
    """Authorities of servers and users, and certificates in files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server_authority, key = new_authority("servers", DAY)
        self.servers = Authority(self.server_authority, key)
        self.user_authority, key = new_authority("users", DAY)
        self.users = Authority(self.user_authority, key)

    def written(self, name: str, pair: tuple[bytes, bytes]) -> tuple[Path, Path]:
        found = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        for file, content in zip(found, pair, strict=True):
            file.write_bytes(content)
        return found

    def server(self, name: str = "localhost") -> tuple[Path, Path]:
        pair = self.servers.issue(name=name, addresses=("127.0.0.1", "localhost"), life=DAY, server=True)
        return self.written("server", pair)

    def user(self, name: str, *groups: str) -> ssl.SSLContext:
        return self.shown(name, self.users.issue(name=name, organizations=groups, life=DAY, server=False))

    def shown(self, name: str, pair: tuple[bytes, bytes]) -> ssl.SSLContext:
        """A browser that shows this certificate."""
        context = self.without_certificate()
        context.load_cert_chain(*self.written(name, pair))
        return context

    def without_certificate(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.server_authority.decode())


class Place(NamedTuple):
    scene: Scene
    files: Files
    base: str
    token: str
    tls: TlsListener


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """Takes tokens and certificates. ada may read the namespace `east`, members of ops may change it as well."""
    files = Files(tmp_path)
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
        client = Client(transport)
        authority = tmp_path / "users.crt"
        authority.write_bytes(files.user_authority)
        tls = TlsListener(TlsFiles(*files.server(), files.user_authority.decode()), authority_in_file(authority))
        async with running(
            client,
            ("127.0.0.1", 0),
            DashboardSettings(allow_actions=True),
            CliCommands(),
            tokens_of=connection,
            certificates=CertificateUsers(transport, tls.is_current),
            tls=tls,
        ) as made:
            yield Place(found, files, f"https://127.0.0.1:{made.port}", await reader(found, "east"), tls)
        await client.close()


def session(context: ssl.SSLContext, **headers: str) -> ClientSession:
    return ClientSession(
        connector=TCPConnector(ssl=context), headers={"Accept": "application/json", **headers}, raise_for_status=False
    )


async def test_a_user_of_a_certificate_sees_what_the_cluster_allows(place: Place) -> None:
    async with session(place.files.user("ada")) as ada:
        async with ada.get(f"{place.base}/dashboard/") as answer:
            assert [one["name"] for one in (await answer.json())["rows"]] == ["open-model"]
            assert "Set-Cookie" not in answer.headers
        async with ada.get(f"{place.base}/dashboard/sets/west/{SECRET}") as answer:
            assert answer.status == 404
        async with ada.get(f"{place.base}/dashboard/", headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
            assert "ada" in text and "Log out" not in text and SECRET not in text
    async with (
        session(place.files.user("bob", "strangers")) as bob,
        bob.get(f"{place.base}/dashboard/") as answer,
    ):
        assert (await answer.json())["total"] == 0


async def test_groups_are_the_organizations_and_actions_are_done_as_the_user(place: Place) -> None:
    async with session(place.files.user("ada")) as ada, ada.get(place.base + ACTION) as answer:
        refused = (await answer.json())["refused"]
        assert '"ada" cannot patch' in refused
    async with session(place.files.user("ada", "ops")) as ada:
        async with ada.get(place.base + ACTION) as answer:
            page = await answer.json()
            assert page["refused"] == ""
        async with ada.post(place.base + ACTION, data={"seen": page["seen"]}) as answer:
            assert answer.status == 403, "a browser shows a certificate on its own: the form must carry the token"
        async with ada.get(f"{place.base}/dashboard/", headers={"Accept": "text/html"}) as answer:
            csrf = re.search(r'data-csrf="([^"]+)"', await answer.text())
            assert csrf is not None
        async with ada.post(place.base + ACTION, data={"seen": page["seen"], "csrf": csrf[1]}) as answer:
            assert answer.status == 200, await answer.text()
    events = place.scene.cluster.objects
    await place.scene.cluster.until(lambda: any(one["reason"] == "DashboardRestart" for one in events(EVENTS)))
    (event,) = [one for one in events(EVENTS) if one["reason"] == "DashboardRestart"]
    assert event["message"].startswith("ada ran kohort restart open-model")


async def test_without_a_certificate_a_token_is_asked_for(place: Place) -> None:
    async with session(place.files.without_certificate()) as browser:
        async with browser.get(f"{place.base}/dashboard/") as answer:
            assert answer.status == 401
        async with browser.get(f"{place.base}/dashboard/healthz") as answer:
            assert answer.status == 200
        bearer = {"Authorization": f"Bearer {place.token}"}
        async with browser.get(f"{place.base}/dashboard/", headers=bearer) as answer:
            assert [one["name"] for one in (await answer.json())["rows"]] == ["open-model"]
        async with browser.post(
            f"{place.base}/dashboard/login", data={"token": place.token}, allow_redirects=False
        ) as answer:
            assert all(word in answer.headers["Set-Cookie"] for word in ("Secure", "HttpOnly", "SameSite=Strict"))


@pytest.mark.parametrize("fault", ["other authority", "for servers", "ended"])
async def test_a_certificate_that_is_not_valid_gets_no_connection(place: Place, fault: str) -> None:
    users = place.files.users
    if fault == "other authority":
        other = Authority(*new_authority("users", DAY))
        pair = other.issue(name="ada", life=DAY, server=False)
    elif fault == "for servers":
        pair = users.issue(name="ada", life=DAY, server=True)
    else:
        pair = users.issue(name="ada", life=DAY, server=False, now=datetime.now(UTC) - 3 * DAY)
    async with session(place.files.shown("wrong", pair)) as browser:
        with pytest.raises((ClientConnectionError, ssl.SSLError)):
            await browser.get(f"{place.base}/dashboard/")


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    files = Files(tmp_path)
    listener = TlsListener(TlsFiles(*files.server("first")))
    assert not listener.reload()
    certificate, key = files.server("second")
    assert listener.reload()
    certificate.write_bytes(files.servers.issue(name="third", addresses=("localhost",), life=DAY, server=True)[0])
    with pytest.raises(ssl.SSLError):
        listener.reload()
    key.write_text("")
    with pytest.raises(ssl.SSLError):
        listener.reload()
    files.server("fourth")
    assert listener.reload()


@pytest.mark.parametrize("how", ["replaced", "removed", "emptied"])
async def test_an_authority_counts_only_until_its_file_changes(place: Place, how: str) -> None:
    """Also on connections that are open, and for sessions that could be resumed."""
    file, address = place.files.directory / "users.crt", f"{place.base}/dashboard/"
    other = Files(place.files.directory)
    ada = place.files.user("ada")
    async with session(ada) as browser:
        async with browser.get(address) as answer:
            assert answer.status == 200
        assert not await place.tls.reload_authority()
        if how == "removed":
            file.unlink()
        else:
            file.write_bytes(other.user_authority if how == "replaced" else b"")
        assert await place.tls.reload_authority()
        async with browser.get(address) as answer:
            assert answer.status == 401
    async with session(ada) as browser:
        with pytest.raises((ClientConnectionError, ssl.SSLError)):
            await browser.get(address)
    token = {"Authorization": f"Bearer {place.token}"}
    async with session(place.files.without_certificate(), **token) as browser, browser.get(address) as answer:
        assert answer.status == 200
    if how == "replaced":
        context = place.files.without_certificate()
        pair = other.users.issue(name="ada", organizations=(), life=DAY, server=False)
        context.load_cert_chain(*place.files.written("new", pair))
        async with session(context) as browser, browser.get(address) as answer:
            assert answer.status == 200


async def test_an_authority_that_cannot_be_read_leaves_the_former_one(place: Place) -> None:
    (place.files.directory / "users.crt").write_text("-----BEGIN CERTIFICATE-----\nnot one")
    assert not await place.tls.reload_authority()
    async with session(place.files.user("ada")) as browser, browser.get(f"{place.base}/dashboard/") as answer:
        assert answer.status == 200


async def test_the_cluster_names_the_authority_of_its_clients() -> None:
    async with scene(nodes=1) as found:
        assert await cluster_client_authority(found.client) is None
        body = {"data": {"client-ca-file": "an authority"}}
        await found.client.patch(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system", body)
        assert await cluster_client_authority(found.client) == "an authority"


def users() -> CertificateUsers:
    return CertificateUsers(HttpsTransport(Connection("https://127.0.0.1:1")))


@pytest.mark.parametrize(
    ("name", "group", "hours", "accepted"),
    [
        ("ada", "ops", 1, True),
        ("ada", "ops", -1, False),
        ("ada\r\nImpersonate-Group: system:masters", "ops", 1, False),
        ("ada", "ops\nImpersonate-Group: system:masters", 1, False),
    ],
)
def test_a_certificate_that_ended_or_hides_a_header_names_no_user(
    name: str, group: str, hours: int, accepted: bool
) -> None:
    end = (datetime.now(UTC) + timedelta(hours=hours)).strftime("%b %d %H:%M:%S %Y GMT")
    certificate = {"subject": ((("commonName", name),), (("organizationName", group),)), "notAfter": end}
    assert (users().user(certificate) is not None) == accepted
