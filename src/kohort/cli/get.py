"""`kohort get`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


@click.command("get")
@set_argument(required=False)
@output_option("wide")
@click.option("-w", "--watch", is_flag=True, help="Again after every change.")
@cluster_options
def command(name: str | None, output: str, watch: bool, target: Target) -> None:
    """Groups as a tree: their pods, nodes, revisions and readiness. Of one set, or of all in the namespace."""
    from kohort.cli.actions import looking

    execute(target, lambda client, namespace: looking.get(client, namespace, name, output, watch))
