"""`kohort history`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


@click.command("history")
@set_argument()
@click.option("--revision", type=click.IntRange(1), help="What this one makes pods of, whole.")
@output_option()
@cluster_options
def command(name: str, revision: int | None, output: str, target: Target) -> None:
    """Revisions of a set: which groups have them, and their images. A star marks the wanted one."""
    from kohort.cli.actions import looking

    execute(target, lambda client, namespace: looking.show_history(client, namespace, name, output, revision))
