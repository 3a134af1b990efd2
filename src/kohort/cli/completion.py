"""`kohort completion`."""

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell: source <(kohort completion bash)"""
    from click.shell_completion import get_completion_class

    from kohort.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None, "the choices above are the ones that click has"
    click.echo(kind(main, {}, "kohort", "_KOHORT_COMPLETE").source())
