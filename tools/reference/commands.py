"""The reference of the command line, from the commands themselves."""

import click

from kohort.cli.connection import EXIT_CODES
from kohort.cli.main import COMMANDS, main


def page() -> str:
    lines = [
        "# Commands",
        "",
        "Generated from the code. `kubectl kohort` is the same program. Every option can also be set by a variable:",
        "`--port` of `kohort up` is `KOHORT_UP_PORT`.",
        "",
        "| exit code | meaning |",
        "|--:|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
        "",
    ]
    context = click.Context(main, info_name="kohort")
    for name in COMMANDS:
        command = main.get_command(context, name)
        if command is None:
            continue
        usage = command.get_usage(click.Context(command, info_name=name, parent=context)).removeprefix("Usage: ")
        lines += [
            f"## kohort {name}",
            "",
            f"`{' '.join(usage.split())}`",
            "",
            " ".join((command.help or "").split()),
            "",
        ]
        options = [_row(one) for one in command.params if isinstance(one, click.Option) and not one.hidden]
        if options:
            lines += ["| option | meaning |", "|---|---|", *options, ""]
    return "\n".join(lines)


def _row(option: click.Option) -> str:
    choices = f" ({', '.join(map(str, option.type.choices))})" if isinstance(option.type, click.Choice) else ""
    text = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"| `{', '.join(option.opts)}` | {text}{choices} |"
