"""Forms of output."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import click
import msgspec

from kohort.objects.json_types import Json
from kohort.rules.terminal_text import with_visible_controls

_captured: ContextVar[list[str] | None] = ContextVar("captured", default=None)


def document(value: Json, form: str) -> str:
    """Anything as JSON or YAML."""
    plain = msgspec.to_builtins(value)
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
    import yaml

    text: str = yaml.safe_dump(plain, sort_keys=False)
    return text.rstrip("\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be, two spaces apart."""
    everything = [header, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in everything
    ]


def show(lines: Sequence[str]) -> None:
    """Lines may contain text of users: what would act on the terminal is spelled out."""
    kept = _captured.get()
    if kept is None:
        click.echo(with_visible_controls("\n".join(lines)))
    else:
        kept.extend(lines)


@contextmanager
def captured() -> Iterator[list[str]]:
    """What `show` is given in this task goes into a list instead of the terminal."""
    lines: list[str] = []
    before = _captured.set(lines)
    try:
        yield lines
    finally:
        _captured.reset(before)


def fitted(lines: Sequence[str]) -> list[str]:
    """Lines cut to the width of the terminal, if it is one: a picture that wraps is none."""
    if not sys.stdout.isatty():
        return list(lines)
    width = shutil.get_terminal_size().columns
    return [one if len(one) <= width else f"{one[: width - 1]}…" for one in lines]
