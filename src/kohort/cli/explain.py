"""`kohort explain`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


@click.command("explain")
@set_argument()
@output_option()
@cluster_options
def command(name: str, output: str, target: Target) -> None:
    """Why a set is not ready: the first cause first, and what to do. Exit code 3 if there is any."""
    from kohort.cli.actions import looking

    execute(target, lambda client, namespace: looking.explain(client, namespace, name, output))
