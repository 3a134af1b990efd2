"""`kohort approve`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("approve")
@workload_argument()
@click.option("--step", type=WholeNumber(1), metavar="N", help="Go to this step, forward or back.")
@click.option("--full", is_flag=True, help="Go to the last step: skip all steps between.")
@click.option("--override", is_flag=True, help="Go on with the current step in spite of its analysis.")
@click.option("--reason", default="", metavar="TEXT", help="With --override: why. Kept with the analysis of the step.")
@cluster_options
def command(name: str, step: int | None, full: bool, override: bool, reason: str, target: CommandTarget) -> None:
    """Continue a release whose step waits, or go to another step of it."""
    from kohort.cli.actions import analysis, edit

    if reason and not override:
        raise click.UsageError("--reason is for --override")
    if override:
        if step is not None or full:
            raise click.UsageError("--override is for the current step: give it without --step and --full")
        execute(target, lambda client, namespace: analysis.override(client, namespace, name, reason))
        return

    if step is not None and full:
        raise click.UsageError("give either --step or --full")
    execute(target, lambda client, namespace: edit.approve(client, namespace, name, step, full))
