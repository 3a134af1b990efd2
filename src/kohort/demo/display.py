"""The display of the demo: redrawn four times a second on a terminal, printed line by line elsewhere."""

import time
from collections.abc import Iterator
from itertools import groupby
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from kohort.demo import cluster_state
from kohort.demo.chapters import Demo
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

MARKS: Final = {"waiting": "·", "running": "▸", "done": "✓", "failed": "✗"}
STYLES: Final = {"waiting": "dim", "running": "bold cyan", "done": "green", "failed": "bold red"}
BAR: Final = 30
PERIOD_SECONDS: Final = 5.0


def screen(demo: Demo) -> "RenderableType":
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    parts: list[Text] = [_line(f"kohort demo  {time.monotonic() - demo.began:5.0f} s", "bold")]
    for chapter in demo.chapters:
        taken = f"  {chapter.seconds:.1f} s" if chapter.seconds else ""
        parts.append(_line(f" {MARKS[chapter.state]} {chapter.title}{taken}", STYLES[chapter.state]))
        if chapter.result:
            parts.append(_line(f"     {chapter.result}", "dim"))
    parts += [Text(), *(_line(line) for line in groups(demo.state)), Text()]
    parts += [_line(line) for line in requests(demo)]
    if demo.last_command is not None:
        parts += [Text(), _line(f" $ {demo.last_command.command}", "bold")]
        parts += [_line(f"   {line}", "dim") for line in demo.last_command.output.splitlines()[:6]]
    return Panel(Group(*parts), expand=False, border_style="dim")


def _line(text: str, style: str = "") -> "Text":
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def groups(state: cluster_state.DemoClusterState) -> Iterator[str]:
    """A line for each group, a dot for each of its processes."""
    for name, pods in groupby(
        state.pods, key=lambda pod: (cluster_state.set_of(pod), pod["metadata"]["labels"][group_labels.GROUP_INDEX])
    ):
        members = list(pods)
        dots = "".join(_dot(pod) for pod in members)
        limits = {cluster_state.memory_of(pod) for pod in members if cluster_state.memory_of(pod)}
        version = cluster_state.version_of(members[0])
        yield f" {'-'.join(name):<16} {version}  {dots:<4} {' '.join(sorted(limits)):>6}"


def _dot(pod: JsonObject) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "×"
    return "●" if cluster_state.is_ready(pod) else "○"


def requests(demo: Demo) -> Iterator[str]:
    client = demo.client
    if client is None:
        return
    recent = client.recent(PERIOD_SECONDS)
    rate = len(recent) / PERIOD_SECONDS
    yield f" requests  {len(client.answers)} answered, {len(client.failures)} failed, {rate:.0f} per second"
    for version in sorted({one.version for one in recent}):
        share = sum(one.version == version for one in recent) / len(recent)
        yield f" {version:<4} {'█' * round(share * BAR):<{BAR}} {100 * share:3.0f} %"
    if recent:
        yield f" “{recent[-1].text}”"


def summary(demo: Demo, ok: bool) -> list[str]:
    """The figures, in lines that a script can read as well."""
    client = demo.client
    rows = [("chapters", f"{sum(one.state == 'done' for one in demo.chapters)} of {len(demo.chapters)}")]
    rows += [
        (f"{share.version} at {share.wanted} %", f"{share.measured:.1f} % of {counted(share.requests, 'request')}")
        for share in demo.shares
    ]
    if client is not None and client.answers:
        waits = [1000 * one.first_word for one in client.answers]
        slow = quantiles(waits, n=100)[98] if len(waits) > 1 else waits[0]
        rows += [
            ("requests answered", f"{len(client.answers)}"),
            ("requests failed", f"{len(client.failures)}"),
            ("by version", ", ".join(f"{name} {count}" for name, count in sorted(client.versions.items()))),
            ("first word", f"{median(waits):.0f} ms median, {slow:.0f} ms for the slowest in a hundred"),
        ]
    rows.append(("time", f"{time.monotonic() - demo.began:.0f} s"))
    rows.append(("result", "everything worked" if ok else demo.problem or "failed"))
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name.ljust(width)}  {value}" for name, value in rows]
    failures = client.failures[:3] if client is not None else []
    return ["", *lines, *(f"  ✗ {one}" for one in failures)]
