"""HTML that cannot be broken by what is in it.

Names, annotations and messages of a cluster are written by many people. A child or an attribute value is escaped
unless it is `Html`, and only this module makes `Html` from text. Addresses must be paths of the dashboard: an attribute
that a browser follows is refused if its value begins with anything else, so no object can bring a `javascript:` link.

Why not a template engine: pages are functions of typed structs, which mypy checks, and no dependency is added.
"""

from collections.abc import Iterable
from html import escape
from typing import Final
from urllib.parse import quote, urlencode


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Value = str | int | bool | None

_EMPTY: Final = frozenset({"input", "meta", "link", "br", "hr", "img"})
_EMPTY_IN_SVG: Final = frozenset({"rect", "circle", "line", "path", "polyline"})
_FOLLOWED: Final = frozenset({"href", "src", "action", "formaction"})
_ALLOWED_STARTS: Final = ("/", "?", "#")


def tag(name: str, /, *children: Child, **attributes: Value) -> Html:
    """An element. `class_` and `for_` lose the underscore at the end, others in names become hyphens.

    >>> tag("a", "<b>", href="/x", data_set="o'clock", hidden=False)
    '<a href="/x" data-set="o&#x27;clock">&lt;b&gt;</a>'
    """
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if name in _EMPTY:
        return Html(f"{start}>")
    if name in _EMPTY_IN_SVG:
        return Html(f"{start}/>")
    return Html(f"{start}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other; None is left out."""
    return Html("".join(_text(one) for one in children))


def _text(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if child is None:
        return ""
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(_text(one) for one in child)


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if name in _FOLLOWED and (not str(value).startswith(_ALLOWED_STARTS) or str(value).startswith(("//", "/\\"))):
        raise ValueError(f"{name} must be a path of the dashboard, not {value!r}")
    return f' {name}="{escape(str(value))}"'


def path(*parts: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """A path of the dashboard; empty parameters are left out.

    >>> path("sets", "default", "a/b", query=[("tab", ""), ("q", "x y")])
    '/dashboard/sets/default/a%2Fb?q=x+y'
    """
    given = urlencode([(key, value) for key, value in query if value])
    return "/".join((ROOT, *(quote(one, safe="") for one in parts))) + (f"?{given}" if given else "")


ROOT: Final = "/dashboard"
