"""Small pieces that several pages share: states, bars, ages, tables."""

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.dashboard.html import Child, Html, join, path, tag
from kohort.dashboard.view import Section
from kohort.inspection.cause import CauseKind
from kohort.inspection.tree import age_text

OK, BUSY, BAD, QUIET = "ok", "busy", "bad", "quiet"
"""Tones: classes of the style sheet."""
_TONES: Final = {
    "Available": OK,
    "Progressing": BUSY,
    "Updating": BUSY,
    "Pending": QUIET,
    "Terminating": QUIET,
}
_PATIENT: Final = (CauseKind.ROLLOUT, CauseKind.WAITING)
_SEGMENTS: Final = 32
"""Groups up to which a bar has a segment for each."""


def tone_of_state(state: str) -> str:
    return _TONES.get(state, QUIET)


def tone_of_cause(kind: str) -> str:
    """What only needs time or a decision is no error."""
    return BUSY if kind in _PATIENT else BAD


def pill(text: str, tone: str) -> Html:
    return tag("span", tag("span", class_="dot", aria_hidden="true"), text, class_=f"pill {tone}")


def age_of(seconds: int) -> Html:
    return tag("span", age_text(seconds), class_="age")


def hidden(text: str) -> Html:
    """For screen readers only."""
    return tag("span", text, class_="hidden-text")


def ready_bar(ready: int, wanted: int, surge: int = 0) -> Html:
    """Groups that are ready of those wanted; a segment for each while there are not too many."""
    total = max(wanted + surge, ready, 1)
    words = f"{ready} of {wanted} groups ready" + (f", {surge} surge" if surge else "")
    width, height, gap = 96.0, 8.0, 2.0
    rects: list[Html] = []
    if total <= _SEGMENTS:
        each = (width - gap * (total - 1)) / total
        for number in range(total):
            tone = ("full" if number < ready else "open") + (" surge" if number >= wanted else "")
            rects.append(_rect(number * (each + gap), each, height, tone))
    else:
        rects = [_rect(0, width, height, "open"), _rect(0, width * ready / total, height, "full")]
    return tag("svg", *rects, class_="bar", viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=words)


def _rect(x: float, width: float, height: float, tone: str) -> Html:
    return tag("rect", x=f"{x:.2f}", y="0", width=f"{width:.2f}", height=f"{height:g}", rx="1.5", class_=tone)


def section(id: str, title: str, *children: Child, more: Child = None) -> Section:
    """A card with a heading."""
    head = tag("header", tag("h2", title, id=f"{id}-title"), more)
    return Section(id, tag("section", head, *children, id=id, class_="card", aria_labelledby=f"{id}-title"))


def table(caption: str, head: Sequence[Child], rows: Iterable[Html], id: str | None = None) -> Html:
    """A table that can be scrolled sideways where it is too wide, by keyboard too."""
    columns = tag("tr", *(tag("th", one, scope="col") for one in head))
    inner = tag(
        "table", tag("caption", caption, class_="hidden-text"), tag("thead", columns), tag("tbody", *rows, id=id)
    )
    return tag("div", inner, class_="scrolls", tabindex="0", role="region", aria_label=caption)


def row(*cells: Child, **attributes: str) -> Html:
    return tag("tr", *(tag("td", one) for one in cells), **attributes)


def code(text: str) -> Html:
    return tag("code", text)


def command_line(text: str) -> Html:
    """A command that a click copies."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy the command: {text}")
    return tag("span", tag("code", text), button, class_="command")


def set_path(namespace: str, name: str, *rest: str) -> str:
    return path("sets", namespace, name, *rest)


def names(texts: Iterable[str]) -> Html:
    return join(*(tag("code", one, class_="chip") for one in texts))


def diff_lines(lines: Sequence[str]) -> Html:
    """A unified diff; signs stay, so colour is not all that tells lines apart."""
    rows: list[Child] = []
    for line in lines:
        head = line.startswith(("@@", "+++ ", "--- "))
        tone = "hunk" if head else "add" if line.startswith("+") else "del" if line.startswith("-") else ""
        rows.append(tag("span", line, "\n", class_=f"line {tone}".strip()))
    return tag("pre", *rows, class_="diff", tabindex="0", aria_label="Differences")
