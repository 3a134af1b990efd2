"""The preview of an action, with the button that does it."""

import yaml

from kohort.dashboard.action_page import ActionPage
from kohort.dashboard.commands import Write
from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.pages.elements import BAD, command_line, pill, section, set_path
from kohort.dashboard.pages.set import head_section
from kohort.dashboard.view import Section

_DANGEROUS = ("abort", "restart", "undo")


def action_sections(page: ActionPage, csrf: str) -> tuple[Section, ...]:
    head = page.set
    back = tag("a", "Back", href=set_path(head.namespace, head.name), class_="button plain")
    if page.refused:
        body: list[Child] = [tag("p", pill("not possible now", BAD)), tag("p", page.refused, class_="after found")]
        body.append(tag("p", back, class_="actions"))
        return head_section(head, "none"), section("action", f"{page.verb.capitalize()} {head.name}", *body)
    body = [
        tag("p", "This does the same as ", command_line(page.command), ", with your rights. Nothing has changed yet."),
        _forecast(page),
        tag("h3", "What is written"),
        *(_write(one) for one in page.writes),
        tag("div", _form(page, csrf), back, class_="actions"),
    ]
    return head_section(head, "none"), section("action", f"{page.verb.capitalize()} {head.name}?", *body)


def _forecast(page: ActionPage) -> Child:
    if not page.forecast:
        return None
    lines = "\n".join(page.forecast)
    return [tag("h3", "What follows"), tag("pre", lines, class_="diff plan", tabindex="0", aria_label="What follows")]


def _write(write: Write) -> Html:
    text: str = yaml.safe_dump(write.body, sort_keys=False) if write.body else ""
    if len(text) > 4000:
        text = text[:4000] + "…"
    lines = tag("pre", text, class_="diff plan", tabindex="0", aria_label="Content") if text else None
    return tag("div", tag("p", tag("code", f"{write.method} {write.path}")), lines, class_="write")


def _form(page: ActionPage, csrf: str) -> Html:
    hidden = {"csrf": csrf, "seen": page.seen, **page.parameters}
    fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
    tone = "danger" if page.verb in _DANGEROUS else None
    return tag(
        "form",
        *fields,
        tag("button", page.verb.capitalize(), type="submit", class_=tone),
        method="post",
        action=path("sets", page.set.namespace, page.set.name, "actions", page.verb),
        class_="inline",
    )
