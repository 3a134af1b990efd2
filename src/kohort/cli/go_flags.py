"""Options as programs in Go take them: `-name`, `--name=true`, `-name=false`.

Manifests and charts that start a released manager spell its options so, and must be able to start ours.

| given | understood as |
|---|---|
| `-leader-elect` | `--leader-elect` |
| `--leader-elect=true`, `=1`, `=t` | `--leader-elect` |
| `--leader-elect=false`, `=0`, `=f` | `--no-leader-elect`, or nothing for an option that can only be switched on |
| `-webhook-port=9443`, `-webhook-port 9443` | `--webhook-port=9443`, `--webhook-port 9443` |
"""

from collections.abc import Sequence
from typing import Final

import click

_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""What Go reads as a boolean."""


class GoFlagsCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, translated(args, self.get_params(ctx)))


def translated(args: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    options = {name: one for one in params if isinstance(one, click.Option) for name in one.opts}
    found: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "--":
            return [*found, word, *rest]
        name, equals, value = word.partition("=")
        long = f"-{name}" if name.startswith("-") and not name.startswith("--") and len(name) > 2 else name
        option = options.get(long)
        if option is None:
            found.append(word)
        elif not option.is_flag:
            found.append(f"{long}{equals}{value}")
            if not equals:
                found += [value for value in (next(rest, None),) if value is not None]
        else:
            found += _switched(option, long, value) if equals else [long]
    return found


def _switched(option: click.Option, name: str, value: str) -> list[str]:
    if value not in _WORDS:
        raise click.BadParameter(f"{value!r} is neither true nor false", param_hint=name)
    if _WORDS[value]:
        return [name]
    return option.secondary_opts[:1]
