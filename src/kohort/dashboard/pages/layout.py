"""The frame around every page: head, navigation, and what scripts read."""

from collections.abc import Sequence

import msgspec

from kohort.dashboard.html import ROOT, Child, Html, join, path, tag
from kohort.dashboard.view import View

NAVIGATION: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("fleet", "Fleet", ("",)),
    ("nodes", "Nodes", ("nodes",)),
    ("what-if", "What if", ("what-if",)),
)


class Visitor(msgspec.Struct, frozen=True):
    """Whose page it is."""

    name: str
    csrf: str
    allow_actions: bool = False
    notice: str = ""
    """The result of an action, shown once."""
    logs_out: bool = True
    """There is a session that can be ended."""
    sees_nodes: bool = True
    """The user may list nodes: otherwise their page is not offered."""


def page(view: View, visitor: Visitor, address: str, digest: str, version: str) -> Html:
    """`address` is the path and query of the page itself, which live updates ask for; `digest` is of its sections."""
    live = address if view.refreshes else None
    return _document(
        view.title,
        version,
        _header(view.place, visitor),
        tag(
            "main",
            tag("p", visitor.notice, class_="notice", role="status") if visitor.notice else None,
            *(one.html for one in view.sections),
            id="main",
            data_live=live,
            data_digest=digest,
            data_csrf=visitor.csrf,
        ),
    )


def message_page(
    title: str, text: str, version: str, *more: Child, navigates: bool = False, sees_nodes: bool = False
) -> Html:
    """A page that only says something: an error, a login. `navigates` offers the other pages, `sees_nodes` that of
    nodes."""
    main = tag("main", tag("section", tag("h1", title), tag("p", text), *more, class_="card message"), id="main")
    links = tag("nav", *_links("", sees_nodes=sees_nodes), aria_label="Main") if navigates else None
    return _document(title, version, tag("header", _wordmark(), links, class_="top"), main)


def _document(title: str, version: str, *body: Child) -> Html:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · kohort"),
        tag("link", rel="icon", href=f"{ROOT}/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"{ROOT}/static/style.css?v={version}"),
        tag("script", src=f"{ROOT}/static/dashboard.js?v={version}", defer=True),
    )
    skip = tag("a", "Skip to content", href="#main", class_="skip")
    return join(Html("<!doctype html>"), tag("html", head, tag("body", skip, *body), lang="en"))


def _wordmark() -> Html:
    return tag("a", tag("span", class_="mark", aria_hidden="true"), "kohort", href=f"{ROOT}/", class_="wordmark")


def _links(place: str, *, sees_nodes: bool) -> list[Html]:
    return [
        tag("a", text, href=path(*where), aria_current="page" if name == place else None)
        for name, text, where in NAVIGATION
        if sees_nodes or name != "nodes"
    ]


def _header(place: str, visitor: Visitor) -> Html:
    mode = tag("span", "read only", class_="mode") if not visitor.allow_actions else None
    out = tag(
        "form",
        tag("input", type="hidden", name="csrf", value=visitor.csrf),
        tag("button", "Log out", type="submit", class_="plain"),
        method="post",
        action=f"{ROOT}/logout",
    )
    status = tag("span", "connecting", id="live", class_="live", role="status")
    who = tag(
        "div",
        status,
        mode,
        tag("span", visitor.name, class_="user") if visitor.name else None,
        out if visitor.logs_out else None,
        class_="who",
    )
    links = _links(place, sees_nodes=visitor.sees_nodes)
    return tag("header", _wordmark(), tag("nav", *links, aria_label="Main"), who, class_="top")
