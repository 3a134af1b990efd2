"""`kohort status`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


@click.command("status")
@set_argument()
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Until all groups are up to date and ready.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="With --watch: give up after so long.")
@cluster_options
def command(name: str, output: str, watch: bool, timeout: float | None, target: Target) -> None:
    """Progress of a roll or a scaling, and what it waits for. Exit code 3 while it is not done."""
    from kohort.cli.actions import looking

    execute(target, lambda client, namespace: looking.status(client, namespace, name, output, watch, timeout))
