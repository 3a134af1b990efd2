"""`kohort resize`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, set_argument


def _amount(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from kohort.objects.quantity import Quantity

    try:
        Quantity.parse(value or 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no amount: write 500m, 2 or 1.5, for memory 512Mi or 4Gi") from None
    return value


@click.command("resize")
@set_argument()
@click.option("--size", type=click.IntRange(1), help="Pods per group. Groups are recreated.")
@click.option(
    "--recreate",
    is_flag=True,
    help="With --size: recreate the groups even if the set's resizePolicy does not allow it.",
)
@click.option("--cpu", default="", callback=_amount, help="New CPU of running pods, in place.")
@click.option("--memory", default="", callback=_amount, help="New memory of running pods, in place.")
@click.option("--container", default="", help="With --cpu and --memory: which container.  [default: the first]")
@click.option("--pod", "whole_pod", is_flag=True, help="With --cpu and --memory: of each pod as a whole.")
@click.option(
    "--allow-recreate",
    is_flag=True,
    help="Resize containers that restart for it, although the set then recreates their groups at the old size.",
)
@click.option("--role", type=click.Choice(["all", "leader", "worker"]), default="all", help="Which pods to resize.")
@click.option("--dry-run", is_flag=True, help="Only ask the server whether it would accept it.")
@cluster_options
def command(
    name: str,
    size: int | None,
    recreate: bool,
    cpu: str,
    memory: str,
    container: str,
    whole_pod: bool,
    allow_recreate: bool,
    role: str,
    dry_run: bool,
    target: Target,
) -> None:
    """Change the number of pods per group, or the CPU and memory of running pods without a restart."""
    from kohort.cli.actions import edit

    amounts = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if (size is None) == (not amounts):
        raise click.UsageError("give either --size, or --cpu and/or --memory")
    if whole_pod and (container or size is not None):
        raise click.UsageError("--pod is about pods as a whole: leave out --container and --size")
    if size is not None:
        wanted = size
        execute(
            target, lambda client, namespace: edit.resize_groups(client, namespace, name, wanted, recreate, dry_run)
        )
    execute(
        target,
        lambda client, namespace: edit.resize_pods(
            client, namespace, name, amounts, container, role, dry_run, whole_pod, allow_recreate
        ),
    )
