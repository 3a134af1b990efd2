"""`kohort abort`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("abort")
@workload_argument()
@cluster_options
def command(name: str, target: CommandTarget) -> None:
    """Abort a roll or a release in progress, and return to the revision that was served before it."""
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.abort(client, namespace, name))
