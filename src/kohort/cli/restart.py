"""`kohort restart`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("restart")
@workload_argument()
@click.option("--group", type=WholeNumber(0), metavar="INDEX", help="Recreate only this group, at once.")
@cluster_options
def command(name: str, group: int | None, target: CommandTarget) -> None:
    """Recreate the groups of a set step by step, as its strategy allows."""
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.restart(client, namespace, name, group))
