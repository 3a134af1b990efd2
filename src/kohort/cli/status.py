"""`kohort status`."""

import click

from kohort.cli import values
from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


@click.command("status")
@set_argument()
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Wait until all groups are up to date and ready.")
@click.option("--timeout", type=values.Seconds(0), metavar="SECONDS", help="With --watch: give up after this time.")
@cluster_options
def command(name: str, output: str, watch: bool, timeout: float | None, target: Target) -> None:
    """Show the progress of a roll or of scaling, and what it is waiting for. Exit code 3 until it is done."""
    from kohort.cli.actions import looking

    execute(target, lambda client, namespace: looking.status(client, namespace, name, output, watch, timeout))
