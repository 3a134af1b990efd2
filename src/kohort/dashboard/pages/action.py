"""The preview of an action, with the button that does it."""

from collections.abc import Mapping, Sequence

import yaml

from kohort.dashboard.action_page import MOST_REASON, ActionForm, ActionPage
from kohort.dashboard.commands import PlannedWrite
from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.pages.elements import (
    BAD,
    OK,
    code,
    command_line,
    field,
    pill,
    section,
    select,
    set_path,
    workload_path,
)
from kohort.dashboard.pages.set import head_section, resources_section
from kohort.dashboard.view import Section
from kohort.objects.counted_nouns import counted
from kohort.rules.resource_update_policy import LONGEST_DEADLINE

_AMOUNT = r"\s*[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?\s*"
"""What browsers take as an amount; the server knows more forms and has the last word."""
_DANGEROUS = ("abort", "restart", "undo")


def action_sections(page: ActionPage, csrf: str) -> tuple[Section, ...]:
    head = page.set
    back = tag("a", "Back", href=workload_path(head.kind, head.namespace, head.name), class_="button plain")
    title = _title(page.verb, head.name, page.parameters)
    if page.refused:
        body: list[Child] = [
            tag("p", pill("not possible now", BAD)),
            tag("p", page.refused, class_="after found lines"),
        ]
        body.append(tag("p", back, class_="actions"))
        return head_section(head, "none"), section("action", title, *body)
    if not page.writes:
        body = [tag("p", pill("nothing to do", OK)), tag("p", page.result, class_="after found")]
        return head_section(head, "none"), section("action", title, *body, tag("p", back, class_="actions"))
    body = [
        tag("p", "Nothing has changed yet. With your rights, this does the same as:", class_="quiet-text"),
        tag("p", command_line(page.command), class_="after"),
        _forecast(page),
        tag("div", _form(page, csrf), back, class_="actions"),
        tag("h3", "What is written"),
        *(_write(one) for one in page.writes),
    ]
    return head_section(head, "none"), section("action", f"{title}?", *body)


def _title(verb: str, name: str, parameters: Mapping[str, str]) -> str:
    """
    >>> _title("restart", "llm", {"group": "0"}), _title("approve", "llm", {"step": "2"})
    ('Restart group 0 of llm', 'Go to step 2 of the release of llm')
    >>> _title("undo", "llm", {"to": "1"}), _title("approve", "llm", {"override": "1"}), _title("pause", "llm", {})
    ('Return llm to revision 1', 'Override the analysis of llm', 'Pause llm')
    """
    match verb, parameters:
        case "approve", {"step": step}:
            return f"Go to step {step} of the release of {name}"
        case "approve", {"full": _}:
            return f"Go to the last step of the release of {name}"
        case "approve", {"override": _}:
            return f"Override the analysis of {name}"
        case "restart", {"group": group}:
            return f"Restart group {group} of {name}"
        case "undo", {"to": revision}:
            return f"Return {name} to revision {revision}"
    return f"{verb.capitalize()} {name}"


def _forecast(page: ActionPage) -> Child:
    if not page.forecast:
        return None
    lines = "\n".join(page.forecast)
    return [tag("h3", "What follows"), tag("pre", lines, class_="diff plan", tabindex="0", aria_label="What follows")]


def _write(write: PlannedWrite) -> Html:
    text: str = yaml.safe_dump(write.body, sort_keys=False) if write.body else ""
    if len(text) > 4000:
        text = text[:4000] + "…"
    lines = tag("pre", text, class_="diff plan", tabindex="0", aria_label="Content") if text else None
    return tag("div", tag("p", tag("code", f"{write.method} {write.path}")), lines, class_="write")


def _form(page: ActionPage, csrf: str) -> Html:
    hidden = {"csrf": csrf, "seen": page.seen, **page.parameters}
    fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
    overrides = "override" in page.parameters
    tone = "danger" if page.verb in _DANGEROUS or overrides else None
    return tag(
        "form",
        *fields,
        _reason(page) if overrides and "reason" not in page.parameters else None,
        tag("button", "Override" if overrides else page.verb.capitalize(), type="submit", class_=tone),
        method="post",
        action=workload_path(page.set.kind, page.set.namespace, page.set.name, "actions", page.verb),
        class_="inline with-field" if overrides else "inline",
    )


def _reason(page: ActionPage) -> Html:
    control = tag(
        "input",
        type="text",
        name="reason",
        id="reason",
        maxlength=str(MOST_REASON),
        placeholder="such as: known, ticket 12",
        autocomplete="off",
    )
    return field("Why; kept with the analysis of the step", control, "reason")


def form_sections(form: ActionForm) -> tuple[Section, ...]:
    """The form of an action; its button leads to the preview."""
    head = form.set
    if form.verb == "scale":
        fields = _scale_fields(form)
        words: list[Child] = [f"{head.name} wants {counted(head.wanted, 'group')} of {counted(head.size, 'pod')} now."]
    else:
        fields = _resize_fields(form)
        words = ["An amount that is left empty stays as it is. The resourceUpdatePolicy is ", code(form.policy), "."]
    back = tag("a", "Back", href=set_path(head.namespace, head.name), class_="button plain")
    body = tag(
        "form",
        tag("div", *fields, class_="filters"),
        tag("div", tag("button", "Preview", type="submit"), back, class_="actions"),
        method="get",
        action=path("sets", head.namespace, head.name, "actions", form.verb),
        aria_label=f"{form.verb.capitalize()} {head.name}",
    )
    lead = tag("p", *words, " Nothing is changed before you have seen what follows.", class_="quiet-text form-lead")
    sections = [head_section(head, "none"), section("action", f"{form.verb.capitalize()} {head.name}", lead, body)]
    return (*sections, resources_section(form.resources)) if form.verb == "resize" else tuple(sections)


def _scale_fields(form: ActionForm) -> list[Html]:
    control = tag(
        "input", type="number", name="replicas", id="replicas", value=str(form.set.wanted), min="0", max="99999"
    )
    return [field("Groups", control, "replicas")]


def _resize_fields(form: ActionForm) -> list[Html]:
    fields = [_amount("cpu", "CPU request", "such as 2 or 500m"), _amount("memory", "Memory request", "such as 16Gi")]
    if len(form.roles) > 1:
        names = {"all": "leaders and workers", "leader": "leaders", "worker": "workers"}
        fields.append(field("Of", select("role", [(one, names[one]) for one in form.roles], "all"), "role"))
    if len(form.containers) > 1:
        fields.append(field("Container", select("container", _containers(form.containers), ""), "container"))
    if form.pod_level:
        choices = [("", "the container"), ("1", "the pod as a whole")]
        fields.append(field("Which amounts", select("pod", choices, ""), "pod"))
    fields.append(field("How groups get them", select("policy", _policies(form.policy), ""), "policy"))
    deadline = tag(
        "input",
        type="number",
        name="deadline",
        id="deadline",
        min="1",
        max=str(LONGEST_DEADLINE),
        placeholder=f"{form.deadline_seconds} now",
    )
    fields.append(field("Seconds for each group", deadline, "deadline"))
    return fields


def _amount(name: str, label: str, hint: str) -> Html:
    control = tag(
        "input",
        type="text",
        name=name,
        id=name,
        placeholder=hint,
        pattern=_AMOUNT,
        title=f"an amount, {hint}",
        autocomplete="off",
        spellcheck="false",
    )
    return field(label, control, name)


def _containers(names: Sequence[str]) -> list[tuple[str, str]]:
    return [("", f"{names[0]} (the first)"), *((one, one) for one in names[1:])]


def _policies(present: str) -> list[tuple[str, str]]:
    """Without a choice the set decides. One that recreates its groups must be asked for it by name."""
    in_place = [
        ("InPlaceOrRecreate", "in place, else recreate the group"),
        ("InPlaceOnly", "in place, else stop"),
    ]
    if present == "Recreate":
        return in_place
    return [("", f"as the set says: {present}"), *(one for one in in_place if one[0] != present)]
