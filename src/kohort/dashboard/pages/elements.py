"""Small pieces that several pages share: states, bars, ages, tables."""

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.dashboard.html import Child, Html, join, path, tag
from kohort.dashboard.view import Section
from kohort.dashboard.workload_kinds import KINDS
from kohort.inspection.readable_amounts import duration_text
from kohort.inspection.tree import age_text
from kohort.objects.counted_nouns import counted_of

OK, BUSY, BAD, QUIET = "ok", "busy", "bad", "quiet"
"""Tones: classes of the style sheet."""
_TONES: Final = {
    "Available": OK,
    "Progressing": BUSY,
    "Updating": BUSY,
    "Pending": QUIET,
    "Terminating": QUIET,
}
_SEGMENTS: Final = 32
"""Groups up to which a bar has a segment for each."""


def tone_of_state(state: str) -> str:
    return _TONES.get(state, QUIET)


def tone_of_cause(*, error: bool) -> str:
    return BAD if error else BUSY


def pill(text: str, tone: str) -> Html:
    return tag("span", tag("span", class_="dot", aria_hidden="true"), text, class_=f"pill {tone}")


def age_of(seconds: int) -> Html:
    return tag("span", age_text(seconds), class_="age")


def countdown(left: int, ends: float) -> Html:
    """Time that is left; a script counts it down to `ends`, in seconds since the epoch."""
    return tag("span", f"{duration_text(left)} left", data_until=f"{ends:.0f}", class_="countdown")


def ago(seconds: int, when: str) -> Html:
    """How long ago something was; the moment itself is shown when one points at it."""
    return tag("time", f"{age_text(seconds)} ago", datetime=when, title=when, class_="age")


def moment(when: str) -> Html:
    """A point in time, in UTC.

    >>> moment("2026-11-17T13:22:28Z")
    '<time datetime="2026-11-17T13:22:28Z" class="age">2026-11-17 13:22:28 UTC</time>'
    """
    return tag("time", when.replace("T", " ").replace("Z", " UTC"), datetime=when, class_="age")


def hidden(text: str) -> Html:
    """For screen readers only."""
    return tag("span", text, class_="hidden-text")


def ready_bar(ready: int, wanted: int, surge: int = 0, noun: str = "group") -> Html:
    """Groups (or pods) that are ready of those wanted; a segment for each while there are not too many."""
    total = max(wanted + surge, ready, 1)
    words = f"{counted_of(ready, wanted, noun)} ready" + (f", {surge} surge" if surge else "")
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


def revision_text(number: int, *, releasing: bool) -> str:
    """A release of a Deployment holds the wanted version back: no ReplicaSet keeps it yet."""
    return str(number) if number else "held back" if releasing else "–"


def section(id: str, title: str, *children: Child, more: Child = None) -> Section:
    """A card with a heading."""
    head = tag("header", tag("h2", title, id=f"{id}-title"), more)
    return Section(id, tag("section", head, *children, id=id, class_="card", aria_labelledby=f"{id}-title"))


def frame_of_table(caption: str, head: Sequence[str], rows: Iterable[Html]) -> Html:
    """A table that can be scrolled sideways where it is too wide, by keyboard too. On narrow screens each row becomes a
    block of lines with the names of the columns before them: see `table_row`."""
    columns = tag("tr", *(tag("th", one, scope="col") for one in head))
    inner = tag("table", tag("caption", caption, class_="hidden-text"), tag("thead", columns), tag("tbody", *rows))
    return tag("div", inner, class_="scrolls", tabindex="0", role="region", aria_label=caption)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    return frame_of_table(caption, head, [table_row(head, cells) for cells in rows])


def table_row(head: Sequence[str], cells: Sequence[Child], **attributes: str) -> Html:
    """Cells that are None or `NOTHING` are left out on narrow screens."""
    drawn = [
        tag("td", one, data_label=label, class_="none" if one is None or one is NOTHING else None)
        for label, one in zip(head, cells, strict=True)
    ]
    return tag("tr", *drawn, **attributes)


NOTHING: Final = tag("span", "–", class_="quiet-text")
"""In a cell without content."""


def code(text: str) -> Html:
    return tag("code", text)


def command_line(text: str) -> Html:
    """A command that a click copies."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy the command: {text}")
    return tag("span", tag("code", text), button, class_="command")


def set_path(namespace: str, name: str, *rest: str) -> str:
    return path("sets", namespace, name, *rest)


def workload_path(kind: str, namespace: str, name: str, *rest: str, query: Iterable[tuple[str, str]] = ()) -> str:
    return path(KINDS[kind].path, namespace, name, *rest, query=query)


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


def field(label: str, control: Html, id: str) -> Html:
    """A control of a form with its label."""
    return tag("div", tag("label", label, for_=id), control, class_="field")


def select(name: str, choices: Sequence[tuple[str, str]], chosen: str) -> Html:
    options = (tag("option", text, value=value, selected=value == chosen) for value, text in choices)
    return tag("select", *options, name=name, id=name)
