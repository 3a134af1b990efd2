"""`kohort diff`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("diff")
@workload_argument()
@click.argument("old", type=WholeNumber(1), required=False)
@click.argument("new", type=WholeNumber(1), required=False)
@click.option("--exit-code", is_flag=True, help="Exit code 4 if they differ.")
@cluster_options
def command(name: str, old: int | None, new: int | None, exit_code: bool, target: CommandTarget) -> None:
    """Show how two revisions differ: the last two, one and the current one, or any two."""
    from kohort.cli.actions import show

    execute(target, lambda client, namespace: show.diff(client, namespace, name, old, new, exit_code))
