"""What a drain of a node would do."""

from kohort.dashboard.html import path, tag
from kohort.dashboard.pages.elements import BAD, OK, command_line, pill, section
from kohort.dashboard.view import Section
from kohort.inspection.drain_forecast import DrainForecast, drain_lines


def drain_sections(forecast: DrainForecast, *, partial: bool) -> tuple[Section, ...]:
    head = tag(
        "div",
        tag("p", tag("a", "Nodes", href=path("nodes")), class_="crumbs"),
        tag("h1", f"Drain of {forecast.node}"),
        id="drain-head",
    )
    state = pill("it ends", OK) if forecast.ends else pill("it does not end", BAD)
    lines = tag("pre", "\n".join(drain_lines(forecast)), class_="diff plan", tabindex="0", aria_label="What goes")
    note = tag("p", "Only pods that you may see are counted.", class_="quiet-text after") if partial else None
    command = tag("p", command_line(f"kohort plan --drain {forecast.node}"), class_="after")
    return Section("drain-head", head), section("drain", "What goes, and when", lines, note, command, more=state)
