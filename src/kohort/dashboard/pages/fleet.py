"""The fleet as a table, with filters and pages."""

from datetime import datetime

import msgspec

from kohort.dashboard.fleet import FAILING, STATES, FirstCause, FleetFilter, FleetPage, FleetRow
from kohort.dashboard.html import ROOT, Child, Html, path, tag
from kohort.dashboard.pages import release_words
from kohort.dashboard.pages.elements import (
    BAD,
    QUIET,
    age_of,
    code,
    countdown,
    field,
    frame_of_table,
    hidden,
    pill,
    ready_bar,
    revision_text,
    table_row,
    tone_of_cause,
    tone_of_state,
    workload_path,
)
from kohort.dashboard.view import Section, SectionPart
from kohort.dashboard.workload_kinds import KINDS
from kohort.inspection.cause import CauseKind
from kohort.objects.counted_nouns import counted

COLUMNS = ("State", "Groups", "Revision", "Release", "First cause", "Age")
"""After the one with names."""


def fleet_sections(fleet: FleetPage) -> tuple[Section, ...]:
    return (_summary(fleet), _filters(fleet), _rows(fleet), _pager(fleet))


def _noun(fleet: FleetPage) -> str:
    """What the fleet consists of."""
    return "set" if all(KINDS[one].grouped for one in fleet.kinds) else "workload"


def _summary(fleet: FleetPage) -> Section:
    total = sum(fleet.states.values())
    tiles = [_tile(fleet.filter, "", f"All {_noun(fleet)}s", total, "all")]
    tiles.append(_tile(fleet.filter, FAILING, FAILING, fleet.failing, BAD if fleet.failing else QUIET))
    tiles += [_tile(fleet.filter, one, one, fleet.states[one], tone_of_state(one)) for one in STATES]
    head = tag("h1", "Fleet")
    return Section("summary", tag("div", head, tag("ul", *tiles, class_="tiles"), id="summary"))


def _tile(wanted: FleetFilter, state: str, text: str, count: int, tone: str) -> Html:
    chosen = wanted.state == state
    address = path("", query=msgspec.structs.replace(wanted, state=state, page=1).query)
    inner = [tag("span", str(count), class_="number"), tag("span", text, class_="label")]
    link = tag("a", *inner, href=address, class_=f"tile {tone}", aria_current="true" if chosen else None)
    return tag("li", link)


def _filters(fleet: FleetPage) -> Section:
    wanted = fleet.filter
    options = [tag("option", "All namespaces", value="")]
    known = dict.fromkeys([*fleet.namespaces, *([wanted.namespace] if wanted.namespace else [])])
    options += [tag("option", one, value=one, selected=one == wanted.namespace) for one in known]
    form = tag(
        "form",
        _kinds(fleet),
        field("Namespace", tag("select", *options, name="namespace", id="filter-namespace"), "filter-namespace"),
        field("Name", _input("name", wanted.name, "contains…"), "filter-name"),
        field("Labels", _input("label", wanted.label, "team=a,tier!=test"), "filter-label"),
        field(
            "Order",
            tag(
                "select",
                tag("option", "by name", value="name", selected=wanted.sort == "name"),
                tag("option", "by state", value="state", selected=wanted.sort == "state"),
                name="sort",
                id="filter-sort",
            ),
            "filter-sort",
        ),
        tag("input", type="hidden", name="state", value=wanted.state) if wanted.state else None,
        tag("button", "Filter", type="submit"),
        tag("a", "Clear", href=f"{ROOT}/", class_="button plain") if any(v for _, v in wanted.query) else None,
        method="get",
        action=f"{ROOT}/",
        class_="filters",
        role="search",
        aria_label=f"Filter {_noun(fleet)}s",
    )
    return Section("filters", tag("div", form, id="filters"))


def _kinds(fleet: FleetPage) -> Html | None:
    """A choice only where there is one."""
    wanted = fleet.filter.kind
    if not wanted and all(KINDS[one].grouped for one in fleet.kinds):
        return None
    known = dict.fromkeys([*fleet.kinds, *([wanted] if wanted else [])])
    options = [tag("option", "All kinds", value=""), *(tag("option", one, selected=one == wanted) for one in known)]
    return field("Kind", tag("select", *options, name="kind", id="filter-kind"), "filter-kind")


def _input(name: str, value: str, hint: str) -> Html:
    return tag("input", type="text", name=name, value=value, id=f"filter-{name}", placeholder=hint, autocomplete="off")


def row_id(row: FleetRow) -> str:
    return f"{'set' if KINDS[row.kind].grouped else row.kind.lower()}-{row.namespace}.{row.name}"


def _rows(fleet: FleetPage) -> Section:
    head = (_noun(fleet).capitalize(), *COLUMNS)
    parts = tuple(SectionPart(row_id(one), table_row(head, _cells(one), id=row_id(one))) for one in fleet.rows)
    if not parts:
        narrowed = any(value for key, value in fleet.filter.query if key not in ("sort", "page"))
        text = f"No {_noun(fleet)} matches this filter." if narrowed else "There are no sets that you may see."
        return Section("rows", tag("div", tag("p", text, class_="empty"), id="rows", class_="card"))
    inner = frame_of_table(f"{head[0]}s", head, [one.html for one in parts])
    html = tag("div", inner, id="rows", class_="card flush fleet")
    return Section("rows", html, parts)


def _cells(one: FleetRow) -> list[Child]:
    name = tag("a", one.name, href=workload_path(one.kind, one.namespace, one.name), class_="name")
    place = one.namespace if KINDS[one.kind].grouped else f"{one.namespace} · {one.kind}"
    state = pill(one.state, BAD if one.fails else tone_of_state(one.state))
    return [
        [name, tag("span", place, class_="sub")],
        [state, tag("span", "paused", class_="sub") if one.paused else None],
        _groups(one),
        [revision_text(one.revision, releasing=one.release is not None), hidden(" "), _images(one)],
        _release(one) if one.release is not None else None,
        _cause(one.cause) if one.cause is not None else None,
        age_of(one.age_seconds),
    ]


def _groups(one: FleetRow) -> list[Child]:
    surge = f" +{one.surge}" if one.surge else ""
    count = tag("span", f"{one.ready}/{one.wanted}{surge}", class_="count")
    grouped = KINDS[one.kind].grouped
    bar = ready_bar(one.ready, one.wanted, one.surge, "group" if grouped else "pod")
    words = "pods" if not grouped else f"of {counted(one.size, 'pod')}"
    return [tag("span", count, bar, class_="groups-cell"), tag("span", words, class_="sub")]


def _images(one: FleetRow) -> Html | None:
    if not one.images:
        return None
    short = one.images[0].rpartition("/")[2]
    more = f" +{len(one.images) - 1}" if len(one.images) > 1 else ""
    return tag("span", f"{short}{more}", class_="sub mono", title=", ".join(one.images))


def _release(one: FleetRow) -> Child:
    release = one.release
    assert release is not None
    address = workload_path(one.kind, one.namespace, one.name, "release")
    stopped = one.cause is not None and one.cause.kind == CauseKind.ANALYSIS
    words: list[Child] = [release_words.state(release, stopped=stopped)]
    if one.pause_ends:
        ends = datetime.fromisoformat(one.pause_ends).timestamp()
        words = [countdown(release.pause_seconds_left or 0, ends)]
    if release.traffic_asked:
        words.append(f", {release.traffic_asked} of requests")
    link = tag("a", release_words.place(release).capitalize(), href=address)
    return [tag("div", link), tag("span", *words, class_="sub")]


def _cause(cause: FirstCause) -> Child:
    more = tag("span", f" +{cause.more} more", class_="quiet-text small") if cause.more else None
    kind = tag("span", cause.kind, class_=f"kind {tone_of_cause(error=cause.error)}")
    return [
        tag("span", kind, " ", code(cause.object), more),
        tag("span", cause.found, class_="sub clamp", title=cause.found),
    ]


def _pager(fleet: FleetPage) -> Section:
    wanted, page = fleet.filter, fleet.filter.page
    links: list[Child] = [
        tag("span", f"{counted(fleet.total, _noun(fleet))}, page {page} of {fleet.pages}", class_="sub")
    ]

    def link(text: str, number: int) -> Html:
        address = path("", query=msgspec.structs.replace(wanted, page=number).query)
        return tag("a", text, href=address, class_="button plain")

    if page > 1:
        links.append(link("Previous", page - 1))
    if page < fleet.pages:
        links.append(link("Next", page + 1))
    return Section("pager", tag("nav", *links, id="pager", class_="pager", aria_label="Pages"))
