"""`kohort completion`, and what kubectl asks for behind `kubectl kohort`."""

import sys
from typing import Final

import click

NO_FILES: Final = 4
"""kubectl's directive: do not offer the names of files instead."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell: source <(kohort completion bash)

    kubectl completes `kubectl kohort` by itself: it finds kubectl_complete-kohort beside it.
    """
    from click.shell_completion import get_completion_class

    from kohort.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None, "the choices above are the ones that click has"
    click.echo(kind(main, {}, "kohort", "_KOHORT_COMPLETE").source())


def for_kubectl() -> None:
    """Called with the words behind `kubectl kohort`, the last of which is being typed; offers one a line."""
    from click.shell_completion import ShellComplete

    from kohort.cli.main import main

    *words, begun = sys.argv[1:] or [""]
    for one in ShellComplete(main, {}, "kohort", "_KOHORT_COMPLETE").get_completions(words, begun):
        click.echo(f"{one.value}\t{one.help}" if one.help else one.value)
    click.echo(f":{NO_FILES}")
