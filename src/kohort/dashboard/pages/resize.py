"""A resize in place as it runs."""

from collections.abc import Collection, Mapping

import msgspec

from kohort.dashboard.html import Child, Html, tag
from kohort.dashboard.pages.elements import (
    BAD,
    BUSY,
    NOTHING,
    OK,
    QUIET,
    code,
    moment,
    pill,
    section,
    set_path,
    table,
)
from kohort.dashboard.pages.set import head_section
from kohort.dashboard.resize_page import GroupResize, PodResizeRow, PodResizeState, ResizePage
from kohort.dashboard.set_page import groups_at_once
from kohort.dashboard.view import Section
from kohort.objects.counted_nouns import counted
from kohort.objects.quantity import Quantity

_POD_STATES: Mapping[PodResizeState, tuple[str, str]] = {
    PodResizeState.SETTLED: ("as desired", OK),
    PodResizeState.RUNNING: ("being resized", BUSY),
    PodResizeState.PENDING: ("deferred by its node", BUSY),
    PodResizeState.INFEASIBLE: ("can never fit its node", BAD),
    PodResizeState.FAILING: ("failing", BAD),
}
_PHASE_TONES: Mapping[str, str] = {"Resizing": BUSY, "Reverting": BAD, "Reverted": BAD, "Recreate": BAD}


def resize_sections(page: ResizePage, act: Collection[str] = ()) -> tuple[Section, ...]:
    """`act` are the verbs that the page offers."""
    return head_section(page.set, "resize"), _transaction(page, act), _groups(page)


def _transaction(page: ResizePage, act: Collection[str]) -> Section:
    policy = tag("span", "resourceUpdatePolicy ", code(page.policy), class_="quiet-text")
    progress = page.progress
    if progress is None:
        words = "No resize is under way. A change of cpu or memory in the template is carried out "
        how = "in place on running pods." if page.policy != "Recreate" else "by recreating groups."
        offer = _actions(page, ("resize",), act)
        return section("transaction", "Resize", tag("p", words, how, class_="empty"), offer, more=policy)
    tiles = [
        tag("li", tag("span", str(value), class_="number"), tag("span", name, class_="label"), class_="tile")
        for name, value in msgspec.structs.asdict(progress.groups).items()
    ]
    state = progress.state if progress.reason in ("", progress.state) else f"{progress.state}: {progress.reason}"
    body: list[Child] = [
        tag("p", pill(state, BAD if progress.stopped else BUSY), " since ", moment(progress.started_at)),
        tag("ul", *tiles, class_="tiles"),
        tag("p", progress.message, class_="after"),
        _actions(page, ("retry", "resize", "undo") if progress.stopped else ("undo",), act),
    ]
    return section("transaction", "Resize", *body, more=policy)


def _actions(page: ResizePage, offered: Collection[str], act: Collection[str]) -> Child:
    links = [
        tag(
            "a",
            f"{verb.capitalize()}…",
            href=set_path(page.set.namespace, page.set.name, "actions", verb),
            class_="button danger" if verb == "undo" else "button",
        )
        for verb in offered
        if verb in act
    ]
    return tag("p", *links, class_="actions") if links else None


def _groups(page: ResizePage) -> Section:
    """Groups that something happens with come first where not all of them fit."""
    most = groups_at_once(page.set.size)
    fits = len(page.groups) <= most
    shown = page.groups if fits else sorted(page.groups, key=lambda one: (not one.phase, one.adopted))[:most]
    resizing = page.progress is not None
    rows = [
        _cells(group, pod, first=number == 0, resizing=resizing)
        for group in shown
        for number, pod in enumerate(group.pods)
    ]
    if not rows:
        return section("resize-pods", "Pods", tag("p", "No pods.", class_="empty"))
    left = len(page.groups) - len(shown)
    more = tag("span", f"{counted(left, 'more group')}: as JSON", class_="quiet-text") if left else None
    columns = ("Group", "Pod", "Node", "CPU", "Memory", "State", "Message")
    return section("resize-pods", "Pods", table("Pods", columns, rows), more=more)


def _cells(group: GroupResize, pod: PodResizeRow, *, first: bool, resizing: bool) -> list[Child]:
    about: Child = None
    if first:
        reason = tag("span", f"{group.reason} {group.message}".strip(), class_="sub") if group.reason else None
        about = [f"Group {group.index} ", _phase(group) if resizing or group.phase else None, reason]
    name = [code(pod.pod), tag("span", pod.role, class_="sub")]
    amounts = pod.resources
    actual = amounts.actual or amounts.allocated
    cpu = _change(actual.cpu if actual is not None else "", amounts.desired.cpu)
    memory = _change(actual.memory if actual is not None else "", amounts.desired.memory)
    waits = resizing and not group.phase and not group.adopted and pod.state is PodResizeState.SETTLED
    words, tone = ("not begun", QUIET) if waits else _POD_STATES[pod.state]
    return [about, name, pod.node or NOTHING, cpu, memory, pill(words, tone), pod.message or NOTHING]


def _phase(group: GroupResize) -> Html:
    if group.phase:
        return pill(group.phase, _PHASE_TONES.get(group.phase, QUIET))
    return pill("done", OK) if group.adopted else pill("waits for its turn", QUIET)


def _change(actual: str, desired: str) -> Child:
    """What a pod has, and what it is to get where that differs."""
    if not desired:
        return NOTHING
    if not actual or Quantity.parse(actual) == Quantity.parse(desired):
        return tag("span", desired, class_="mono")
    return tag("span", actual, " → ", tag("strong", desired), class_="mono")
