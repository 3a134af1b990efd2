"""The fleet as a table, with filters and pages."""

import msgspec

from kohort.dashboard.fleet import STATES, Fleet, FleetFilter, FleetRow
from kohort.dashboard.html import ROOT, Child, Html, path, tag
from kohort.dashboard.pages.elements import (
    age_of,
    code,
    hidden,
    pill,
    ready_bar,
    set_path,
    table,
    tone_of_cause,
    tone_of_state,
)
from kohort.dashboard.view import Part, Section
from kohort.inspection import release

COLUMNS = ("Set", "State", "Groups", "Revision", "Release", "First cause", "Age")


def fleet_sections(fleet: Fleet) -> tuple[Section, ...]:
    return (_summary(fleet), _filters(fleet), _rows(fleet), _pager(fleet))


def _summary(fleet: Fleet) -> Section:
    total = sum(fleet.states.values())
    tiles = [_tile(fleet.filter, "", "All sets", total, "all")]
    tiles += [_tile(fleet.filter, one, one, fleet.states[one], tone_of_state(one)) for one in STATES]
    head = tag("h1", "Fleet")
    return Section("summary", tag("div", head, tag("ul", *tiles, class_="tiles"), id="summary"))


def _tile(wanted: FleetFilter, state: str, text: str, count: int, tone: str) -> Html:
    chosen = wanted.state == state
    address = path("", query=msgspec.structs.replace(wanted, state=state, page=1).query)
    inner = [tag("span", str(count), class_="number"), tag("span", text, class_="label")]
    link = tag("a", *inner, href=address, class_=f"tile {tone}", aria_current="true" if chosen else None)
    return tag("li", link)


def _filters(fleet: Fleet) -> Section:
    wanted = fleet.filter
    options = [tag("option", "All namespaces", value="")]
    known = dict.fromkeys([*fleet.namespaces, *([wanted.namespace] if wanted.namespace else [])])
    options += [tag("option", one, value=one, selected=one == wanted.namespace) for one in known]
    form = tag(
        "form",
        _field("Namespace", tag("select", *options, name="namespace", id="filter-namespace"), "filter-namespace"),
        _field("Name", _input("name", wanted.name, "contains…"), "filter-name"),
        _field("Labels", _input("label", wanted.label, "team=a,tier!=test"), "filter-label"),
        _field(
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
        aria_label="Filter sets",
    )
    return Section("filters", tag("div", form, id="filters"))


def _field(label: str, control: Html, id: str) -> Html:
    return tag("div", tag("label", label, for_=id), control, class_="field")


def _input(name: str, value: str, hint: str) -> Html:
    return tag("input", type="text", name=name, value=value, id=f"filter-{name}", placeholder=hint, autocomplete="off")


def row_id(row: FleetRow) -> str:
    return f"set-{row.namespace}.{row.name}"


def _rows(fleet: Fleet) -> Section:
    parts = tuple(Part(row_id(one), _row(one)) for one in fleet.rows)
    if not parts:
        narrowed = any(value for key, value in fleet.filter.query if key not in ("sort", "page"))
        text = "No set matches this filter." if narrowed else "There are no sets that you may see."
        return Section("rows", tag("div", tag("p", text, class_="empty"), id="rows", class_="card"))
    inner = table("Sets", COLUMNS, [one.html for one in parts])
    html = tag("div", inner, id="rows", class_="card flush fleet")
    return Section("rows", html, parts, frame=",".join(one.id for one in parts))


def _row(one: FleetRow) -> Html:
    name = tag("a", one.name, href=set_path(one.namespace, one.name), class_="name")
    tone = tone_of_cause(one.cause.kind) if one.cause is not None else tone_of_state(one.state)
    state = pill(one.state, "bad" if tone == "bad" else tone_of_state(one.state))
    cells: list[tuple[str, Child]] = [
        ("Set", [name, tag("span", one.namespace, class_="sub")]),
        ("State", [state, tag("span", "paused", class_="sub") if one.paused else None]),
        ("Groups", _groups(one)),
        ("Revision", [str(one.revision) if one.revision else "–", hidden(" "), _images(one)]),
        ("Release", _release(one)),
        ("First cause", _cause(one)),
        ("Age", age_of(one.age_seconds)),
    ]
    empty = {"Release": one.release is None, "First cause": one.cause is None}
    drawn = [tag("td", value, data_label=label, class_="none" if empty.get(label) else None) for label, value in cells]
    return tag("tr", *drawn, id=row_id(one))


def _groups(one: FleetRow) -> list[Child]:
    surge = f" +{one.surge}" if one.surge else ""
    count = tag("span", f"{one.ready}/{one.wanted}{surge}", class_="count")
    pods = tag("span", f"of {one.size} pods" if one.size != 1 else "of 1 pod", class_="sub")
    return [tag("span", count, ready_bar(one.ready, one.wanted, one.surge), class_="groups-cell"), pods]


def _images(one: FleetRow) -> Html | None:
    if not one.images:
        return None
    short = one.images[0].rpartition("/")[2]
    more = f" +{len(one.images) - 1}" if len(one.images) > 1 else ""
    return tag("span", f"{short}{more}", class_="sub mono", title=", ".join(one.images))


def _release(one: FleetRow) -> Child:
    if one.release is None:
        return tag("span", "–", class_="quiet-text")
    link = tag("a", release.short(one.release), href=set_path(one.namespace, one.name, "release"))
    return [link, tag("span", one.release.style, class_="sub")]


def _cause(one: FleetRow) -> Child:
    if one.cause is None:
        return tag("span", "–", class_="quiet-text")
    more = f" and {one.cause.more} more" if one.cause.more else ""
    words = [tag("span", one.cause.kind, class_=f"kind {tone_of_cause(one.cause.kind)}"), " ", code(one.cause.object)]
    return [tag("span", *words), tag("span", f"{one.cause.found}{more}", class_="sub clamp", title=one.cause.found)]


def _pager(fleet: Fleet) -> Section:
    wanted, page = fleet.filter, fleet.filter.page
    links: list[Child] = [tag("span", f"{fleet.total} sets, page {page} of {fleet.pages}", class_="sub")]

    def link(text: str, number: int) -> Html:
        address = path("", query=msgspec.structs.replace(wanted, page=number).query)
        return tag("a", text, href=address, class_="button plain")

    if page > 1:
        links.append(link("Previous", page - 1))
    if page < fleet.pages:
        links.append(link("Next", page + 1))
    return Section("pager", tag("nav", *links, id="pager", class_="pager", aria_label="Pages"))
