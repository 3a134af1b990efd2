"""`kohort pause`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("pause")
@workload_argument()
@cluster_options
def command(name: str, target: CommandTarget) -> None:
    """Hold a roll: groups that are being replaced are finished, no others are started."""
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.pause(client, namespace, name))
