"""`kohort down`."""

from pathlib import Path

import click

from kohort.cli import option_types
from kohort.cli.connection import fail
from kohort.up.data_directory import STOP_SECONDS, DataDirectory, default_directory
from kohort.up.startup_errors import CannotStart


@click.command("down")
@click.option(
    "--data-dir",
    type=option_types.SomePath(),
    help="Data directory of the cluster.  [default: in the XDG data directory]",
)
@click.option(
    "--force", is_flag=True, help="Give up pods in a container runtime that does not answer, and remove the rest."
)
def command(data_dir: Path | None, force: bool) -> None:
    """Stop the cluster of a data directory. Its state stays; `kohort up` continues from it.

    Its pods are ended, including those that a killed `kohort up` has left running. A process that does not end within
    30 seconds is killed.
    """
    data = DataDirectory(data_dir or default_directory())
    try:
        stopped = data.stop_owner()
        left = data.give_up_containers() if force else ""
        pods = data.end_leftovers()
    except CannotStart as failure:
        fail(str(failure))
    if stopped is not None:
        click.echo(f"stopped (pid {stopped.pid})")
        for pid in stopped.killed:
            click.echo(
                f"killed pid {pid}: it did not end within {STOP_SECONDS:g} seconds after SIGTERM; see {data.log}"
            )
    if pods:
        click.echo(f"ended {pods} {'pod' if pods == 1 else 'pods'} that a killed kohort had left")
    if left:
        click.echo(left)
    if stopped is None and not pods and not left:
        click.echo(f"kohort is not running on {data.path}")
