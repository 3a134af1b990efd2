"""`kohort releases`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument


@click.command("releases")
@workload_argument()
@output_option()
@cluster_options
def command(name: str, output: str, target: CommandTarget) -> None:
    """List the releases of a workload by its Rollout: when each began and how it ended."""
    from kohort.cli.actions import list_workloads

    execute(target, lambda client, namespace: list_workloads.releases(client, namespace, name, output))
