"""How a client authenticates to an API server: certificates, tokens, token files, exec plugins, impersonation.

Everything that can expire is read again at every request and keeps its own cache. After a 401 the cache is dropped once
(`reject`), so rotated files and revoked tokens need no restart.
"""

import asyncio
import base64
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from kohort.kube import clock
from kohort.kube.errors import Unreachable
from kohort.objects.json_types import JsonObject

_TOKEN_FILE_SECONDS = 60.0
_EXPIRY_MARGIN = 10.0
_PLUGIN_SECONDS = 60.0


class CredentialError(Unreachable):
    """No credentials could be obtained, so nothing was sent; the message says from where and why."""


class Certificate(msgspec.Struct, frozen=True):
    """A client certificate with its key, both PEM."""

    chain: bytes
    key: bytes


class Source(Protocol):
    """Where a token or a certificate comes from."""

    async def token(self) -> str: ...
    async def certificate(self) -> Certificate | None: ...

    def reject(self) -> bool:
        """The server rejected the credentials. True when reading them again can give other ones."""
        ...


class Static(msgspec.Struct, frozen=True):
    """A fixed token, a fixed certificate, or both."""

    bearer: str = ""
    client_certificate: Certificate | None = None

    async def token(self) -> str:
        return self.bearer

    async def certificate(self) -> Certificate | None:
        return self.client_certificate

    def reject(self) -> bool:
        return False


class Files:
    """A token or a certificate in files that may be replaced while the process runs."""

    def __init__(self, *, token: Path | None = None, chain: Path | None = None, key: Path | None = None) -> None:
        self._token_path = token
        self._chain_path = chain
        self._key_path = key
        self._token = ""
        self._token_read = float("-inf")
        self._certificate: Certificate | None = None

    async def token(self) -> str:
        now = asyncio.get_running_loop().time()
        if self._token_path is not None and now - self._token_read > _TOKEN_FILE_SECONDS:
            self._token = _read(self._token_path).decode().strip()
            self._token_read = now
        return self._token

    async def certificate(self) -> Certificate | None:
        if self._certificate is None and self._chain_path is not None and self._key_path is not None:
            self._certificate = Certificate(_read(self._chain_path), _read(self._key_path))
        return self._certificate

    def reject(self) -> bool:
        self._token_read = float("-inf")
        self._certificate = None
        return True


class _PluginStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _PluginAnswer(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _PluginStatus | None = None


class ExecPlugin:
    """A command that prints an ExecCredential. Its answer is kept until it expires or is rejected."""

    def __init__(
        self,
        command: str,
        args: list[str],
        env: Mapping[str, str],
        api_version: str,
        *,
        cluster: JsonObject | None = None,
        install_hint: str = "",
    ) -> None:
        self._command = command
        self._args = args
        self._env = dict(env)
        self._api_version = api_version
        self._cluster = cluster
        self._install_hint = install_hint
        self._status: _PluginStatus | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        return (await self._current()).token

    async def certificate(self) -> Certificate | None:
        status = await self._current()
        if not status.client_certificate_data:
            return None
        return Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())

    def reject(self) -> bool:
        self._status = None
        return True

    async def _current(self) -> _PluginStatus:
        async with self._lock:
            if self._status is None or self._expired():
                self._status = await self._ask()
                stamp = self._status.expiration_timestamp
                self._expires = clock.parse_time(stamp) if stamp else None
            return self._status

    def _expired(self) -> bool:
        return self._expires is not None and clock.now().timestamp() + _EXPIRY_MARGIN >= self._expires.timestamp()

    async def _ask(self) -> _PluginStatus:
        output = await self._run()
        try:
            answer = msgspec.json.decode(output, type=_PluginAnswer)
        except msgspec.DecodeError as problem:
            raise CredentialError(f"exec plugin {self._command}: not an ExecCredential: {problem}") from problem
        if answer.api_version != self._api_version:
            raise CredentialError(
                f"exec plugin {self._command}: answered {answer.api_version}, the kubeconfig says {self._api_version}"
            )
        if answer.status is None or not (answer.status.token or answer.status.client_certificate_data):
            raise CredentialError(f"exec plugin {self._command}: answered neither a token nor a certificate")
        return answer.status

    async def _run(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._args,
                env={**os.environ, **self._env, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as problem:
            hint = f"\n{self._install_hint}" if self._install_hint else ""
            raise CredentialError(f"exec plugin {self._command}: {problem}{hint}") from problem
        try:
            async with asyncio.timeout(_PLUGIN_SECONDS):
                output, complaint = await process.communicate()
        except TimeoutError as problem:
            process.kill()
            await process.wait()
            raise CredentialError(f"exec plugin {self._command}: no answer in {_PLUGIN_SECONDS:.0f} s") from problem
        if process.returncode != 0:
            text = complaint.decode(errors="replace").strip()
            raise CredentialError(f"exec plugin {self._command}: exit code {process.returncode}: {text}")
        return output

    def _info(self) -> str:
        spec: JsonObject = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()


class Credentials:
    """All credentials of a kubeconfig user together."""

    def __init__(
        self,
        *sources: Source,
        username: str = "",
        password: str = "",
        impersonate: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._sources = sources
        self._impersonate = [*impersonate]
        self._basic = base64.b64encode(f"{username}:{password}".encode()).decode() if username else ""

    def impersonate(self, user: str, *groups: str) -> None:
        """Act as another user from now on; the API server asks whether these credentials may."""
        self._impersonate = [("impersonate-user", user), *(("impersonate-group", group) for group in groups)]

    async def headers(self) -> list[tuple[str, str]]:
        """Pairs, because a header may come several times (`impersonate-group`)."""
        for source in self._sources:
            if token := await source.token():
                return [*self._impersonate, ("authorization", f"Bearer {token}")]
        return [*self._impersonate, ("authorization", f"Basic {self._basic}")] if self._basic else self._impersonate

    async def certificate(self) -> Certificate | None:
        for source in self._sources:
            if (found := await source.certificate()) is not None:
                return found
        return None

    def reject(self) -> bool:
        answers = [source.reject() for source in self._sources]
        return any(answers)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CredentialError(f"cannot read {path}: {problem.strerror}") from problem
