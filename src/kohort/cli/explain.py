"""`kohort explain`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument


@click.command("explain")
@workload_argument()
@output_option()
@cluster_options
def command(name: str, output: str, target: CommandTarget) -> None:
    """Explain why a set is not ready, root cause first, and what to do. Exit code 3 if it is not."""
    from kohort.cli.actions import show

    execute(target, lambda client, namespace: show.explain(client, namespace, name, output))
