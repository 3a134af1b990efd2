"""A resize in place as it runs."""

from collections.abc import Mapping

import msgspec

from kohort.dashboard.html import Child, Html, tag
from kohort.dashboard.pages.elements import BAD, BUSY, OK, QUIET, code, pill, row, section, table
from kohort.dashboard.pages.set import head_section
from kohort.dashboard.resize_page import GroupResize, PodResize, ResizePage
from kohort.dashboard.view import Section

_POD_TONES: Mapping[str, str] = {"Settled": OK, "Running": BUSY, "Pending": BUSY, "Infeasible": BAD, "Failing": BAD}
_PHASE_TONES: Mapping[str, str] = {"Resizing": BUSY, "Reverting": BAD, "Reverted": BAD, "Recreate": BAD}


def resize_sections(page: ResizePage) -> tuple[Section, ...]:
    return head_section(page.set, "resize"), _transaction(page), _groups(page)


def _transaction(page: ResizePage) -> Section:
    policy = tag("span", "resourceUpdatePolicy ", code(page.policy), class_="quiet-text")
    progress = page.progress
    if progress is None:
        words = "No resize is under way. A change of cpu or memory in the template is carried out "
        how = "in place on running pods." if page.policy != "Recreate" else "by recreating groups."
        return section("transaction", "Resize", tag("p", words, how, class_="empty"), more=policy)
    tiles = [
        tag("li", tag("span", str(value), class_="number"), tag("span", name, class_="label"), class_="tile")
        for name, value in msgspec.structs.asdict(progress.groups).items()
    ]
    state = progress.state if progress.reason in ("", progress.state) else f"{progress.state}: {progress.reason}"
    body: list[Child] = [
        tag("p", pill(state, BAD if progress.stopped else BUSY), f" since {progress.started_at}"),
        tag("ul", *tiles, class_="tiles"),
        tag("p", progress.message, class_="after"),
    ]
    return section("transaction", "Resize", *body, more=policy)


def _groups(page: ResizePage) -> Section:
    rows = [_row(group, pod, first=number == 0) for group in page.groups for number, pod in enumerate(group.pods)]
    if not rows:
        return section("resize-pods", "Pods", tag("p", "No pods.", class_="empty"))
    return section("resize-pods", "Pods", table("Pods", ("Group", "Pod", "Node", "State", "Message"), rows))


def _row(group: GroupResize, pod: PodResize, *, first: bool) -> Html:
    about: Child = None
    if first:
        phase = pill(group.phase, _PHASE_TONES.get(group.phase, QUIET)) if group.phase else None
        mark = pill("adopted", OK) if group.adopted and not group.phase else None
        reason = tag("span", f"{group.reason} {group.message}".strip(), class_="sub") if group.reason else None
        about = [f"Group {group.index} ", phase or mark, reason]
    name = [code(pod.pod), tag("span", pod.role, class_="sub")]
    return row(about, name, pod.node or "–", pill(pod.state, _POD_TONES[pod.state]), pod.message or "–")
