"""Kubeconfig files, read as kubectl reads them; and the credentials that a pod finds inside itself.

Where the configuration comes from, first match:

| source                                   | note                                                             |
|------------------------------------------|------------------------------------------------------------------|
| the given path                           |                                                                  |
| `KUBECONFIG`                             | several files; the first one that defines a name wins            |
| `~/.kube/config`                         | if it exists                                                     |
| the pod's service account                | `KUBERNETES_SERVICE_HOST` is set                                 |
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from kohort.kube.credentials import Certificate, Credentials, ExecPlugin, Files, Source, Static
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects import yaml_errors
from kohort.objects.json_types import Json, JsonObject

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(Exception):
    """The configuration is missing or wrong; the message says where and what."""


class BrokenKubeconfig(KubeconfigError):
    """A file is there and cannot be understood."""


def load(path: str | Path | None = None, *, context: str = "") -> HttpsTransport:
    """A transport to the cluster of a kubeconfig, or to the cluster that this process runs in."""
    files = files_in_use(path)
    if files:
        return _from_files(files, context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    raise KubeconfigError("no cluster: give --kubeconfig, set KUBECONFIG, or create ~/.kube/config")


def contexts(path: str | Path | None = None) -> list[str]:
    """The names of those that there are."""
    return _merge(files_in_use(path)).names("contexts")


def in_cluster(directory: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> HttpsTransport:
    """The API server as the pod's service account; its token is read again while it is being rotated."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise KubeconfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
    address = f"[{host}]" if ":" in host else host
    try:
        ca = (directory / "ca.crt").read_bytes()
        namespace = (directory / "namespace").read_text().strip()
    except OSError as problem:
        raise KubeconfigError(f"the pod has no service account: {problem}") from problem
    connection = Connection(f"https://{address}:{port}", ca=ca, namespace=namespace)
    return HttpsTransport(connection, Credentials(Files(token=directory / "token")))


def files_in_use(path: str | Path | None = None) -> list[Path]:
    """`path` is what the user has named; otherwise as kubectl chooses them."""
    if path is not None:
        return [Path(path)]
    listed = [Path(text) for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    if listed:
        return listed
    usual = Path.home() / ".kube" / "config"
    return [usual] if usual.exists() else []


def _from_files(files: list[Path], context: str) -> HttpsTransport:
    merged = _merge(files)
    name = context or merged.current
    if not name:
        raise KubeconfigError(f"{_names(files)}: no current-context is set")
    chosen = merged.entry("contexts", "context", name)
    cluster = merged.entry("clusters", "cluster", chosen.values.get("cluster", ""))
    user_name = chosen.values.get("user", "")
    user = merged.entry("users", "user", user_name) if user_name else _Entry({}, Path())
    connection = _connection(cluster, chosen.values.get("namespace") or "default")
    return HttpsTransport(connection, _credentials(user, cluster))


class _Entry:
    """A section and the folder that relative paths in it start from."""

    def __init__(self, values: JsonObject, folder: Path) -> None:
        self.values = values
        self.folder = folder

    def path(self, name: str) -> Path | None:
        text = self.values.get(name)
        return self.folder / text if text else None

    def content(self, name: str) -> bytes:
        """`<name>-data` in base64, else the file that `<name>` names, else nothing."""
        if data := self.values.get(f"{name}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except ValueError as problem:
                raise KubeconfigError(f"{name}-data is not base64: {problem}") from problem
        path = self.path(name)
        if path is None:
            return b""
        try:
            return path.read_bytes()
        except OSError as problem:
            raise KubeconfigError(f"{name}: cannot read {path}: {problem.strerror}") from problem


class _Merged:
    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self.current = ""
        self._sections: dict[str, dict[str, _Entry]] = {"clusters": {}, "users": {}, "contexts": {}}

    def add(self, path: Path, document: JsonObject) -> None:
        self.current = self.current or document.get("current-context") or ""
        for section, entries in self._sections.items():
            for item in _named(document.get(section) or [], section, path):
                entries.setdefault(item["name"], _Entry(item.get(section[:-1]) or {}, path.parent))

    def names(self, section: str) -> list[str]:
        return sorted(self._sections[section])

    def entry(self, section: str, kind: str, name: str) -> _Entry:
        found = self._sections[section].get(name)
        if found is None:
            known = ", ".join(self.names(section)) or "none"
            raise KubeconfigError(f"{_names(self._files)}: no {kind} {name!r} (there are: {known})")
        return found


def _named(items: Json, section: str, path: Path) -> list[JsonObject]:
    inner = section[:-1]
    if not isinstance(items, list) or not all(
        isinstance(one, dict) and "name" in one and isinstance(one.get(inner) or {}, dict) for one in items
    ):
        raise BrokenKubeconfig(f"{path}: {section} must be a list of entries with a name and a {inner}")
    return items


def _merge(files: list[Path]) -> _Merged:
    merged = _Merged(files)
    for path in files:
        try:
            document: Json = yaml.safe_load(path.read_text())
        except FileNotFoundError:
            if len(files) > 1:
                continue
            raise KubeconfigError(f"{path}: no such file") from None
        except OSError as problem:
            raise KubeconfigError(f"cannot read {path}: {problem.strerror}") from problem
        except UnicodeDecodeError as problem:
            raise BrokenKubeconfig(f"{path} is not text: {problem}") from problem
        except yaml.YAMLError as problem:
            raise BrokenKubeconfig(f"{path} is not YAML: {yaml_errors.problem_line(problem)}") from problem
        if not isinstance(document, dict):
            raise BrokenKubeconfig(f"{path}: not a kubeconfig")
        merged.add(path, document)
    return merged


def _connection(cluster: _Entry, namespace: str) -> Connection:
    server = cluster.values.get("server")
    if not server:
        raise KubeconfigError("the cluster has no server address")
    return Connection(
        server=server,
        ca=cluster.content("certificate-authority"),
        insecure=bool(cluster.values.get("insecure-skip-tls-verify")),
        server_name=cluster.values.get("tls-server-name", ""),
        proxy=cluster.values.get("proxy-url", ""),
        namespace=namespace,
    )


def _credentials(user: _Entry, cluster: _Entry) -> Credentials:
    if provider := user.values.get("auth-provider"):
        name = provider.get("name", "") if isinstance(provider, dict) else ""
        raise KubeconfigError(f"auth-provider {name!r}: Kubernetes has no such thing any more; use an exec plugin")
    sources: list[Source] = []
    if token_file := user.path("tokenFile"):
        sources.append(Files(token=token_file))
    elif token := user.values.get("token"):
        sources.append(Static(bearer=token))
    sources.extend(_certificate_source(user))
    if plugin := user.values.get("exec"):
        sources.append(_exec_plugin(plugin, user.folder, cluster))
    return Credentials(
        *sources,
        username=user.values.get("username", ""),
        password=user.values.get("password", ""),
        impersonate=_impersonation(user),
    )


def _certificate_source(user: _Entry) -> list[Source]:
    chain, key = user.path("client-certificate"), user.path("client-key")
    if chain is not None and key is not None and not user.values.get("client-certificate-data"):
        return [Files(chain=chain, key=key)]
    data = Certificate(user.content("client-certificate"), user.content("client-key"))
    if bool(data.chain) != bool(data.key):
        missing = "client-key" if data.chain else "client-certificate"
        raise KubeconfigError(f"half of a client certificate: {missing} is missing")
    return [Static(client_certificate=data)] if data.chain else []


def _exec_plugin(plugin: JsonObject, folder: Path, cluster: _Entry) -> ExecPlugin:
    command = plugin.get("command", "")
    if os.sep in command:
        command = str(folder / command)
    described: JsonObject | None = None
    if plugin.get("provideClusterInfo"):
        described = {"server": cluster.values["server"]}
        if ca := cluster.content("certificate-authority"):
            described["certificate-authority-data"] = base64.b64encode(ca).decode()
        if cluster.values.get("insecure-skip-tls-verify"):
            described["insecure-skip-tls-verify"] = True
    return ExecPlugin(
        command,
        plugin.get("args") or [],
        {item["name"]: item["value"] for item in plugin.get("env") or ()},
        plugin.get("apiVersion", "client.authentication.k8s.io/v1"),
        cluster=described,
        install_hint=plugin.get("installHint", ""),
    )


def _impersonation(user: _Entry) -> list[tuple[str, str]]:
    values = user.values
    pairs = [("impersonate-user", values.get("as")), ("impersonate-uid", values.get("as-uid"))]
    pairs += [("impersonate-group", group) for group in values.get("as-groups") or ()]
    for name, extra in (values.get("as-user-extra") or {}).items():
        pairs += [(f"impersonate-extra-{name}", value) for value in extra]
    return [(header, value) for header, value in pairs if value]


def _names(files: list[Path]) -> str:
    return ", ".join(str(path) for path in files)
