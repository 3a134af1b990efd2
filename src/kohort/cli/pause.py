"""`kohort pause`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, set_argument


@click.command("pause")
@set_argument()
@cluster_options
def command(name: str, target: Target) -> None:
    """Hold a roll where it is: groups that have begun are finished, no other begins."""
    from kohort.cli.actions import writing

    execute(target, lambda client, namespace: writing.pause(client, namespace, name))
