"""Paths that are not resources and not discovery: version, health, metrics, OpenAPI, identity of the token issuer."""

import platform
from collections.abc import Callable, Mapping
from typing import Final

from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import JSON, Media, negotiate_plain
from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.objects.json_types import JsonObject

GIT_VERSION: Final = "v1.36.4+kohort"
PLAIN: Final = "text/plain; charset=utf-8"

Check = Callable[[], bool | str]
"""Whether all is well; a text says why not."""


def version_document() -> JsonObject:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }


def version(request: Request) -> Response | None:
    if request.path.rstrip("/") != "/version":
        return None
    media = negotiate_plain(request)
    if media.format != "json":
        raise errors.failure(406, "NotAcceptable", f"only the following media types are accepted: {JSON}")
    return Response(200, {"content-type": JSON}, encoding.encode(version_document(), Media(pretty=True)))


class Health:
    """`/healthz`, `/livez`, `/readyz`, each with its checks; `etcd` is what clients call the storage."""

    def __init__(self, ready: Check, storage: Check) -> None:
        common: dict[str, Check] = {"ping": lambda: True, "log": lambda: True, "etcd": storage}
        self._paths: dict[str, dict[str, Check]] = {
            "healthz": common,
            "livez": common,
            "readyz": {**common, "informer-sync": ready, "poststarthook/bootstrap": ready, "shutdown": lambda: True},
        }

    def paths(self) -> list[str]:
        """Every path that answers."""
        return [
            path for name, checks in self._paths.items() for path in (f"/{name}", *(f"/{name}/{c}" for c in checks))
        ]

    def answer(self, request: Request) -> Response | None:
        name, _, check = request.path.strip("/").partition("/")
        checks = self._paths.get(name)
        if checks is None:
            return None
        if check:
            if check not in checks:
                return None
            return self._report(name, {check: checks[check]}, request)
        return self._report(name, checks, request)

    def _report(self, name: str, checks: dict[str, Check], request: Request) -> Response:
        excluded = set(request.params("exclude"))
        failed = []
        lines = []
        for check, passes in checks.items():
            if check in excluded:
                lines.append(f"[+]{check} excluded: ok")
            elif (result := passes()) is True:
                lines.append(f"[+]{check} ok")
            else:
                lines.append(f"[-]{check} failed: {result or 'reason withheld'}")
                failed.append(check)
        headers = {"content-type": PLAIN, "x-content-type-options": "nosniff"}
        if failed:
            text = "\n".join([*lines, f"{name} check failed\n"])
            return Response(500, headers, text.encode())
        if any(key == "verbose" for key, _ in request.query):
            return Response(200, headers, "\n".join([*lines, f"{name} check passed\n"]).encode())
        return Response(200, headers, b"ok")


def metrics(request: Request, own: Callable[[], bytes], parts: Mapping[str, Callable[[], bytes]]) -> Response | None:
    """Everything that this server (`own`) and this process count, in the text format of Prometheus. What the `parts` of
    this process count is below it, each by itself: they share names of series."""
    counted = parts.get(request.path.removeprefix("/metrics/"))
    if request.path != "/metrics" and counted is None:
        return None
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    text = counted() if counted is not None else own() + generate_latest()
    return Response(200, {"content-type": CONTENT_TYPE_LATEST}, text)
