"""Redirects and rewrites: what a rule makes of the host and path of a request. Pure."""

from typing import Final
from urllib.parse import quote

import msgspec

from kohort.cluster.gateway.request_target import Target

_USUAL_PORTS: Final = {"http": 80, "https": 443}


class PathChange(msgspec.Struct, frozen=True):
    """Another path as a whole, or another beginning in place of the prefix that the rule matched."""

    full: str | None = None
    prefix: str | None = None
    matched: str = "/"
    """The prefix that the rule matches."""


class Redirect(msgspec.Struct, frozen=True):
    status: int = 302
    scheme: str = ""
    host: str = ""
    port: int = 0
    path: PathChange | None = None


class Rewrite(msgspec.Struct, frozen=True):
    host: str = ""
    path: PathChange | None = None


def changed_target(target: Target, change: PathChange | None) -> str:
    """The path and query of a request after a change; the query stays.

    >>> asked = Target("a", "a", "/v1/models", "/v1/models?all=1")
    >>> changed_target(asked, PathChange(prefix="/", matched="/v1"))
    '/models?all=1'
    >>> changed_target(asked, PathChange(full="/"))
    '/?all=1'
    """
    if change is None:
        return target.forwarded
    path, mark, query = target.forwarded.partition("?")
    if change.full is not None:
        return quote(change.full, safe="/%:@!$&'()*+,;=~-._") + mark + query
    matched = change.matched.rstrip("/")
    rest = path[len(matched) :]
    if not path.startswith(matched) or rest[:1] not in ("", "/"):
        # Escapes in the part that was matched: the path is taken as it was compared.
        rest = quote(target.path[len(matched) :])
    begin = (change.prefix or "/").rstrip("/")
    return (begin + rest or "/") + mark + query


def location(redirect: Redirect, target: Target, *, secure: bool, port: int) -> str:
    """Where a client is sent. `port` is the one that it reached; one that its scheme implies is left out."""
    scheme = redirect.scheme.lower() or ("https" if secure else "http")
    if redirect.port:
        port = redirect.port
    elif redirect.scheme:
        port = _USUAL_PORTS.get(scheme, port)
    host = redirect.host or target.host
    shown = host if port == _USUAL_PORTS.get(scheme) else f"{host}:{port}"
    return f"{scheme}://{shown}{changed_target(target, redirect.path)}"
