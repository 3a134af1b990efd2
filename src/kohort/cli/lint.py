"""`kohort lint`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option
from kohort.cli.manifest_files import filename_option, read_files


@click.command("lint")
@filename_option("What to check")
@output_option()
@cluster_options
def command(filenames: tuple[str, ...], output: str, target: CommandTarget) -> None:
    """Check sets, Rollouts, Services and routes in files: what the cluster would refuse, names that lead nowhere, and
    steps that do nothing. Nothing is changed. Exit code 1 if anything is found."""
    from kohort.cli.actions import plan

    files = read_files(filenames)
    execute(target, lambda client, namespace: plan.lint(client, namespace, files, output))
