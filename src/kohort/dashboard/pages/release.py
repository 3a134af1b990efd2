"""A release as a rail of steps, with both versions beside each other."""

from collections.abc import Collection
from datetime import datetime

from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.pages.analysis import analysis_section
from kohort.dashboard.pages.elements import BUSY, OK, QUIET, code, diff_lines, hidden, names, pill, section
from kohort.dashboard.pages.set import group_grid, head_section
from kohort.dashboard.release_page import RailStep, ReleasedVersion, ReleasePage
from kohort.dashboard.view import Section

_PLACES = {"done": "done", "current": "current step", "next": "to come"}


def release_sections(page: ReleasePage, act: Collection[str]) -> tuple[Section, ...]:
    sections = [head_section(page.set, "release"), _rail(page, act)]
    if page.analyses:
        sections.append(analysis_section(page.analyses))
    sections.append(_versions(page))
    if page.difference:
        sections.append(section("difference", "What changes in the template", diff_lines(page.difference)))
    return tuple(sections)


def _rail(page: ReleasePage, act: Collection[str]) -> Section:
    release = page.release
    steps = [_step(one, page, act) for one in page.steps]
    if release is None:
        state: Child = pill(f"{page.phase or 'not started'}: nothing is released now", QUIET)
    elif release.paused:
        state = pill("paused", QUIET)
    elif release.waits_for_approval:
        state = pill("waits for approval", BUSY)
    else:
        state = pill(release.step_state or release.phase, BUSY)
    more = tag("span", "Rollout ", code(page.rollout), f", {page.style} ", state)
    message = tag("p", release.message, class_="quiet-text after") if release is not None and release.message else None
    return section("rail", "Steps", tag("ol", *steps, class_="rail"), message, _actions(page, act), more=more)


def _step(step: RailStep, page: ReleasePage, act: Collection[str]) -> Html:
    release = page.release
    lines: list[Child] = [
        tag("h3", f"Step {step.number}", hidden(f", {_PLACES[step.place]}")),
        tag("p", f"{step.groups} of {page.set.wanted} groups", tag("span", step.replicas_asked, class_="sub")),
    ]
    if step.traffic:
        seen: Child = None
        if step.place == "current" and release is not None and release.traffic_observed is not None:
            seen = tag("span", f"{release.traffic_observed}% observed", class_="sub")
        lines.append(tag("p", f"{step.traffic} of requests", seen))
    lines += [tag("p", code(one), class_="match") for one in step.matches]
    lines.append(tag("p", *_pause(step, page), class_="quiet-text"))
    jumps = "approve" in act and release is not None and release.step and step.place != "current"
    if jumps:
        lines.append(tag("p", tag("a", f"Go to step {step.number}…", href=_address(page, "approve", step.number))))
    return tag("li", *lines, class_=f"step {step.place}", aria_current="step" if step.place == "current" else None)


def _pause(step: RailStep, page: ReleasePage) -> list[Child]:
    if step.place == "current" and page.pause_ends:
        ends = datetime.fromisoformat(page.pause_ends).timestamp()
        left = page.release.pause_seconds_left if page.release is not None else 0
        return ["goes on by itself, ", tag("span", f"{left} s left", data_until=f"{ends:.0f}", class_="countdown")]
    if step.waits_for_approval:
        return ["waits for approval"]
    if step.pause_seconds is not None:
        return [f"waits {step.pause_seconds} s"]
    return ["goes on at once"]


def _address(page: ReleasePage, verb: str, step: int | None = None, **more: str) -> str:
    query = [("step", str(step) if step is not None else ""), *more.items()]
    return path("sets", page.set.namespace, page.set.name, "actions", verb, query=query)


def _actions(page: ReleasePage, act: Collection[str]) -> Html | None:
    release = page.release
    if release is None or not act:
        return None
    links: list[Child] = []
    if "approve" in act:
        if release.waits_for_approval or release.pause_seconds is not None:
            links.append(tag("a", "Approve…", href=_address(page, "approve"), class_="button"))
        links.append(tag("a", "Go to the last step…", href=_address(page, "approve", full="1"), class_="button plain"))
    verb = "resume" if release.paused else "pause"
    if verb in act:
        links.append(tag("a", f"{verb.capitalize()}…", href=_address(page, verb), class_="button plain"))
    if "abort" in act:
        links.append(tag("a", "Abort…", href=_address(page, "abort"), class_="button danger"))
    return tag("p", *links, class_="actions")


def _versions(page: ReleasePage) -> Section:
    columns = [_version("Stable", page.stable, OK)] if page.stable is not None else []
    if page.new is not None:
        columns.append(_version("New", page.new, BUSY))
    body: Child = (
        tag("div", *columns, class_="versions") if columns else tag("p", "No version is known.", class_="empty")
    )
    return section("versions", "Versions", body)


def _version(title: str, version: ReleasedVersion, tone: str) -> Html:
    traffic = f"{version.traffic}% of requests" if version.traffic is not None else "share of requests not known"
    facts = [
        tag("h3", f"{title} ", pill(f"revision {version.revision}", tone)),
        tag("p", names(version.images)),
        tag("p", f"{version.ready} of {version.wanted} groups ready in ", code(version.name), f", {traffic}"),
        _share(version.traffic) if version.traffic is not None else None,
    ]
    grid = group_grid(version.groups, frozenset(), f"{title.lower()}-")
    return tag("div", *facts, grid, class_="version")


def _share(percent: int) -> Html:
    back = tag("rect", x="0", y="0", width="100", height="4", rx="2", class_="open")
    front = tag("rect", x="0", y="0", width=str(percent), height="4", rx="2", class_="full")
    words = f"{percent} per cent of requests"
    return tag(
        "svg",
        back,
        front,
        class_="share",
        viewBox="0 0 100 4",
        role="img",
        aria_label=words,
        preserveAspectRatio="none",
    )
