"""Forms of output."""

from collections.abc import Sequence

import click
import msgspec

from kohort.objects.jsontypes import Json


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
    click.echo("\n".join(lines))
