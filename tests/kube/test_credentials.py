"""Tokens, certificates and their renewal."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from kohort.kube import credentials as credentials_module
from kohort.kube.credentials import Certificate, CredentialError, Credentials, ExecPlugin, Files, Static

PAIR = Certificate(b"chain", b"key")
VERSION = "client.authentication.k8s.io/v1"


async def test_the_first_source_with_a_token_wins() -> None:
    credentials = Credentials(Static(), Static("first"), Static("second"))
    assert await credentials.headers() == [("authorization", "Bearer first")]


async def test_a_token_wins_over_a_password() -> None:
    credentials = Credentials(Static("t"), username="jane", password="p")
    assert await credentials.headers() == [("authorization", "Bearer t")]


async def test_a_password_is_sent_as_basic_authentication() -> None:
    assert await Credentials(username="jane", password="pä").headers() == [("authorization", "Basic amFuZTpww6Q=")]


async def test_impersonated_groups_are_sent_one_by_one() -> None:
    groups = [("impersonate-user", "bob"), ("impersonate-group", "a"), ("impersonate-group", "b")]
    assert await Credentials(impersonate=groups).headers() == groups
    assert await Credentials(Static("t"), impersonate=groups).headers() == [*groups, ("authorization", "Bearer t")]


async def test_the_first_source_with_a_certificate_wins() -> None:
    credentials = Credentials(Static("t"), Static(client_certificate=PAIR))
    assert await credentials.certificate() == PAIR
    assert await Credentials(Static("t")).certificate() is None


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    files = Files(token=path)
    assert await files.token() == "one"
    path.write_text("two\n")
    await asyncio.sleep(59)
    assert await files.token() == "one"
    await asyncio.sleep(2)
    assert await files.token() == "two"


async def test_rejected_files_are_read_again_at_once(tmp_path: Path) -> None:
    for name in ("token", "chain", "key"):
        (tmp_path / name).write_text("old")
    files = Files(token=tmp_path / "token", chain=tmp_path / "chain", key=tmp_path / "key")
    assert (await files.token(), await files.certificate()) == ("old", Certificate(b"old", b"old"))
    for name in ("token", "chain", "key"):
        (tmp_path / name).write_text("new")
    assert (await files.token(), await files.certificate()) == ("old", Certificate(b"old", b"old"))
    assert files.reject()
    assert (await files.token(), await files.certificate()) == ("new", Certificate(b"new", b"new"))


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=r"cannot read .*/missing: No such file or directory"):
        await Files(token=tmp_path / "missing").token()


async def test_a_certificate_needs_both_files(tmp_path: Path) -> None:
    assert await Files(chain=tmp_path / "chain").certificate() is None


def test_fixed_credentials_cannot_change() -> None:
    assert not Static("t").reject()
    assert not Credentials(Static("t")).reject()


def test_all_sources_are_told_of_a_rejection(tmp_path: Path) -> None:
    plugin = ExecPlugin("true", [], {}, "client.authentication.k8s.io/v1")
    assert Credentials(Static("t"), Files(token=tmp_path / "token"), plugin).reject()


async def test_a_missing_plugin_is_named_with_the_hint_for_its_installation() -> None:
    plugin = ExecPlugin("/no/such/plugin", [], {}, "client.authentication.k8s.io/v1", install_hint="install it so")
    with pytest.raises(CredentialError, match=r"exec plugin /no/such/plugin: .*\ninstall it so"):
        await plugin.token()


def plugin_that(script: str) -> ExecPlugin:
    return ExecPlugin("sh", ["-c", script], {}, VERSION)


async def test_a_plugin_can_give_a_client_certificate() -> None:
    answers = ({"clientCertificateData": "chain", "clientKeyData": "key"}, {"token": "t"})
    documents = [json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": each}) for each in answers]
    assert [await plugin_that(f"echo '{each}'").certificate() for each in documents] == [PAIR, None]


async def test_a_plugin_that_never_answers_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is gone afterwards, not left behind."""
    monkeypatch.setattr(credentials_module, "_PLUGIN_SECONDS", 2.0)
    plugin = plugin_that(f"echo $$ > {tmp_path}/pid; exec sleep 100000")
    with pytest.raises(CredentialError, match="exec plugin sh: no answer in 2 s"):
        await plugin.token()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_another_user_can_be_acted_for_from_now_on() -> None:
    credentials = Credentials(Static("t"), impersonate=[("impersonate-user", "before")])
    credentials.impersonate("jane", "a", "b")
    groups = [("impersonate-group", "a"), ("impersonate-group", "b")]
    assert await credentials.headers() == [("impersonate-user", "jane"), *groups, ("authorization", "Bearer t")]
    credentials.impersonate("bob")
    assert await credentials.headers() == [("impersonate-user", "bob"), ("authorization", "Bearer t")]
