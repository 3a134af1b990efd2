"""`kohort status`."""

import sys
from pathlib import Path

import click

from kohort.cli import option_types
from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, workload_argument


@click.command("status")
@workload_argument(required=False)
@output_option()
@click.option("-w", "--watch", is_flag=True, help="Wait until all groups are up to date and ready.")
@click.option("--timeout", type=option_types.Seconds(0), help="With --watch: give up after this time.")
@click.option("--cluster", is_flag=True, help="Show the parts of the embedded cluster and their restarts instead.")
@click.option(
    "--data-dir",
    type=option_types.SomePath(),
    help="With --cluster: its data directory.  [default: that of the kubeconfig, or in the XDG data directory]",
)
@cluster_options
def command(
    name: str | None,
    output: str,
    watch: bool,
    timeout: float | None,
    cluster: bool,
    data_dir: Path | None,
    target: CommandTarget,
) -> None:
    """Show the progress of a roll or of scaling, and what it is waiting for. Exit code 3 until it is done.

    With --cluster, show the parts of the cluster that `kohort up` runs; exit code 3 unless all of them are ready.
    """
    if cluster:
        from kohort.cli.actions import cluster_parts

        if name is not None or watch:
            raise click.UsageError("--cluster is about the cluster as a whole: leave out NAME and --watch")
        sys.exit(cluster_parts.show(data_dir, output, target))
    if name is None:
        raise click.UsageError("Missing argument 'NAME'.")
    from kohort.cli.actions import show

    execute(target, lambda client, namespace: show.status(client, namespace, name, output, watch, timeout))
