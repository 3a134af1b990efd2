"""The certificates of a cluster: what they are good for, who may read them, when they are renewed."""

import ssl
import stat
import time
from pathlib import Path

import pytest
import yaml

from kohort.cluster.apiserver.auth.authentication import certificate_user
from kohort.cluster.apiserver.auth.certificates import KeysUnusable, Pki, ensure_pki
from kohort.cluster.apiserver.auth.kubeconfig import write_kubeconfig
from kohort.cluster.apiserver.auth.model import ADMIN


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Connect a client to a server in memory; returns the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            # TLS 1.3: the server sees the client's certificate with its first data.
            ours.write(b"x")
            assert theirs.read(1) == b"x"
            return theirs
    raise AssertionError("the handshake does not end")


def client_context(pki: Pki, *, with_certificate: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pki.ca_certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if with_certificate:
        context.load_cert_chain(pki.admin_certificate, pki.admin_key)
    return context


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return ensure_pki(tmp_path / "pki", ["cluster.example.com", "192.0.2.7"])


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "localhost", "kubernetes.default.svc", "cluster.example.com", "192.0.2.7", "::1"]
)
def test_clients_accept_the_server_under_its_names(pki: Pki, name: str) -> None:
    handshake(pki.server_context(), client_context(pki, with_certificate=False), name)


def test_clients_refuse_the_server_under_another_name(pki: Pki) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pki.server_context(), client_context(pki), "example.com")


def test_the_administrators_certificate_says_who_it_is(pki: Pki) -> None:
    seen = handshake(pki.server_context(), client_context(pki), "localhost").getpeercert()
    assert seen
    assert certificate_user(seen) == ADMIN


def test_a_client_may_come_without_a_certificate(pki: Pki) -> None:
    assert not handshake(pki.server_context(), client_context(pki, with_certificate=False), "localhost").getpeercert()


def test_a_client_certificate_of_another_cluster_is_refused(pki: Pki, tmp_path: Path) -> None:
    other = ensure_pki(tmp_path / "other")
    stranger = client_context(pki, with_certificate=False)
    stranger.load_cert_chain(other.admin_certificate, other.admin_key)
    with pytest.raises(ssl.SSLError):
        handshake(pki.server_context(), stranger, "localhost")


def test_only_the_owner_can_read_what_is_written(pki: Pki, tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", pki, "https://127.0.0.1:6443")
    assert stat.S_IMODE(pki.directory.stat().st_mode) == 0o700
    files = [tmp_path / "kubeconfig", *pki.directory.iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert len(files) == 14


def contents(pki: Pki) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in pki.directory.iterdir()}


def test_a_restart_changes_nothing(pki: Pki) -> None:
    before = contents(pki)
    ensure_pki(pki.directory, ["cluster.example.com", "192.0.2.7"])
    assert contents(pki) == before


def renewed(pki: Pki, before: dict[str, bytes]) -> set[str]:
    """Which certificates and keys are others than before."""
    return {name for name, content in contents(pki).items() if before.get(name) != content and name != "inventory.json"}


def test_what_is_about_to_expire_is_renewed(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(pki)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 334 * 86400)
    assert not pki.ensure()
    monkeypatch.setattr(time, "time", lambda: now + 336 * 86400)
    assert pki.ensure()
    names = ("server", "admin", "front-proxy")
    assert renewed(pki, before) == {f"{name}.{kind}" for name in names for kind in ("crt", "key")}
    handshake(pki.server_context(), client_context(pki), "localhost")


def test_another_address_needs_another_server_certificate(pki: Pki) -> None:
    before = contents(pki)
    again = ensure_pki(pki.directory, ["other.example.com"])
    assert renewed(pki, before) == {"server.crt", "server.key"}
    handshake(again.server_context(), client_context(again), "other.example.com")


@pytest.mark.parametrize("missing", ["server.crt", "admin.key", "inventory.json"])
def test_what_is_lost_is_issued_again(pki: Pki, missing: str) -> None:
    (pki.directory / missing).unlink()
    again = ensure_pki(pki.directory, ["cluster.example.com", "192.0.2.7"])
    handshake(again.server_context(), client_context(again), "localhost")


@pytest.mark.parametrize("missing", ["ca.crt", "ca.key"])
def test_half_an_authority_is_not_replaced(pki: Pki, missing: str) -> None:
    (pki.directory / missing).unlink()
    before = contents(pki)
    with pytest.raises(KeysUnusable, match=rf"{missing} is missing; restore it"):
        ensure_pki(pki.directory)
    assert contents(pki) == before


@pytest.mark.parametrize("damaged", ["server.crt", "server.key", "admin.crt", "admin.key", "inventory.json"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_damaged_is_issued_again(pki: Pki, damaged: str, content: bytes) -> None:
    (pki.directory / damaged).write_bytes(content)
    again = ensure_pki(pki.directory, ["cluster.example.com", "192.0.2.7"])
    handshake(again.server_context(), client_context(again), "localhost")


@pytest.mark.parametrize("damaged", ["ca.crt", "ca.key", "service-account.key"])
@pytest.mark.parametrize("cut", [0, 60])
def test_what_others_rely_on_is_not_replaced_when_it_is_damaged(pki: Pki, damaged: str, cut: int) -> None:
    path = pki.directory / damaged
    path.write_bytes(path.read_bytes()[:cut])
    before = contents(pki)
    with pytest.raises(KeysUnusable, match=rf"{damaged} is damaged; restore it"):
        ensure_pki(pki.directory)
    assert contents(pki) == before


def test_a_first_start_that_was_interrupted_is_begun_again(pki: Pki, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    for left in ("ca.key", ".ca.crt.new"):
        (tmp_path / "half" / left).write_bytes(pki.ca_key.read_bytes())
    again = ensure_pki(tmp_path / "half")
    handshake(again.server_context(), client_context(again), "localhost")


def test_a_key_of_another_authority_is_noticed(pki: Pki, tmp_path: Path) -> None:
    pki.ca_key.write_bytes(ensure_pki(tmp_path / "other").ca_key.read_bytes())
    with pytest.raises(KeysUnusable, match=r"ca\.key is damaged"):
        ensure_pki(pki.directory, ["cluster.example.com", "192.0.2.7"])


def test_a_token_that_was_emptied_is_made_anew(pki: Pki) -> None:
    pki.token_file.write_text("\n")
    assert len(ensure_pki(pki.directory).token) > 30


def test_the_kubeconfig_holds_all_that_kubectl_needs(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, pki, "https://127.0.0.1:6443")
    config = yaml.safe_load(path.read_text())
    (cluster,), (user,) = config["clusters"], config["users"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert set(cluster["cluster"]) == {"server", "certificate-authority-data"}
    assert set(user["user"]) == {"client-certificate-data", "client-key-data", "token"}
    assert user["user"]["token"] == pki.token
    assert config["current-context"] == config["contexts"][0]["name"]
