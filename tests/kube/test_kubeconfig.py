"""Kubeconfig files as kubectl reads them."""

import asyncio
import base64
import json
import sys
from pathlib import Path

import pytest
import yaml

from kohort.kube import kubeconfig
from kohort.kube.credentials import Certificate, CredentialError, Credentials, ExecPlugin, Files
from kohort.kube.kubeconfig import KubeconfigError
from kohort.objects.json_types import Json, JsonObject


def config(cluster: JsonObject | None = None, user: JsonObject | None = None, **more: Json) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
        **more,
    }


def write(path: Path, document: JsonObject) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path


def credentials(path: Path) -> Credentials:
    return kubeconfig.load(path).credentials


async def test_server_namespace_and_trust(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api", "proxy-url": "http://p:3128"}
    connection = kubeconfig.load(write(tmp_path / "k", config(cluster))).connection
    assert connection.server == "https://10.0.0.1:6443"
    assert (connection.ca, connection.insecure) == (b"PEM", False)
    assert (connection.server_name, connection.proxy, connection.namespace) == ("api", "http://p:3128", "team")


async def test_data_wins_over_a_file(tmp_path: Path) -> None:
    data = base64.b64encode(b"INLINE").decode()
    cluster = {"certificate-authority": "missing.crt", "certificate-authority-data": data}
    assert kubeconfig.load(write(tmp_path / "k", config(cluster))).connection.ca == b"INLINE"


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({}, []),
        ({"token": "t"}, [("authorization", "Bearer t")]),
        ({"username": "me", "password": "pw"}, [("authorization", "Basic bWU6cHc=")]),
        (
            {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["s"]}},
            [
                ("impersonate-user", "jane"),
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
                ("impersonate-extra-scopes", "s"),
                ("authorization", "Bearer t"),
            ],
        ),
    ],
)
async def test_what_a_user_sends(tmp_path: Path, user: JsonObject, headers: list[tuple[str, str]]) -> None:
    assert await credentials(write(tmp_path / "k", config(user=user))).headers() == headers


async def test_a_token_file_wins_over_a_token_and_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    found = credentials(write(tmp_path / "k", config(user={"token": "t", "tokenFile": "token"})))
    assert await found.headers() == [("authorization", "Bearer one")]
    (tmp_path / "token").write_text("two\n")
    assert await found.headers() == [("authorization", "Bearer one")]
    await asyncio.sleep(61)
    assert await found.headers() == [("authorization", "Bearer two")]


async def test_a_rejected_token_file_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = Files(token=path)
    assert await source.token() == "one"
    path.write_text("two")
    assert source.reject()
    assert await source.token() == "two"


async def test_client_certificates_from_files_and_from_data(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_bytes(b"CERT")
    (tmp_path / "k.pem").write_bytes(b"KEY")
    user = {"client-certificate": "c.pem", "client-key": "k.pem"}
    assert await credentials(write(tmp_path / "k", config(user=user))).certificate() == Certificate(b"CERT", b"KEY")
    user = {
        "client-certificate-data": base64.b64encode(b"C2").decode(),
        "client-key-data": base64.b64encode(b"K2").decode(),
    }
    assert await credentials(write(tmp_path / "k", config(user=user))).certificate() == Certificate(b"C2", b"K2")


PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
path = sys.argv[1]
calls = int(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, "w").write(str(calls))
assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False
status = {"token": f"{os.environ['PREFIX']}-{calls}", "expirationTimestamp": sys.argv[2]}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


async def test_an_exec_plugin_is_asked_again_when_its_token_expires_or_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(tmp_path / "plugin.py"), str(tmp_path / "calls"), "2026-01-01T00:10:00Z"],
        "env": [{"name": "PREFIX", "value": "token"}],
    }
    found = credentials(write(tmp_path / "k", config(user={"exec": plugin})))
    assert await found.headers() == [("authorization", "Bearer token-1")]
    await asyncio.sleep(300)
    assert await found.headers() == [("authorization", "Bearer token-1")]
    assert found.reject()
    assert await found.headers() == [("authorization", "Bearer token-2")]
    await asyncio.sleep(291)
    assert await found.headers() == [("authorization", "Bearer token-3")]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/nonexistent/plugin"], "exec plugin /nonexistent/plugin: .*No such file.*\nget it from example.com"),
        (["/bin/sh", "-c", "echo no login >&2; exit 4"], "exit code 4: no login"),
        (["/bin/echo", "hello"], "not an ExecCredential"),
        (["/bin/echo", '{"apiVersion":"v9","kind":"ExecCredential"}'], "answered v9, the kubeconfig says v1"),
        (["/bin/echo", '{"apiVersion":"v1","kind":"ExecCredential"}'], "neither a token nor a certificate"),
    ],
)
async def test_a_failing_plugin_says_why(command: list[str], message: str) -> None:
    plugin = ExecPlugin(command[0], command[1:], {}, "v1", install_hint="get it from example.com")
    with pytest.raises(CredentialError, match=message):
        await plugin.token()


async def test_of_several_files_the_first_definition_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "one", {"current-context": "x"})
    two = write(tmp_path / "two", config({"server": "https://two:1"}))
    three = write(tmp_path / "three", config({"server": "https://three:1"}))
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path / 'missing'}:{two}:{three}")
    assert kubeconfig.load().connection.server == "https://two:1"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"current-context": ""}, "no current-context is set"),
        ({"current-context": "y"}, r"no context 'y' \(there are: x\)"),
        ({"clusters": []}, r"no cluster 'c' \(there are: none\)"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "the cluster has no server address"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "s", "certificate-authority": "gone.crt"}}]},
            "certificate-authority: cannot read .*gone.crt: No such file",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "s", "certificate-authority-data": "?"}}]},
            "certificate-authority-data is not base64",
        ),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp': .* use an exec plugin"),
        (config(user={"client-certificate-data": "UEVN"}), "client-key is missing"),
        (config(user={"client-key-data": "UEVN"}), "client-certificate is missing"),
    ],
)
async def test_mistakes_are_named(tmp_path: Path, document: JsonObject, message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        kubeconfig.load(write(tmp_path / "k", config() | document))


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1, 2]", "not a kubeconfig"), ("{a", "k is not YAML: line 1, column 3: expected ',' or '}'")],
)
async def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "k").write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        kubeconfig.load(tmp_path / "k")
    with pytest.raises(KubeconfigError, match="no such file"):
        kubeconfig.load(tmp_path / "missing")


async def test_without_any_configuration_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="give --kubeconfig, set KUBECONFIG"):
        kubeconfig.load()


async def test_inside_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    (tmp_path / "namespace").write_text("team\n")
    (tmp_path / "token").write_text("pod-token")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    transport = kubeconfig.in_cluster(tmp_path, environment)
    assert transport.connection.server == "https://[fd00::1]:6443"
    assert (transport.connection.ca, transport.connection.namespace) == (b"PEM", "team")
    assert await transport.credentials.headers() == [("authorization", "Bearer pod-token")]


async def test_the_files_of_the_environment_come_before_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / ".kube" / "config"
    usual.parent.mkdir()
    write(usual, config({"server": "https://usual"}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert kubeconfig.load().connection.server == "https://usual"
    first, second = (write(tmp_path / name, config({"server": f"https://{name}"})) for name in ("a", "b"))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    assert kubeconfig.load().connection.server == "https://a"
    assert kubeconfig.load(second).connection.server == "https://b"


async def test_contexts_of_all_files_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = config() | {"contexts": [{"name": "y", "context": {"cluster": "c"}}, {"name": "x", "context": {}}]}
    files = [write(tmp_path / "a", config()), write(tmp_path / "b", more)]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, [*files, tmp_path / "missing"])))
    assert kubeconfig.contexts() == ["x", "y"]
    assert kubeconfig.load(context="y").connection.namespace == "default"


async def test_without_a_file_the_pods_own_cluster_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(KubeconfigError, match=r"the pod has no service account: .*ca\.crt"):
        kubeconfig.load()


@pytest.mark.parametrize(
    ("host", "port", "server"),
    [
        ("10.0.0.1", "6443", "https://10.0.0.1:6443"),
        ("fd00::1", "443", "https://[fd00::1]:443"),
        ("api.example", None, "https://api.example:443"),
    ],
)
async def test_the_address_inside_of_a_pod(tmp_path: Path, host: str, port: str | None, server: str) -> None:
    for name, text in (("ca.crt", "PEM"), ("namespace", "team\n"), ("token", "t")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": host} | ({"KUBERNETES_SERVICE_PORT": port} if port else {})
    found = kubeconfig.in_cluster(tmp_path, environment)
    assert (found.connection.server, found.connection.namespace, found.connection.ca) == (server, "team", b"PEM")
    assert await found.credentials.headers() == [("authorization", "Bearer t")]


async def test_outside_of_a_pod_there_is_no_cluster_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not in a pod: KUBERNETES_SERVICE_HOST is not set"):
        kubeconfig.in_cluster(tmp_path, {})


@pytest.mark.parametrize(
    ("half", "missing"),
    [
        ({"client-certificate-data": "YQ=="}, "client-key"),
        ({"client-key-data": "YQ=="}, "client-certificate"),
    ],
)
async def test_half_of_a_client_certificate_is_a_mistake(tmp_path: Path, half: JsonObject, missing: str) -> None:
    with pytest.raises(KubeconfigError, match=f"half of a client certificate: {missing} is missing"):
        credentials(write(tmp_path / "k", config(user=half)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "is not text"),
        (b"a: [", "is not YAML"),
        (b"- a\n", "not a kubeconfig"),
        (b"clusters: {c: {}}\n", "clusters must be a list of entries with a name and a cluster"),
        (b"users:\n- user: {}\n", "users must be a list of entries with a name and a user"),
        (b"contexts:\n- {name: x, context: [1]}\n", "contexts must be a list of entries with a name and a context"),
        (b"{}", "no current-context is set"),
    ],
)
async def test_a_file_that_cannot_be_understood(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "k"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError) as problem:
        kubeconfig.load(path)
    assert str(path) in str(problem.value)
    assert said in str(problem.value)


async def test_a_folder_is_not_a_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"cannot read {tmp_path}: Is a directory"):
        kubeconfig.load(tmp_path)


@pytest.mark.parametrize("insecure", [True, False])
async def test_a_plugin_learns_of_the_cluster_if_it_asks_for_it(tmp_path: Path, insecure: bool) -> None:
    """It prints what it was given, as its token."""
    program = tmp_path / "plugin"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "cluster = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec'].get('cluster')\n"
        "status = {'token': json.dumps(cluster)}\n"
        "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))\n"
    )
    program.chmod(0o755)
    ca = base64.b64encode(b"PEM").decode()
    cluster: JsonObject = {"insecure-skip-tls-verify": True} if insecure else {"certificate-authority-data": ca}
    described = {"server": "https://10.0.0.1:6443", **cluster}
    for asked, wanted in ((True, described), (False, None)):
        plugin: JsonObject = {"command": "./plugin", "provideClusterInfo": asked}
        path = write(tmp_path / "k", config(cluster, {"exec": plugin}))
        ((_, header),) = await credentials(path).headers()
        assert json.loads(header.removeprefix("Bearer ")) == wanted
