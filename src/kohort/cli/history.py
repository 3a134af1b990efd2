"""`kohort history`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("history")
@workload_argument()
@click.option("--revision", type=WholeNumber(1), help="Show the whole template of this revision.")
@output_option()
@cluster_options
def command(name: str, revision: int | None, output: str, target: CommandTarget) -> None:
    """List the revisions of a set, the groups that have them, and their images. A star marks the wanted one."""
    from kohort.cli.actions import show

    execute(target, lambda client, namespace: show.show_history(client, namespace, name, output, revision))
