"""What a drain of a node would do."""

from kohort.dashboard.html import Child, path, tag
from kohort.dashboard.pages.elements import (
    BAD,
    BUSY,
    NOTHING,
    OK,
    code,
    command_line,
    pill,
    section,
    set_path,
    table,
)
from kohort.dashboard.view import Section
from kohort.inspection.drain_forecast import DrainedGroup, DrainForecast, blocked_others, conditions_of, drain_notes
from kohort.objects.counted_nouns import counted

_COLUMNS = ("When", "Group", "Pods on the node", "Recreated with them", "Remarks")


def drain_sections(forecast: DrainForecast, *, partial: bool) -> tuple[Section, ...]:
    pods = sum(len(one.pods) for one in forecast.groups)
    taken = [f"{counted(pods, 'pod')} of {counted(len(forecast.groups), 'group')}"] if pods else []
    taken += [counted(len(forecast.others), "other pod")] if forecast.others else []
    words = " and ".join(taken) or "no pods"
    head = tag(
        "div",
        tag("p", tag("a", "Nodes", href=path("nodes")), class_="crumbs"),
        tag("h1", f"Drain of {forecast.node}"),
        tag("p", f"It would take {words}. Nothing is changed.", class_="quiet-text"),
        id="drain-head",
    )
    state = pill("the drain ends", OK)
    if not forecast.ends:
        state = pill("the drain does not end", BAD)
    elif partial or forecast.budgets_unknown_in:
        state = pill("the drain ends, as far as you may see", BUSY)
    body: Child = tag("p", "No group has pods on this node.", class_="empty")
    if forecast.groups:
        body = table("Groups, in their turn", _COLUMNS, [_cells(one) for one in forecast.groups])
    others = None
    if forecast.others:
        others = tag("p", "Other pods: ", ", ".join(forecast.others), class_="quiet-text after")
    notes = [
        tag("p", f"{name} never goes: {words}", class_="after") for name, words in blocked_others(forecast).items()
    ]
    notes += [tag("p", f"{one[:1].upper()}{one[1:]}", class_="after") for one in drain_notes(forecast)]
    if partial:
        notes.append(tag("p", "Only pods that you may see are counted.", class_="quiet-text after"))
    command = tag("p", command_line(f"kohort plan --drain {forecast.node}"), class_="after")
    made = section("drain", "What goes, and when", body, others, *notes, command, more=state)
    return Section("drain-head", head), made


def _cells(group: DrainedGroup) -> list[Child]:
    when: Child = pill("never", BAD)
    if group.turn is not None:
        when = tag("span", "at once" if group.turn == 1 else f"as number {group.turn}", class_="nowrap")
    where = f"{set_path(group.namespace, group.set)}#group-{group.group}"
    name = tag("a", tag("span", f"{group.namespace}/", class_="quiet-text"), group.set, href=where)
    return [
        when,
        [name, tag("span", f"group {group.group}", class_="sub")],
        [code(", ".join(group.pods))],
        [code(", ".join(group.recreated))] if group.recreated else NOTHING,
        "; ".join(conditions_of(group)) or NOTHING,
    ]
