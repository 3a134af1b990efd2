"""The pages of one set: groups, explanation, resources, history, events, logs."""

from collections.abc import Collection, Sequence

from kohort.dashboard.container_amounts import DRIFT_WORDS, Amount, ContainerAmounts
from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.pages.elements import (
    BAD,
    BUSY,
    OK,
    QUIET,
    age_of,
    code,
    command_line,
    diff_lines,
    hidden,
    names,
    pill,
    ready_bar,
    row,
    section,
    set_path,
    table,
    tone_of_cause,
    tone_of_state,
)
from kohort.dashboard.set_page import EventsPage, FailuresPage, HistoryPage, LogsPage, SetHead, SetPage
from kohort.dashboard.view import Section
from kohort.groups.failure_evidence import GroupFailure
from kohort.inspection.advice import Advice
from kohort.inspection.cause import Cause
from kohort.inspection.failures import container_text
from kohort.inspection.history import Entry
from kohort.inspection.tree import GroupBranch, PodBranch, SetTree, age_text

TABS: Sequence[tuple[str, str]] = (
    ("", "Overview"),
    ("history", "History"),
    ("events", "Events"),
    ("logs", "Logs"),
    ("failures", "Failures"),
    ("release", "Release"),
    ("resize", "Resize"),
)


def head_section(head: SetHead, tab: str) -> Section:
    """Name, state and tabs: the same above each page of a set."""
    crumbs = tag(
        "p",
        tag("a", "Fleet", href=path("")),
        " / ",
        tag("a", head.namespace, href=path("", query=[("namespace", head.namespace)])),
        class_="crumbs",
    )
    title = tag(
        "div",
        tag("h1", head.name),
        pill(head.state, BAD if head.failing else tone_of_state(head.state)),
        _marks(head),
        class_="title",
    )
    surge = f" +{head.surge} surge" if head.surge else ""
    facts: list[tuple[str, Child]] = [
        ("Groups ready", [f"{head.ready} of {head.wanted}{surge} ", ready_bar(head.ready, head.wanted, head.surge)]),
        ("Up to date", f"{head.updated} of {head.wanted}"),
        ("Pods per group", head.size),
        ("Revision", [f"{head.revision or '?'} ", tag("span", head.revision_key, class_="mono quiet-text")]),
        ("Image", names(head.images)),
        ("Age", age_text(head.age_seconds)),
    ]
    listed = tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")
    tabs = [
        tag(
            "a",
            text,
            href=set_path(head.namespace, head.name, *([name] if name else [])),
            aria_current=_current(name, tab),
        )
        for name, text in TABS
        if _has_tab(head, name)
    ]
    edit = path("what-if", query=[("set", f"{head.namespace}/{head.name}")])
    tabs.append(tag("a", "What if…", href=edit))
    nav = tag("nav", *tabs, class_="tabs", aria_label=f"Pages of {head.name}")
    return Section("set-head", tag("div", crumbs, title, listed, nav, id="set-head", class_="set-head"))


def _current(name: str, tab: str) -> str | None:
    return "page" if name == tab else None


def _has_tab(head: SetHead, name: str) -> bool:
    return {"release": head.releasing}.get(name, True)


def _marks(head: SetHead) -> list[Child]:
    marks: list[Child] = []
    if head.paused:
        marks.append(pill("paused", QUIET))
    if head.resizing:
        marks.append(pill("resizing", BUSY))
    return marks


def set_sections(page: SetPage, causes: Sequence[Cause], act: Collection[str]) -> tuple[Section, ...]:
    """`act` are the verbs whose commands the user may carry out from the page."""
    return (
        head_section(page.set, ""),
        _explanation(page, causes, act),
        _groups(page.groups, _troubled(causes)),
        _resources(page.resources),
    )


# Explanation


def _explanation(page: SetPage, causes: Sequence[Cause], act: Collection[str]) -> Section:
    if not causes:
        body: Child = tag("p", pill("Everything is as wanted", OK))
    else:
        body = tag("ol", *(_cause(page.set, one, act) for one in causes), class_="causes")
    restarted: Child = None
    if page.restarted:
        lines = tag("ul", *(tag("li", one) for one in page.restarted), class_="plain-list")
        restarted = [tag("h3", "Restarted in the last 10 minutes"), lines]
    hint = tag("span", code(f"kohort explain {page.set.name} -n {page.set.namespace}"), class_="quiet-text")
    return section("explanation", "Explanation", body, restarted, more=hint)


def _cause(head: SetHead, cause: Cause, act: Collection[str]) -> Html:
    first, *others = cause.objects
    more = f" and {len(others)} more" if others else ""
    what = tag("p", tag("span", cause.kind, class_=f"kind {tone_of_cause(cause.kind)}"), " ", code(first), f"{more}")
    words, labels = _advice(cause.action)
    todo = tag("p", tag("span", "→ ", aria_hidden="true"), words, class_="todo") if words else None
    commands = []
    for one, label in zip(cause.action.commands, labels, strict=True):
        verb = one.verb.value.split()[0]
        run: Child = None
        if verb in act:
            query = _options(one.options)
            address = path("sets", head.namespace, head.name, "actions", verb, query=query)
            run = tag("a", f"{verb.capitalize()}…", href=address, class_="button")
        commands.append(
            tag("li", run, tag("span", f"{label}: ", class_="todo") if label else None, command_line(one.text))
        )
    listed = tag("ul", *commands, class_="commands") if commands else None
    return tag(
        "li", what, tag("p", cause.found, class_="found"), todo, listed, class_=f"cause {tone_of_cause(cause.kind)}"
    )


def _advice(advice: Advice) -> tuple[str, list[str]]:
    """The words of an advice, and what is said before each of its commands.

    >>> from kohort.inspection.advice import Command, Verb
    >>> both = (Command(Verb.APPROVE, "llm", ""), Command(Verb.ABORT, "llm", ""))
    >>> _advice(Advice("wait; go on: {}; or go back: {}", both))
    ('wait', ['go on', 'or go back'])
    """
    if not advice.commands:
        return advice.template, []
    *before, after = advice.template.split("{}")
    first, _, label = before[0].rpartition(";")
    labels = [label, *before[1:]]
    words = "; ".join(filter(None, (first.strip(), after.strip(" ;"))))
    return words, [one.strip(" ;:") for one in labels]


def _options(options: Sequence[str]) -> list[tuple[str, str]]:
    """`--group 1` as a query."""
    pairs = zip(options[::2], options[1::2], strict=False)
    return [(name.removeprefix("--"), value) for name, value in pairs]


def _troubled(causes: Sequence[Cause]) -> frozenset[str]:
    """Names of objects with a cause that is an error."""
    return frozenset(name for one in causes if tone_of_cause(one.kind) == BAD for name in one.objects)


# Groups


def _groups(tree: SetTree, troubled: frozenset[str]) -> Section:
    legend = tag(
        "p",
        *(tag("span", tag("span", class_=f"swatch {tone}", aria_hidden="true"), text) for tone, text in _LEGEND),
        class_="legend",
    )
    grids: list[Child] = [group_grid(tree.groups, troubled, "")]
    if tree.canary is not None:
        grids += [tag("h3", f"New version: {tree.canary.name}"), group_grid(tree.canary.groups, troubled, "canary-")]
    return section("groups", "Groups", *grids, more=legend)


_LEGEND = (("ok", "ready"), ("busy", "starting"), ("bad", "failing"), ("missing", "missing"))


def group_grid(groups: Sequence[GroupBranch], troubled: frozenset[str], prefix: str) -> Html:
    if not groups:
        return tag("p", "No groups.", class_="empty")
    return tag("ul", *(_cell(one, troubled, prefix) for one in groups), class_="grid")


def _cell(group: GroupBranch, troubled: frozenset[str], prefix: str) -> Html:
    tone = group_tone(group, troubled)
    marks = [tag("span", "surge", class_="tag")] if group.surge else []
    if group.old:
        marks.append(tag("span", "old", class_="tag"))
    revision = tag("span", f"rev {group.revision or '?'}", class_="quiet-text") if group.revision_key else None
    state = hidden(", ready" if group.ready else ", not ready")
    top = tag("div", tag("h3", f"Group {group.index}", state), *marks, revision, class_="cell-top")
    pods = [_square(one, troubled) for one in group.pods]
    pods += [tag("li", hidden("missing pod"), class_="pod missing") for _ in range(group.missing)]
    nodes = sorted({one.node for one in group.pods if one.node})
    restarts = sum(one.restarts for one in group.pods)
    words = [nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else "no node yet"]
    if restarts:
        words.append(f"{restarts} restart{'s' if restarts > 1 else ''}")
    table_of_pods = table(
        f"Pods of group {group.index}",
        ("Pod", "Node", "State", "Restarts", "Age"),
        [_pod_row(one, troubled) for one in group.pods],
    )
    summary = tag("summary", ", ".join(words))
    details = tag("details", summary, table_of_pods, id=f"{prefix}group-{group.index}-pods")
    classes = f"cell {tone}" + (" surge" if group.surge else "") + (" old" if group.old else "")
    return tag("li", top, tag("ul", *pods, class_="pods"), details, class_=classes)


def group_tone(group: GroupBranch, troubled: frozenset[str]) -> str:
    if group.ready:
        return OK
    return BAD if any(one.name in troubled for one in group.pods) else BUSY if group.pods else QUIET


def _tone(pod: PodBranch, troubled: frozenset[str]) -> str:
    return OK if pod.ready else BAD if pod.name in troubled else BUSY


def _square(pod: PodBranch, troubled: frozenset[str]) -> Html:
    words = f"{pod.name}, {pod.role}, {pod.state}"
    return tag("li", hidden(words), class_=f"pod {pod.role} {_tone(pod, troubled)}", title=words)


def _pod_row(pod: PodBranch, troubled: frozenset[str]) -> Html:
    name = [code(pod.name), tag("span", pod.role, class_="sub")]
    state = pill(pod.state if len(pod.state) < 40 else pod.state[:37] + "…", _tone(pod, troubled))
    return row(name, pod.node or "–", tag("span", state, title=pod.state), pod.restarts, age_of(pod.age_seconds))


# Resources


def _resources(lines: Sequence[ContainerAmounts]) -> Section:
    rows = [
        _amount_row(line, one, sides, first=number == 0)
        for line in lines
        for number, (one, sides) in enumerate(_by_resource(line.amounts))
    ]
    if not rows:
        return section("resources", "Resources", tag("p", "Containers ask for no resources.", class_="empty"))
    drifting = any(line.drifts for line in lines)
    words = pill("drift", BUSY) if drifting else pill("no drift", OK)
    head = ("Container", "Resource", "Template", "Desired", "Allocated", "Actual", "Drift")
    return section("resources", "Resources", table("Resources of containers", head, rows), more=words)


def _by_resource(amounts: Sequence[Amount]) -> list[tuple[Amount, str]]:
    """A limit that is equal to its request everywhere shares its row."""
    found: list[tuple[Amount, str]] = []
    limits = {one.resource: one for one in amounts if one.side == "limit"}
    for one in (each for each in amounts if each.side == "request"):
        limit = limits.get(one.resource)
        if limit is not None and _values(one) == _values(limit) and not one.drift and not limit.drift:
            found.append((one, "request, limit"))
            del limits[one.resource]
        else:
            found.append((one, "request"))
            found += [(limits.pop(one.resource), "limit")] if limit is not None else []
    return found + [(one, "limit") for one in limits.values()]


def _values(amount: Amount) -> tuple[str, str, str]:
    return amount.template, amount.desired, amount.actual


def _amount_row(line: ContainerAmounts, amount: Amount, sides: str, *, first: bool) -> Html:
    counts = [_counted(line.leaders, "leader"), _counted(line.workers, "worker")]
    names_of_pods = ", ".join((*line.leaders, *line.workers))
    pods = tag("span", ", ".join(filter(None, counts)), class_="sub", title=names_of_pods)
    who: Child = [code(line.container), pods] if first else None
    words = "; ".join(DRIFT_WORDS[one] for one in amount.drift)
    drift = pill(words, BUSY) if words else tag("span", "–", class_="quiet-text")
    values = [amount.template, amount.desired, amount.allocated, amount.actual]
    shown = [tag("span", one or "–", class_="mono") for one in values]
    return row(who, [amount.resource, tag("span", sides, class_="sub")], *shown, drift)


def _counted(names_of_pods: Sequence[str], noun: str) -> str:
    count = len(names_of_pods)
    return f"{count} {noun}{'s' if count > 1 else ''}" if count else ""


# History


def history_sections(page: HistoryPage, act: Collection[str]) -> tuple[Section, ...]:
    head = page.set
    rows = [_entry(head, one, page, act) for one in page.revisions]
    columns = ("Revision", "Groups", "Served", "Images", "Age", "Change cause", "Compare")
    listed = section("revisions", "Revisions", table("Revisions", columns, rows))
    if not page.before:
        return head_section(head, "history"), listed
    title = f"From revision {page.before} to revision {page.after}"
    body = diff_lines(page.difference) if page.difference else tag("p", "They are the same.", class_="empty")
    return head_section(head, "history"), listed, section("difference", title, body)


def _entry(head: SetHead, one: Entry, page: HistoryPage, act: Collection[str]) -> Html:
    number = [tag("strong", one.revision), " ", pill("current", OK) if one.current else None]
    groups = ", ".join(map(str, one.groups)) or "–"
    links: list[Child] = []
    if not one.current:
        compare = set_path(head.namespace, head.name, "history") + f"?from={one.revision}"
        links.append(tag("a", "with the current one", href=compare))
        if "undo" in act:
            address = path("sets", head.namespace, head.name, "actions", "undo", query=[("to", str(one.revision))])
            links += [" · ", tag("a", "Return to it…", href=address)]
    return row(
        [*number, tag("span", one.key, class_="sub mono")],
        groups,
        one.served,
        names(one.images),
        age_of(one.age_seconds),
        one.change_cause or "–",
        links or "–",
        id=f"revision-{one.revision}",
    )


# Events


def events_sections(page: EventsPage) -> tuple[Section, ...]:
    items = []
    for one in page.events:
        tone = BAD if one.type == "Warning" else QUIET
        times = f" ×{one.count}" if one.count > 1 else ""
        top = [
            tag("time", f"{age_text(one.age_seconds)} ago", datetime=one.when, class_="age"),
            tag("strong", one.reason),
            tag("span", f"{one.kind} ", code(one.object), times, class_="quiet-text"),
        ]
        items.append(tag("li", tag("p", *top, class_="event-top"), tag("p", one.message), class_=f"event {tone}"))
    body: Child = tag("ol", *items, class_="timeline") if items else tag("p", "No events are kept.", class_="empty")
    more = tag("span", f"{page.left_off} older ones are left out", class_="quiet-text") if page.left_off else None
    return head_section(page.set, "events"), section("events", "Events", body, more=more)


# Failures


def failures_sections(page: FailuresPage) -> tuple[Section, ...]:
    if not page.failures:
        words = (
            "No group has failed."
            if page.kept
            else "Failures are kept for sets with a restartBudget; this set has none."
        )
        return head_section(page.set, "failures"), section("failures", "Failures", tag("p", words, class_="empty"))
    items = [_failure(one, number) for number, one in enumerate(page.failures)]
    return head_section(page.set, "failures"), section("failures", "Failures", tag("ol", *items, class_="timeline"))


def _failure(failure: GroupFailure, number: int) -> Html:
    held = pill("held", BAD) if failure.held else pill("restarted", QUIET)
    top = tag("p", tag("time", failure.at, datetime=failure.at, class_="age"), tag("strong", f"Group {failure.group}"))
    reason = tag("p", failure.reason, " ", held)
    pods = []
    for pod in failure.pods:
        place = f" on {pod.node}" if pod.node else ""
        lines = [tag("p", code(pod.pod), f"{place} {pod.note}".rstrip())]
        for one in pod.containers:
            lines.append(tag("p", container_text(one)))
            if one.log:
                log = tag("pre", one.log, class_="diff plan", tabindex="0", aria_label=f"Log of {one.container}")
                lines.append(
                    tag("details", tag("summary", "Log"), log, id=f"failure-{number}-{pod.pod}-{one.container}")
                )
            lines += [tag("p", one.log_note, class_="quiet-text")] if one.log_note else []
        lines += [tag("p", text, class_="quiet-text") for text in pod.events]
        pods.append(tag("div", *lines, class_="write"))
    return tag("li", top, reason, *pods, class_=f"event {BAD if failure.held else QUIET}")


# Logs


def logs_sections(page: LogsPage, most: int) -> tuple[Section, ...]:
    head = page.set
    groups = [tag("option", "All groups", value="")]
    groups += [tag("option", f"Group {one}", value=str(one), selected=one == page.group) for one in page.groups]
    containers = [tag("option", "First container", value="")]
    containers += [tag("option", one, value=one, selected=one == page.container) for one in page.containers]
    form = tag(
        "form",
        tag(
            "div",
            tag("label", "Group", for_="log-group"),
            tag("select", *groups, name="group", id="log-group"),
            class_="field",
        ),
        tag(
            "div",
            tag("label", "Container", for_="log-container"),
            tag("select", *containers, name="container", id="log-container"),
            class_="field",
        ),
        tag("button", "Show", type="submit"),
        method="get",
        action=set_path(head.namespace, head.name, "logs"),
        class_="filters",
    )
    query = [("group", "" if page.group is None else str(page.group)), ("container", page.container)]
    stream = path("sets", head.namespace, head.name, "log-stream", query=query)
    lines = tag(
        "pre",
        id="log-lines",
        class_="log",
        tabindex="0",
        role="log",
        aria_label=f"Logs of {head.name}",
        data_stream=stream,
        data_most="2000",
    )
    note = f"Only the first {most} of {len(page.pods)} pods: choose a group." if len(page.pods) > most else ""
    return head_section(head, "logs"), section(
        "logs", "Logs", form, tag("p", note, class_="empty") if note else None, lines
    )
