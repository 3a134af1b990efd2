"""`kohort approve`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, workload_argument


@click.command("approve")
@workload_argument()
@cluster_options
def command(name: str, target: Target) -> None:
    """Continue a Rollout whose step waits for approval."""
    from kohort.cli.actions import writing

    execute(target, lambda client, namespace: writing.approve(client, namespace, name))
