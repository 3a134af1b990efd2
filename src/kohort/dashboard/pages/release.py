"""A release as a rail of steps, with both versions beside each other."""

from collections.abc import Collection
from datetime import datetime

from kohort.dashboard.html import Child, Html, tag
from kohort.dashboard.pages import release_words
from kohort.dashboard.pages.analysis import analysis_section
from kohort.dashboard.pages.elements import (
    BAD,
    BUSY,
    OK,
    QUIET,
    code,
    countdown,
    diff_lines,
    hidden,
    names,
    pill,
    section,
    workload_path,
)
from kohort.dashboard.pages.set import group_grid, head_section, pod_table
from kohort.dashboard.release_page import RailStep, ReleasedVersion, ReleasePage, StepPlace
from kohort.dashboard.view import Section
from kohort.inspection.readable_amounts import duration_text
from kohort.objects.counted_nouns import counted_of

_PLACES = {StepPlace.DONE: "done", StepPlace.CURRENT: "current step", StepPlace.NEXT: "to come"}


def release_sections(page: ReleasePage, act: Collection[str]) -> tuple[Section, ...]:
    sections = [head_section(page.set, "release"), _rail(page, act)]
    if page.analyses:
        sections.append(analysis_section(page.analyses))
    sections.append(_versions(page))
    if page.difference:
        sections.append(section("difference", "What changes in the template", diff_lines(page.difference)))
    return tuple(sections)


def _rail(page: ReleasePage, act: Collection[str]) -> Section:
    steps = [_step(one, page, act) for one in page.steps]
    more = tag("span", "Rollout ", code(page.rollout), f", {page.style} ", _state(page))
    message = tag("p", _message(page), class_="quiet-text after") if _message(page) else None
    return section("rail", "Steps", tag("ol", *steps, class_="rail"), message, _actions(page, act), more=more)


def _state(page: ReleasePage) -> Html:
    release = page.release
    if release is None:
        return pill(f"{page.phase or 'not started'}: nothing is released now", QUIET)
    if not release.step:
        return pill(release_words.place(release), BUSY)
    tone = BAD if page.set.stopped else QUIET if release.paused else BUSY
    return pill(f"step {release.step} {release_words.state(release, stopped=page.set.stopped)}", tone)


def _message(page: ReleasePage) -> str:
    """What the Rollout says, unless the page says it already: in the step that waits, or beside its charts."""
    release = page.release
    if release is None or release.paused or release.waits_for_approval or page.pause_ends:
        return ""
    return "" if any(one.step == release.step for one in page.analyses) else release.message


def _step(step: RailStep, page: ReleasePage, act: Collection[str]) -> Html:
    release = page.release
    share = f" ({step.replicas_asked})" if step.replicas_asked.endswith("%") else ""
    lines: list[Child] = [
        tag("h3", f"Step {step.number}", hidden(f", {_PLACES[step.place]}")),
        tag("p", counted_of(step.groups, page.set.wanted, page.set.noun), share),
    ]
    if step.traffic:
        seen: Child = None
        if step.place is StepPlace.CURRENT and release is not None and release.traffic_observed is not None:
            seen = tag("span", f"{release.traffic_observed}% observed", class_="sub")
        lines.append(tag("p", f"{step.traffic} of requests", seen))
    lines += [tag("p", code(one), class_="match") for one in step.matches]
    lines.append(tag("p", *_pause(step, page), class_="quiet-text"))
    jumps = "approve" in act and release is not None and release.step and step.place is not StepPlace.CURRENT
    if step.place is StepPlace.NEXT and not page.jumps_forward:
        jumps = False  # Its analysis holds the step: only an override leads on.
    if jumps:
        lines.append(tag("p", tag("a", f"Go to step {step.number}…", href=_address(page, "approve", step.number))))
    is_current = step.place is StepPlace.CURRENT
    return tag("li", *lines, class_=f"step {step.place}", aria_current="step" if is_current else None)


def _pause(step: RailStep, page: ReleasePage) -> list[Child]:
    release = page.release
    if step.place is StepPlace.CURRENT and release is not None and release.paused:
        return ["held until the release is resumed"]
    if step.place is StepPlace.CURRENT and page.pause_ends:
        ends = datetime.fromisoformat(page.pause_ends).timestamp()
        left = release.pause_seconds_left if release is not None else 0
        return ["goes on by itself, ", countdown(left or 0, ends)]
    if step.place is StepPlace.DONE:
        return ["done"]
    if step.waits_for_approval:
        return ["waits for approval"]
    if step.pause_seconds is not None:
        return [f"waits {duration_text(step.pause_seconds)}"]
    return ["then the release ends" if step.number == len(page.steps) else "goes on at once"]


def _address(page: ReleasePage, verb: str, step: int | None = None, **more: str) -> str:
    query = [("step", str(step) if step is not None else ""), *more.items()]
    return workload_path(page.set.kind, page.set.namespace, page.set.name, "actions", verb, query=query)


def _actions(page: ReleasePage, act: Collection[str]) -> Html | None:
    release = page.release
    if release is None or not act:
        return None
    links: list[Child] = []
    if "approve" in act:
        if release.waits_for_approval or release.pause_seconds is not None:
            links.append(tag("a", "Approve…", href=_address(page, "approve"), class_="button"))
        if page.overridable:
            href = _address(page, "approve", override="1")
            links.append(tag("a", "Go on in spite of it…", href=href, class_="button plain"))
        elif page.jumps_forward:
            href = _address(page, "approve", full="1")
            links.append(tag("a", "Go to the last step…", href=href, class_="button plain"))
    if "retry" in act and page.set.stopped:
        links.append(tag("a", "Judge again…", href=_address(page, "retry"), class_="button plain"))
    verb = "resume" if release.paused else "pause"
    if verb in act:
        links.append(tag("a", f"{verb.capitalize()}…", href=_address(page, verb), class_="button plain"))
    if "abort" in act:
        links.append(tag("a", "Abort…", href=_address(page, "abort"), class_="button danger"))
    return tag("p", *links, class_="actions")


def _versions(page: ReleasePage) -> Section:
    noun, size = page.set.noun, page.set.size
    columns = [_version("Stable", page.stable, OK, noun, size)] if page.stable is not None else []
    if page.new is not None:
        columns.append(_version("New", page.new, BUSY, noun, size))
    body: Child = (
        tag("div", *columns, class_="versions") if columns else tag("p", "No version is known.", class_="empty")
    )
    return section("versions", "Versions", body)


def _version(title: str, version: ReleasedVersion, tone: str, noun: str, size: int) -> Html:
    traffic = f", {version.traffic}% of requests" if version.traffic is not None else ""
    where: list[Child] = [f"{counted_of(version.ready, version.wanted, noun)} ready in ", code(version.name), traffic]
    if not version.wanted and not version.ready:
        where = [f"no {noun}s yet"]
    facts = [
        tag(
            "h3", f"{title} ", pill(f"revision {version.revision}" if version.revision else "not a revision yet", tone)
        ),
        tag("p", names(version.images)),
        tag("p", *where),
        _share(version.traffic) if version.traffic is not None else None,
    ]
    grid = (
        group_grid(version.groups, f"{title.lower()}-", size)
        if noun == "group"
        else pod_table(f"Pods of the {title.lower()} version", version.pods, frozenset())
    )
    return tag("div", *facts, grid, class_="version")


def _share(percent: int) -> Html:
    back = tag("rect", x="0", y="0", width="100", height="4", class_="open")
    front = tag("rect", x="0", y="0", width=str(percent), height="4", class_="full")
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
