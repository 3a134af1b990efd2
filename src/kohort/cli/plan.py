"""`kohort plan`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option
from kohort.cli.manifest_files import filename_option, read_files


@click.command("plan")
@filename_option("What would be applied", required=False)
@click.option("--drain", metavar="NODE", default="", help="Instead: what a drain of this node would do to groups.")
@click.option("--server-side", is_flag=True, help="As `kubectl apply --server-side` would apply it.")
@click.option("--exit-code", is_flag=True, help="Exit code 4 if anything would change.")
@output_option()
@cluster_options
def command(
    filenames: tuple[str, ...], drain: str, server_side: bool, exit_code: bool, output: str, target: CommandTarget
) -> None:
    """Show what applying a file would do: which groups are recreated, in which order, and how much room that needs.

    Pods are counted as the API server would store them. Where only cpu and memory change and the set has a policy for
    it, each group changes in place, is recreated or refused, and the reason is given. Groups that are not ready now are
    named where a step waits for them. Exit code 3 if the nodes do not have the room, if a group is refused, if one is
    waited for that does not become ready by itself, or with --drain if the drain would not end.
    """
    if bool(filenames) == bool(drain):
        raise click.UsageError("give either -f FILE or --drain NODE")
    if drain:
        from kohort.cli.actions import drain as drains

        execute(target, lambda client, _: drains.plan_drain(client, drain, output))
        return
    from kohort.cli.actions import plan
    from kohort.cli.connection import Action

    files = read_files(filenames)
    action: Action = lambda client, namespace: plan.plan(  # noqa: E731
        client, namespace, files, output, server_side, exit_code
    )
    execute(target, action)
