"""`kohort release stop`."""

import sys

import click

from kohort.cli import option_types
from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("release")
@click.argument("what", type=click.Choice(["stop"]))
@workload_argument()
@click.option("--keep-stable", is_flag=True, help="Return to the stable version before the Rollout ends.")
@click.option("--delete", is_flag=True, help="Delete the Rollout.  [default: disable it]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--timeout",
    type=option_types.Seconds(0),
    default=600.0,
    show_default=True,
    help="Seconds to wait for the way back.",
)
@cluster_options
def command(
    what: str,
    name: str,
    keep_stable: bool,
    delete: bool,
    yes: bool,
    dry_run: bool,
    timeout: float,
    target: CommandTarget,
) -> None:
    """End a release and its Rollout, and keep the stable version: kohort release stop llm --keep-stable

    Deleting or disabling a Rollout midway ships the new version to all replicas, without further steps; this command
    first returns the workload to its stable version, waits until the release is put away, and then ends the Rollout.
    """
    if not keep_stable:
        raise click.UsageError(
            "add --keep-stable: the workload returns to its stable version. To ship the new version to all replicas "
            "instead: kohort approve NAME --full"
        )
    if not yes and not dry_run and not sys.stdin.isatty():
        raise click.UsageError("this changes the workload and its Rollout: add --yes, or --dry-run to see what it does")
    from kohort.cli.actions import release_stop

    execute(
        target,
        lambda client, namespace: release_stop.stop_release(
            client, namespace, name, delete=delete, yes=yes, dry_run=dry_run, timeout=timeout
        ),
    )
