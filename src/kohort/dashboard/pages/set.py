"""The pages of one set: groups, explanation, resources, history, events, logs."""

from collections.abc import Collection, Sequence

from kohort.dashboard.cause_errors import ShownCause
from kohort.dashboard.commands import FLAGS, PARAMETERS, VERBS_WITHOUT_GROUPS
from kohort.dashboard.commands import Verb as ActionVerb
from kohort.dashboard.container_amounts import DRIFT_WORDS, Amount, ContainerAmounts
from kohort.dashboard.html import Child, Html, join, path, tag
from kohort.dashboard.pages import release_words
from kohort.dashboard.pages.elements import (
    BAD,
    BUSY,
    NOTHING,
    OK,
    QUIET,
    age_of,
    ago,
    code,
    command_line,
    diff_lines,
    hidden,
    moment,
    names,
    pill,
    ready_bar,
    revision_text,
    section,
    set_path,
    table,
    tone_of_cause,
    tone_of_state,
    workload_path,
)
from kohort.dashboard.set_page import (
    MOST_PODS_AT_ONCE,
    EventsPage,
    FailuresPage,
    HistoryPage,
    LogsPage,
    SetHead,
    SetPage,
    WorkloadPage,
    groups_at_once,
)
from kohort.dashboard.view import Section, SectionPart
from kohort.dashboard.workload_kinds import KINDS
from kohort.groups.failure_evidence import GroupFailure, PodFailure
from kohort.inspection.advice import Advice, Command
from kohort.inspection.advice import Verb as AdvisedVerb
from kohort.inspection.failure_messages import container_text, what_happened
from kohort.inspection.history import HistoryEntry
from kohort.inspection.tree import GroupBranch, PodBranch, age_text
from kohort.objects.counted_nouns import counted

TABS: Sequence[tuple[str, str]] = (
    ("", "Overview"),
    ("history", "History"),
    ("events", "Events"),
    ("logs", "Logs"),
    ("failures", "Failures"),
    ("release", "Release"),
    ("resize", "Resize"),
)


POD_COLUMNS: Sequence[str] = ("Pod", "Node", "State", "Restarts", "Age")


def head_section(head: SetHead, tab: str, act: Collection[str] = ()) -> Section:
    """Name, state and tabs: the same above each page of a set. `act` are the verbs that it offers."""
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
        _marks(head, tab),
        _head_actions(head, act),
        class_="title",
    )
    surge = f" +{head.surge} surge" if head.surge else ""
    bar = ready_bar(head.ready, head.wanted, head.surge, head.noun)
    revision = revision_text(head.revision, releasing=head.release is not None)
    facts: list[tuple[str, Child]] = [
        (f"{head.noun.capitalize()}s ready", [f"{head.ready} of {head.wanted}{surge} ", bar]),
        ("Up to date", f"{head.updated} of {head.wanted}"),
        ("Pods per group", head.size) if head.grouped else ("Kind", head.kind),
        ("Revision", [f"{revision} ", tag("span", head.revision_key, class_="mono quiet-text")]),
        ("Image", names(head.images)),
        ("Age", age_text(head.age_seconds)),
    ]
    listed = tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")
    tabs = [
        tag(
            "a",
            text,
            href=workload_path(head.kind, head.namespace, head.name, *([name] if name else [])),
            aria_current=_current(name, tab),
        )
        for name, text in TABS
        if _has_tab(head, name)
    ]
    if head.grouped:
        edit = path("what-if", query=[("set", f"{head.namespace}/{head.name}")])
        tabs.append(tag("a", "What if…", href=edit))
    nav = tag("nav", *tabs, class_="tabs", aria_label=f"Pages of {head.name}")
    return Section("set-head", tag("div", crumbs, title, listed, nav, id="set-head", class_="set-head"))


def _head_actions(head: SetHead, act: Collection[str]) -> Child:
    links = [
        tag(
            "a",
            f"{verb.capitalize()}…",
            href=workload_path(head.kind, head.namespace, head.name, "actions", verb),
            class_="button plain",
        )
        for verb in ("scale", "resize", "resume" if head.paused else "pause", "restart")
        if verb in act and (head.grouped or verb in VERBS_WITHOUT_GROUPS)
    ]
    return tag("span", *links, class_="head-actions") if links else None


def _current(name: str, tab: str) -> str | None:
    return "page" if name == tab else None


def _has_tab(head: SetHead, name: str) -> bool:
    return {"release": head.releasing, "failures": head.grouped, "resize": head.grouped}.get(name, True)


def _marks(head: SetHead, tab: str) -> list[Child]:
    """What is under way; not on the page that shows it."""
    marks: list[Child] = []
    if head.paused:
        marks.append(pill("paused", QUIET))
    if head.resizing and tab != "resize":
        marks.append(tag("a", pill("resizing", BUSY), href=set_path(head.namespace, head.name, "resize")))
    release = head.release
    if release is not None and tab != "release" and (head.stopped or not release.paused):
        doing = f" {release_words.state(release, stopped=head.stopped)}" if release.step else ""
        words = pill(f"release: {release_words.place(release)}{doing}", BAD if head.stopped else BUSY)
        marks.append(tag("a", words, href=workload_path(head.kind, head.namespace, head.name, "release")))
    return marks


def workload_sections(page: WorkloadPage, causes: Sequence[ShownCause], act: Collection[str]) -> tuple[Section, ...]:
    """Of a workload without groups."""
    troubled = _objects_with_errors(causes)
    tables: list[Child] = [pod_table(f"Pods of {page.set.name}", page.pods.pods, troubled)]
    if page.pods.canary is not None:
        name = page.pods.canary.name
        tables += [tag("h3", f"New version: {name}"), pod_table(f"Pods of {name}", page.pods.canary.pods, troubled)]
    return (
        head_section(page.set, "", act),
        _explanation(page.set, page.restarted, causes, act),
        section("pods", "Pods", *tables),
    )


def pod_table(caption: str, pods: Sequence[PodBranch], troubled: frozenset[str]) -> Html:
    if not pods:
        return tag("p", "No pods.", class_="empty")
    return table(caption, POD_COLUMNS, [_pod_row(one, troubled) for one in pods])


def set_sections(page: SetPage, causes: Sequence[ShownCause], act: Collection[str]) -> tuple[Section, ...]:
    """`act` are the verbs whose commands the user may carry out from the page."""
    return (
        head_section(page.set, "", act),
        _explanation(page.set, page.restarted, causes, act),
        *_groups(page, _objects_with_errors(causes), act),
        resources_section(page.resources),
    )


# Explanation


def _explanation(
    head: SetHead, restarted_lately: Sequence[str], causes: Sequence[ShownCause], act: Collection[str]
) -> Section:
    if not causes:
        body: Child = tag("p", pill("Everything is as wanted", OK))
    else:
        body = tag("ol", *(_cause(head, one, act) for one in causes), class_="causes")
    restarted: Child = None
    if restarted_lately:
        lines = tag("ul", *(tag("li", one) for one in restarted_lately), class_="plain-list")
        restarted = [tag("h3", "Restarted in the last 10 minutes"), lines]
    command = f"kohort explain {KINDS[head.kind].key('', head.name).name} -n {head.namespace}"
    hint = tag("span", code(command), class_="quiet-text")
    return section("explanation", "Explanation", body, restarted, more=hint)


def _cause(head: SetHead, shown: ShownCause, act: Collection[str]) -> Html:
    cause, tone = shown.cause, tone_of_cause(error=shown.error)
    first, *others = cause.objects
    more = f" and {len(others)} more" if others else ""
    what = tag("p", tag("span", cause.kind, class_=f"kind {tone}"), " ", code(first), f"{more}")
    words, labels = _advice(cause.action)
    todo = tag("p", tag("span", "→ ", aria_hidden="true"), words, class_="todo") if words else None
    commands = []
    offered = 0
    for one, label in zip(cause.action.commands, labels, strict=True):
        run: Child = None
        query = _options(one)
        verb = _verb(one)
        if query is not None and verb in act and (head.grouped or verb in VERBS_WITHOUT_GROUPS):
            address = workload_path(head.kind, head.namespace, head.name, "actions", verb, query=query)
            plain = offered or one.verb is AdvisedVerb.OVERRIDE
            word = "Override" if one.verb is AdvisedVerb.OVERRIDE else verb.capitalize()
            run = tag("a", f"{word}…", href=address, class_="button plain" if plain else "button")
            offered += 1
        else:
            run = _page_of_command(head, one)
        commands.append(
            tag("li", run, tag("span", f"{label}: ", class_="todo") if label else None, command_line(one.text))
        )
    listed = tag("ul", *commands, class_="commands") if commands else None
    return tag("li", what, tag("p", cause.found, class_="found"), todo, listed, class_=f"cause {tone}")


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


def _options(command: Command) -> list[tuple[str, str]] | None:
    """The options of a command as a query; None if the dashboard does not have all of them.

    >>> from kohort.inspection.advice import Verb
    >>> _options(Command(Verb.RESIZE, "llm", "", ("--pod", "--cpu", "2")))
    [('pod', '1'), ('cpu', '2')]
    >>> _options(Command(Verb.RESTART, "llm", "", ("--now",)))
    """
    verb, *more = command.verb.value.split()
    if verb not in {one.value for one in ActionVerb}:
        return None
    known = PARAMETERS.get(ActionVerb(verb), ())
    found: list[tuple[str, str]] = []
    words = iter((*more, *command.options))
    for word in words:
        name = word.removeprefix("--")
        if name not in known:
            return None
        found.append((name, "1" if name in FLAGS else next(words, "")))
    return found


def _verb(command: Command) -> str:
    """
    >>> from kohort.inspection.advice import Verb
    >>> _verb(Command(Verb.OVERRIDE, "llm", "")), _options(Command(Verb.OVERRIDE, "llm", ""))
    ('approve', [('override', '1')])
    """
    return command.verb.value.split()[0]


def _page_of_command(head: SetHead, command: Command) -> Html | None:
    """A link to the page that shows what a command prints; None if there is none."""
    query: list[tuple[str, str]] = []
    match command.verb, command.options:
        case AdvisedVerb.LOGS, ("--pod", pod):
            group = pod.removeprefix(f"{head.name}-").split("-")[0]
            query = [("group", group)] if head.grouped and group.isdecimal() else []
            tab = "logs"
        case AdvisedVerb.FAILURES, _:
            tab = "failures"
        case AdvisedVerb.ANALYSIS, _:
            tab = "release"
        case _:
            return None
    address = workload_path(head.kind, head.namespace, head.name, tab, query=query)
    return tag("a", tab.capitalize(), href=address, class_="button plain")


def _objects_with_errors(causes: Sequence[ShownCause]) -> frozenset[str]:
    """Names of objects with a cause that is an error."""
    return frozenset(name for one in causes if one.error for name in one.cause.objects)


# Groups


def _groups(page: SetPage, troubled: frozenset[str], act: Collection[str]) -> tuple[Section, ...]:
    """Large sets have a mark for each group, and pages of groups below it."""
    tree = page.groups
    first, end = (page.page - 1) * page.per_page, page.page * page.per_page
    restart = path("sets", page.set.namespace, page.set.name, "actions", "restart") if "restart" in act else ""
    legend = tag(
        "p",
        *(tag("span", tag("span", class_=f"swatch {tone}", aria_hidden="true"), text) for tone, text in _LEGEND),
        class_="legend",
    )
    cells = [_cell(one, troubled, "", restart) for one in tree.groups[first:end]]
    grids: list[Child] = [_grid(cells)]
    parts = [SectionPart(_cell_id("", one), cell) for one, cell in zip(tree.groups[first:end], cells, strict=True)]
    if tree.canary is not None:
        shown = tree.canary.groups[first:end]
        new = [_cell(one, troubled, "canary-", "") for one in shown]
        grids += [tag("h3", f"New version: {tree.canary.name}"), _grid(new)]
        parts += [SectionPart(_cell_id("canary-", one), cell) for one, cell in zip(shown, new, strict=True)]
    if tree.left_out:
        words = f"{counted(tree.left_out, 'more group')} not created yet."
        grids.append(tag("p", words, class_="empty"))
    grids.append(_pager(page))
    made = section("groups", "Groups", *grids, more=legend)
    drawn = Section(made.id, made.html, tuple(parts))
    return (_all_groups(page, troubled), drawn) if page.pages > 1 else (drawn,)


def _page_of(page: SetPage, number: int) -> str:
    return set_path(page.set.namespace, page.set.name) + f"?page={number}"


def _all_groups(page: SetPage, troubled: frozenset[str]) -> Section:
    marks = []
    for position, group in enumerate(page.groups.groups):
        tone = group_tone(group, troubled)
        number = position // page.per_page + 1
        address = f"{_page_of(page, number)}#{_cell_id('', group)}"
        words = f"Group {group.index}, {'ready' if group.ready else 'not ready'}"
        marks.append(tag("li", tag("a", hidden(words), href=address, class_=f"group-mark {tone}", title=words)))
    ready = sum(one.ready for one in page.groups.groups)
    more = tag("span", f"{ready} of {len(page.groups.groups)} ready", class_="quiet-text")
    return section("all-groups", "All groups", tag("ul", *marks, class_="marks"), more=more)


def _pager(page: SetPage) -> Html | None:
    if page.pages == 1:
        return None
    first = (page.page - 1) * page.per_page
    last = min(first + page.per_page, len(page.groups.groups))
    words = f"groups {first + 1} to {last} of {len(page.groups.groups)}, page {page.page} of {page.pages}"
    links: list[Child] = [tag("span", words, class_="sub")]
    if page.page > 1:
        links.append(tag("a", "Previous", href=_page_of(page, page.page - 1), class_="button plain"))
    if page.page < page.pages:
        links.append(tag("a", "Next", href=_page_of(page, page.page + 1), class_="button plain"))
    return tag("nav", *links, class_="pager", aria_label="Pages of groups")


_LEGEND = (("ok", "ready"), ("busy", "starting"), ("bad", "failing"), ("missing", "missing"))


def group_grid(groups: Sequence[GroupBranch], prefix: str, size: int) -> Html:
    """As many groups as fit on a page that shows more than one grid."""
    most = groups_at_once(size)
    left = len(groups) - most
    more = tag("p", f"{counted(left, 'more group')} on the overview.", class_="empty") if left > 0 else None
    return join(_grid([_cell(one, frozenset(), prefix, "") for one in groups[:most]]), more)


def _grid(cells: Sequence[Html]) -> Html:
    return tag("ul", *cells, class_="grid") if cells else tag("p", "No groups.", class_="empty")


def _cell_id(prefix: str, group: GroupBranch) -> str:
    return f"{prefix}group-{group.index}"


def _cell(group: GroupBranch, troubled: frozenset[str], prefix: str, restart: str) -> Html:
    """`restart` is the address that restarts groups, if the page offers that."""
    tone = group_tone(group, troubled)
    marks = [tag("span", "surge", class_="tag")] if group.surge else []
    if group.old:
        marks.append(tag("span", "old", class_="tag"))
    if group.held:
        marks.append(tag("span", "held", class_="tag", title="Its budget of restarts is used up."))
    elif group.restart_at:
        marks.append(
            tag("span", "restarts soon", class_="tag", title=f"It has failed; recreated at {group.restart_at}")
        )
    revision = tag("span", f"rev {group.revision or '?'}", class_="quiet-text") if group.revision_key else None
    state = hidden(", ready" if group.ready else ", not ready")
    top = tag("div", tag("h3", f"Group {group.index}", state), *marks, revision, class_="cell-top")
    nodes = sorted({one.node for one in group.pods if one.node})
    restarts = sum(one.restarts for one in group.pods)
    words = [nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes" if nodes else "no node yet"]
    if restarts:
        words.append(f"{restarts} restart{'s' if restarts > 1 else ''}")
    table_of_pods = table(
        f"Pods of group {group.index}",
        POD_COLUMNS,
        [_pod_row(one, troubled) for one in group.pods],
    )
    summary = tag("summary", ", ".join(words))
    again: Child = None
    if restart and group.pods:
        link = tag("a", f"Restart group {group.index}…", href=f"{restart}?group={group.index}", class_="button plain")
        again = tag("p", link, class_="after")
    details = tag("details", summary, table_of_pods, again, id=f"{prefix}group-{group.index}-pods")
    classes = f"cell {tone}" + (" surge" if group.surge else "") + (" old" if group.old else "")
    return tag("li", top, _squares(group, troubled), details, id=_cell_id(prefix, group), class_=classes)


def _squares(group: GroupBranch, troubled: frozenset[str]) -> Html:
    """The pods of a group; each subgroup is a box with its number."""
    inside = {name for one in group.subgroups for name in one.pods}
    alone = [_square(one, troubled) for one in group.pods if one.name not in inside]
    alone += _missing(group.missing - sum(one.missing for one in group.subgroups))
    if not group.subgroups:
        return tag("ul", *alone, class_="pods")
    by_name = {one.name: one for one in group.pods}
    boxes = [
        tag(
            "li",
            tag("span", f"Subgroup {one.index}", class_="subgroup-name"),
            tag("ul", *(_square(by_name[name], troubled) for name in one.pods), *_missing(one.missing), class_="pods"),
            class_="subgroup",
        )
        for one in group.subgroups
    ]
    first = tag("li", tag("ul", *alone, class_="pods")) if alone else None
    return tag("ul", first, *boxes, class_="subgroups")


def _missing(count: int) -> list[Html]:
    """At most as many squares as a page has pods; of a larger group, the number is written."""
    squares = [tag("li", hidden("missing pod"), class_="pod missing") for _ in range(min(count, MOST_PODS_AT_ONCE))]
    left = count - len(squares)
    return [*squares, tag("li", f"and {left} more missing", class_="sub")] if left > 0 else squares


def group_tone(group: GroupBranch, troubled: frozenset[str]) -> str:
    if group.ready:
        return OK
    if group.held:
        return BAD
    return BAD if any(one.name in troubled for one in group.pods) else BUSY if group.pods else QUIET


def _status_color(pod: PodBranch, troubled: frozenset[str]) -> str:
    return OK if pod.ready else BAD if pod.name in troubled else BUSY


def _square(pod: PodBranch, troubled: frozenset[str]) -> Html:
    words = f"{pod.name}, {pod.role}, {pod.state}"
    return tag("li", hidden(words), class_=f"pod {pod.role} {_status_color(pod, troubled)}", title=words)


def _pod_row(pod: PodBranch, troubled: frozenset[str]) -> list[Child]:
    role = tag("span", pod.role, class_="sub") if pod.role != "pod" else None
    state = pill(pod.state if len(pod.state) < 40 else pod.state[:37] + "…", _status_color(pod, troubled))
    age = age_of(pod.age_seconds)
    return [[code(pod.name), role], pod.node or NOTHING, tag("span", state, title=pod.state), pod.restarts, age]


# Resources


def resources_section(lines: Sequence[ContainerAmounts]) -> Section:
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


def _amount_row(line: ContainerAmounts, amount: Amount, sides: str, *, first: bool) -> list[Child]:
    counts = [_counted(line.leaders, "leader"), _counted(line.workers, "worker")]
    names_of_pods = ", ".join((*line.leaders, *line.workers))
    pods = tag("span", ", ".join(filter(None, counts)), class_="sub", title=names_of_pods)
    who: Child = [code(line.container), pods] if first else None
    words = "; ".join(DRIFT_WORDS[one] for one in amount.drift)
    drift = pill(words, BUSY) if words else NOTHING
    values = [amount.template, amount.desired, amount.allocated, amount.actual]
    shown = [tag("span", one, class_="mono") if one else NOTHING for one in values]
    return [who, [amount.resource, tag("span", sides, class_="sub")], *shown, drift]


def _counted(names_of_pods: Sequence[str], noun: str) -> str:
    count = len(names_of_pods)
    return f"{count} {noun}{'s' if count > 1 else ''}" if count else ""


# History


def history_sections(page: HistoryPage, act: Collection[str]) -> tuple[Section, ...]:
    head = page.set
    rows = [_entry(head, one, act) for one in page.revisions]
    columns = ("Revision", f"{head.noun.capitalize()}s", "Served", "Images", "Age", "Change cause", "Compare")
    listed = section("revisions", "Revisions", table("Revisions", columns, rows))
    if not page.before:
        return head_section(head, "history"), listed
    title = f"From revision {page.before} to revision {page.after}"
    body = diff_lines(page.difference) if page.difference else tag("p", "They are the same.", class_="empty")
    return head_section(head, "history"), listed, section("difference", title, body)


def _entry(head: SetHead, one: HistoryEntry, act: Collection[str]) -> list[Child]:
    number = [tag("strong", one.revision), " ", pill("current", OK) if one.current else None]
    groups: Child = ", ".join(map(str, one.groups)) or NOTHING
    if not head.grouped:
        groups = one.pods or NOTHING
    links: list[Child] = []
    if not one.current:
        number_of = [("from", str(one.revision))]
        compare = workload_path(head.kind, head.namespace, head.name, "history", query=number_of)
        links.append(tag("a", "with the current one", href=compare))
        if "undo" in act:
            to = [("to", str(one.revision))]
            address = workload_path(head.kind, head.namespace, head.name, "actions", "undo", query=to)
            links += [" · ", tag("a", "Return to it…", href=address)]
    return [
        [*number, tag("span", one.key, class_="sub mono")],
        groups,
        one.served,
        names(one.images),
        age_of(one.age_seconds),
        one.change_cause or NOTHING,
        tag("span", *links) if links else NOTHING,
    ]


# Events


def events_sections(page: EventsPage) -> tuple[Section, ...]:
    items = []
    for one in page.events:
        tone = BAD if one.type == "Warning" else QUIET
        times = f" ×{one.count}" if one.count > 1 else ""
        top = [
            ago(one.age_seconds, one.when),
            tag("strong", one.reason),
            tag("span", f"{one.kind} ", code(one.object), times, class_="quiet-text"),
        ]
        items.append(tag("li", tag("p", *top, class_="event-top"), tag("p", one.message), class_=f"event {tone}"))
    words = "No events are kept." if page.allowed else f"You may not list events in namespace {page.set.namespace}."
    body: Child = tag("ol", *items, class_="timeline") if items else tag("p", words, class_="empty")
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
        if page.kept and not page.allowed:
            name = f"{page.set.name}-failures"
            words = f"You may not read the ConfigMap {name} in namespace {page.set.namespace}, which keeps failures."
        return head_section(page.set, "failures"), section("failures", "Failures", tag("p", words, class_="empty"))
    items = [_failure(one, newest=number == 0) for number, one in enumerate(page.failures)]
    return head_section(page.set, "failures"), section("failures", "Failures", tag("ol", *items, class_="timeline"))


def _failure(failure: GroupFailure, *, newest: bool) -> Html:
    """The log of the newest failure is open: it is what one comes for."""
    of = tag("span", " of the new version, ", code(failure.set)) if failure.set else None
    outcome = pill("held: its budget of restarts is used up", BAD) if failure.held else pill("restarted", QUIET)
    top = tag("p", tag("strong", f"Group {failure.group}"), of, outcome, moment(failure.at), class_="event-top")
    pods = [_failed_pod(pod, f"failure-{failure.leader}-{pod.pod}", newest=newest) for pod in failure.pods]
    what = None if failure.pods else tag("p", what_happened(failure))
    return tag("li", top, what, *pods, class_=f"event {BAD if failure.held else QUIET}")


def _failed_pod(pod: PodFailure, id: str, *, newest: bool) -> Html:
    """`id` is the same however many failures follow: what a user has opened stays open."""
    place = [tag("span", "on ", class_="quiet-text"), pod.node] if pod.node else []
    lines: list[Child] = [tag("p", code(pod.pod), " ", *place, f": {pod.note}" if pod.note else None)]
    for one in pod.containers:
        lines.append(tag("p", container_text(one, when=False)))
        if one.log:
            log = tag("pre", one.log, class_="diff plan", tabindex="0", aria_label=f"Log of {one.container}")
            heading = tag("summary", f"Log of {one.container}")
            lines.append(tag("details", heading, log, id=f"{id}-log-{one.container}", open=newest))
        lines += [tag("p", one.log_note, class_="quiet-text")] if one.log_note else []
    if pod.events:
        listed = tag("ul", *(tag("li", text) for text in pod.events), class_="plain-list")
        heading = tag("summary", counted(len(pod.events), "event"))
        lines.append(tag("details", heading, listed, id=f"{id}-events"))
    return tag("div", *lines, class_="failed-pod")


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
        )
        if head.grouped
        else None,
        tag(
            "div",
            tag("label", "Container", for_="log-container"),
            tag("select", *containers, name="container", id="log-container"),
            class_="field",
        ),
        tag("button", "Show", type="submit"),
        method="get",
        action=workload_path(head.kind, head.namespace, head.name, "logs"),
        class_="filters",
    )
    query = [("group", "" if page.group is None else str(page.group)), ("container", page.container)]
    stream = workload_path(head.kind, head.namespace, head.name, "log-stream", query=query)
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
