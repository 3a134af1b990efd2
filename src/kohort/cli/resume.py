"""`kohort resume`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("resume")
@workload_argument()
@cluster_options
def command(name: str, target: CommandTarget) -> None:
    """Continue a roll that was paused."""
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.resume(client, namespace, name))
