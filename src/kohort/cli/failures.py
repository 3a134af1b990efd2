"""`kohort failures`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("failures")
@workload_argument()
@click.option("--group", type=WholeNumber(0), metavar="INDEX", help="Only this group.")
@output_option()
@cluster_options
def command(name: str, group: int | None, output: str, target: CommandTarget) -> None:
    """Show the last failures of a set's groups, newest first: exit codes, the end of logs, events. They are kept for
    sets with a restartBudget."""
    from kohort.cli.actions import failures

    execute(target, lambda client, namespace: failures.show_failures(client, namespace, name, group, output))
