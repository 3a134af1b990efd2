"""`kohort get`."""

import click

from kohort.cli.connection import (
    CommandTarget,
    cluster_options,
    execute,
    output_option,
    selector_option,
    workload_argument,
)


@click.command("get")
@workload_argument(required=False)
@output_option("wide")
@selector_option
@click.option("-w", "--watch", is_flag=True, help="Show it again after every change.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the sets of all namespaces.")
@cluster_options
def command(
    name: str | None, output: str, selector: str, watch: bool, all_namespaces: bool, target: CommandTarget
) -> None:
    """Show groups as a tree, with pods, nodes, revisions and readiness: of one set, or of all in the namespace."""
    from kohort.cli.actions import show

    if all_namespaces and name:
        raise click.UsageError("-A shows all sets: leave the name out, or name the namespace with -n")
    if selector and name:
        raise click.UsageError("-l selects among all sets: leave the name out")
    execute(
        target,
        lambda client, namespace: show.get(client, "" if all_namespaces else namespace, name, output, watch, selector),
    )
