"""`kohort approve`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, workload_argument


@click.command("approve")
@workload_argument()
@click.option("--step", type=click.IntRange(1), metavar="N", help="Go to this step, forward or back.")
@click.option("--full", is_flag=True, help="Go to the last step: skip all steps between.")
@cluster_options
def command(name: str, step: int | None, full: bool, target: Target) -> None:
    """Continue a release whose step waits, or go to another step of it."""
    from kohort.cli.actions import edit

    if step is not None and full:
        raise click.UsageError("give either --step or --full")
    execute(target, lambda client, namespace: edit.approve(client, namespace, name, step, full))
