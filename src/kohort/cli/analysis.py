"""`kohort analysis`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument


@click.command("analysis")
@workload_argument()
@output_option()
@cluster_options
def command(name: str, output: str, target: CommandTarget) -> None:
    """Show how the steps of a release were judged: values of both versions, limits, samples, verdicts, and a chart."""
    from kohort.cli.actions import analysis

    execute(target, lambda client, namespace: analysis.show_analysis(client, namespace, name, output))
