"""`kohort retry`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("retry")
@workload_argument()
@cluster_options
def command(name: str, target: CommandTarget) -> None:
    """Begin the current step of a release again; without a release, begin the one again that was aborted last.

    Of a set whose resources stopped to change in place, try again with the groups at which that stopped.
    """
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.retry(client, namespace, name))
