"""`kohort undo`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument
from kohort.cli.option_types import WholeNumber


@click.command("undo")
@workload_argument()
@click.option(
    "--to",
    "--to-revision",
    "to",
    type=WholeNumber(1),
    metavar="REVISION",
    help="The revision to return to.  [default: the last one that served]",
)
@click.option("--dry-run", is_flag=True, help="Only ask the server whether it would accept it.")
@cluster_options
def command(name: str, to: int | None, dry_run: bool, target: CommandTarget) -> None:
    """Return a workload to the last revision that served; during a roll or a release, that is the stable one.

    Its replicas roll as after any other edit. Revisions that never became ready everywhere are skipped unless named by
    --to; `kohort history` shows which ones those are.
    """
    from kohort.cli.actions import edit

    execute(target, lambda client, namespace: edit.undo(client, namespace, name, to, dry_run))
