"""Routes from Ingresses, with the canary annotations of nginx.

A canary Ingress has no routes of its own: it attaches to the paths of another one with the same host, path and type.
Without such a path it does nothing.
"""

from collections.abc import Iterable
from typing import Final

from kohort.cluster.gateway.route_table import (
    Backend,
    BadPattern,
    Canary,
    PathKind,
    PathRule,
    Pattern,
    RequestMatch,
    Route,
    RouteOrigin,
)
from kohort.objects.networking import Ingress, IngressBackend, IngressPath
from kohort.rules import nginx_annotations
from kohort.rules.nginx_annotations import PREFIX

_KINDS: Final[dict[str, PathKind]] = {"Exact": "Exact", "Prefix": "Prefix", "ImplementationSpecific": "Prefix"}
_AFTER_ALL_OTHERS: Final = "~"
"""Instead of a time of creation, for the default backend of an Ingress: it is later than any time."""


def is_canary(ingress: Ingress) -> bool:
    return ingress.metadata.annotations.get(f"{PREFIX}{nginx_annotations.CANARY}", "").lower() == "true"


def routes_of(ingresses: Iterable[Ingress]) -> tuple[list[Route], list[str]]:
    """The routes, and what is wrong with paths that cannot be served."""
    problems: list[str] = []
    all_of_them = list(ingresses)
    found: dict[tuple[str, str, str, str], Route] = {}
    rest: list[Route] = []
    for ingress in sorted((one for one in all_of_them if not is_canary(one)), key=_age):
        for host, path in _paths(ingress):
            route = _route(ingress, host, path, len(rest) + len(found), problems)
            key = (ingress.metadata.namespace, host, path.path, _kind(ingress, path))
            if route is not None and key not in found:
                found[key] = route
        default = _backend(ingress, ingress.spec.default_backend)
        if default is not None:
            everything = RequestMatch(PathRule("Prefix", "/"))
            rest.append(Route(everything, (default,), RouteOrigin(_name(ingress), created=_AFTER_ALL_OTHERS)))
    for canary in filter(is_canary, all_of_them):
        for host, path in _paths(canary):
            key = (canary.metadata.namespace, host, path.path, _kind(canary, path))
            stable = found.get(key)
            if stable is not None:
                _attach(canary, path, stable, problems)
    return [*found.values(), *rest], problems


def _age(ingress: Ingress) -> tuple[str, str]:
    return ingress.metadata.creation_timestamp or "", _name(ingress)


def _name(ingress: Ingress) -> str:
    return f"{ingress.metadata.namespace}/{ingress.metadata.name}"


def _paths(ingress: Ingress) -> Iterable[tuple[str, IngressPath]]:
    for rule in ingress.spec.rules:
        for path in (rule.http.paths if rule.http is not None else None) or ():
            yield rule.host.lower(), path


def _kind(ingress: Ingress, path: IngressPath) -> PathKind:
    if path.path_type != "Exact" and ingress.metadata.annotations.get(f"{PREFIX}use-regex") == "true":
        return "Regex"
    return _KINDS.get(path.path_type, "Prefix")


def _backend(ingress: Ingress, backend: IngressBackend | None) -> Backend | None:
    if backend is None or backend.service is None:
        return None
    port = backend.service.port
    return Backend(ingress.metadata.namespace, backend.service.name, port.name or port.number)


def _route(ingress: Ingress, host: str, path: IngressPath, place: int, problems: list[str]) -> Route | None:
    backend = _backend(ingress, path.backend)
    if backend is None:
        problems.append(f"Ingress {_name(ingress)}: path {path.path} has no backend service; only Services are served")
        return None
    try:
        rule = PathRule(_kind(ingress, path), path.path or "/")
    except BadPattern as problem:
        problems.append(f"Ingress {_name(ingress)}: path {problem}")
        return None
    timeout = ingress.metadata.annotations.get(f"{PREFIX}proxy-read-timeout", "")
    return Route(
        RequestMatch(rule),
        (backend,),
        RouteOrigin(_name(ingress), ingress.metadata.creation_timestamp or "", place),
        host=host,
        timeout=float(timeout) if timeout.isdigit() else None,
    )


def _attach(canary: Ingress, path: IngressPath, route: Route, problems: list[str]) -> None:
    backend = _backend(canary, path.backend)
    if backend is None or route.canary is not None:
        return
    said = {
        key.removeprefix(PREFIX): text for key, text in canary.metadata.annotations.items() if key.startswith(PREFIX)
    }
    value = said.get(nginx_annotations.HEADER_VALUE)
    pattern = said.get(nginx_annotations.HEADER_PATTERN)
    try:
        wanted = Pattern(value) if value else Pattern(pattern, regular=True) if pattern else None
    except BadPattern as problem:
        problems.append(f"Ingress {_name(canary)}: {nginx_annotations.HEADER_PATTERN} {problem}")
        return
    route.canary = Canary(
        backend,
        route.split.backends[0],
        header=said.get(nginx_annotations.HEADER, ""),
        header_value=wanted,
        cookie=said.get(nginx_annotations.COOKIE, ""),
        weight=_number(said.get(nginx_annotations.WEIGHT), 0),
        total=_number(said.get(nginx_annotations.WEIGHT_TOTAL), 100),
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdigit() else otherwise
