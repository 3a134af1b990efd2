"""`kohort list`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, selector_option


@click.command("list")
@output_option()
@selector_option
@click.option("-A", "--all-namespaces", is_flag=True, help="List the workloads of all namespaces.")
@cluster_options
def command(output: str, selector: str, all_namespaces: bool, target: CommandTarget) -> None:
    """List workloads, one line each: all LeaderWorkerSets, and the other workloads that a Rollout releases."""
    from kohort.cli.actions import list_workloads

    execute(
        target,
        lambda client, namespace: list_workloads.list_workloads(
            client, "" if all_namespaces else namespace, output, selector
        ),
    )
