"""A form for a manifest, and what applying it would do."""

from collections.abc import Sequence

from kohort.dashboard.html import ROOT, Child, Html, tag
from kohort.dashboard.pages.elements import BAD, BUSY, OK, pill, section
from kohort.dashboard.view import Section
from kohort.dashboard.what_if_page import ForeseenSet, WhatIfPage
from kohort.inspection.forecast import EditKind
from kohort.inspection.readable_amounts import duration_text


def what_if_sections(page: WhatIfPage, csrf: str) -> tuple[Section, ...]:
    sections = [_head(), _form(page, csrf)]
    if page.refused:
        body = tag("pre", page.refused, class_="diff plan", tabindex="0", aria_label="Why it is refused")
        sections.append(section("refused", "It would be refused", body))
    sections += [_planned(one, number) for number, one in enumerate(page.sets)]
    for number, one in enumerate(page.rollouts):
        title = f"Rollout {one.forecast.name}"
        sections.append(section(f"rollout-{number}", title, _lines(one.lines), more=pill(one.forecast.action, BUSY)))
    return tuple(sections)


def _head() -> Section:
    words = (
        "Paste or edit a LeaderWorkerSet or a Rollout, and see what applying it would do. Nothing is changed. "
        "To begin with a set of the fleet, open the set and choose What if."
    )
    return Section("what-if", tag("div", tag("h1", "What if"), tag("p", words, class_="quiet-text"), id="what-if"))


def _form(page: WhatIfPage, csrf: str) -> Section:
    area = tag(
        "textarea", page.manifest, name="manifest", id="manifest", rows="18", spellcheck="false", autocomplete="off"
    )
    form = tag(
        "form",
        tag("input", type="hidden", name="csrf", value=csrf),
        _namespace(page),
        tag("div", tag("label", "Manifest (YAML)", for_="manifest"), area, class_="field wide"),
        tag("p", tag("button", "Plan", type="submit"), class_="actions"),
        method="post",
        action=f"{ROOT}/what-if",
    )
    return section("manifest-form", "Manifest", form)


def _namespace(page: WhatIfPage) -> Html:
    label = tag("label", "Namespace, if the manifest names none", for_="namespace")
    control = tag("input", type="text", name="namespace", id="namespace", value=page.namespace or "default")
    return tag("div", label, control, class_="field")


def _planned(one: ForeseenSet, number: int) -> Section:
    forecast = one.forecast
    touches_groups = forecast.action not in (EditKind.NOTHING, EditKind.CONFIGURE)
    marks: list[Child] = [pill(forecast.action, BUSY if touches_groups else OK)]
    if forecast.room is not None:
        marks.append(pill("fits", OK) if forecast.room.fits else pill("does not fit", BAD))
    body: list[Child] = [_figures(one), _lines(one.lines)]
    more = tag("span", *marks, class_="marks")
    return section(f"plan-{number}", f"LeaderWorkerSet {forecast.name}", *body, more=more)


def _figures(one: ForeseenSet) -> Html:
    forecast, cost = one.forecast, one.cost
    figures: list[tuple[str, str]] = [
        ("groups recreated", str(len(forecast.recreated))),
        ("groups in place", str(len({group for step in forecast.steps for group in step.resized}))),
        ("fewest groups serving", str(forecast.fewest_serving)),
        ("extra groups at once", str(forecast.extra_groups)),
    ]
    if cost is not None:
        each, whole = (duration_text(one) for one in (cost.group_start_seconds, cost.duration_seconds))
        figures.append((f"estimated, {each} per group", whole))
        figures.append(("accelerator-minutes", f"{cost.accelerator_minutes:g}"))
    tiles = [
        tag("li", tag("span", value, class_="number"), tag("span", name, class_="label"), class_="tile")
        for name, value in figures
    ]
    return tag("ul", *tiles, class_="tiles")


def _lines(lines: Sequence[str]) -> Html:
    text = "\n".join(lines)
    return tag("pre", text, class_="diff plan after", tabindex="0", aria_label="Plan")
