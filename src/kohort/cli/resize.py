"""`kohort resize`."""

from typing import Literal

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, set_argument


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
@click.option("--cpu", default="", callback=_amount, help="New CPU request.")
@click.option("--memory", default="", callback=_amount, help="New memory request.")
@click.option("--container", default="", help="With --cpu and --memory: which container.  [default: the first]")
@click.option("--pod", "whole_pod", is_flag=True, help="With --cpu and --memory: of each pod as a whole.")
@click.option("--role", type=click.Choice(["all", "leader", "worker"]), default="all", help="Which pods to resize.")
@click.option(
    "--policy",
    type=click.Choice(["InPlaceOrRecreate", "InPlaceOnly"]),
    help="Set the resourceUpdatePolicy of the set in the same edit.",
)
@click.option(
    "--recreate",
    is_flag=True,
    help="Edit the template also if the set recreates all groups for it; with --size, also without resizePolicy.",
)
@click.option("--pods-only", is_flag=True, help="Change running pods, in place, and leave the template as it is.")
@click.option(
    "--allow-recreate",
    is_flag=True,
    help="With --pods-only: also containers that restart for it, and whose groups are then recreated at the old size.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done with each group; nothing is changed.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow it until it is done or has stopped.")
@click.option("--timeout", type=click.FloatRange(0), help="With --wait: at most so many seconds; then exit code 5.")
@output_option()
@cluster_options
def command(
    name: str,
    size: int | None,
    cpu: str,
    memory: str,
    container: str,
    whole_pod: bool,
    role: Literal["all", "leader", "worker"],
    policy: str | None,
    recreate: bool,
    pods_only: bool,
    allow_recreate: bool,
    dry_run: bool,
    wait: bool,
    timeout: float | None,
    output: str,
    target: Target,
) -> None:
    """Change the CPU and memory of the groups of a set, or the number of pods in them.

    With the resourceUpdatePolicy InPlaceOrRecreate or InPlaceOnly, running pods get other CPU and memory without being
    recreated, one group after the other. A limit that was equal to its request stays equal; others follow only if the
    request outgrows them. Ctrl-C leaves the rest to the operator.

    \b
    kohort resize llm --cpu 2                                 change the template, follow the groups
    kohort resize llm --memory 8Gi --policy InPlaceOnly       and never recreate a group for it
    kohort resize llm --pod --memory 16Gi                     of each pod as a whole
    kohort resize llm --cpu 2 --dry-run                       what would happen to each group
    kohort resize llm --cpu 2 --pods-only                     running pods, not the template
    kohort resize llm --size 4 --recreate                     pods per group

    Exit code 3 if it stopped: stderr says at which group, why, and what to do.
    """
    from kohort.cli.actions import resize
    from kohort.inspection.template_resize import AmountRequest

    amounts = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if size is not None and (amounts or policy):
        raise click.UsageError("give either --size, or --cpu and/or --memory")
    if size is None and not amounts and not policy:
        raise click.UsageError("give --cpu, --memory or both; or --policy; or --size for the number of pods per group")
    if whole_pod and (container or size is not None):
        raise click.UsageError("--pod is about pods as a whole: leave out --container and --size")
    if pods_only and (policy or recreate or not amounts):
        raise click.UsageError("--pods-only is about running pods: give --cpu or --memory, no --policy or --recreate")
    if allow_recreate and not pods_only:
        raise click.UsageError("--allow-recreate is for --pods-only")
    if policy and recreate:
        raise click.UsageError("--recreate contradicts --policy: the policy keeps groups from being recreated")
    if size is not None:
        wanted = size
        execute(
            target, lambda client, namespace: resize.resize_groups(client, namespace, name, wanted, recreate, dry_run)
        )
    if pods_only:
        execute(
            target,
            lambda client, namespace: resize.resize_pods(
                client, namespace, name, amounts, container, role, dry_run, whole_pod, allow_recreate
            ),
        )
    request = AmountRequest(amounts, container, role, whole_pod)
    options = resize.TemplateEditOptions(policy or "", recreate, dry_run, wait, timeout, output)
    execute(target, lambda client, namespace: resize.resize_template(client, namespace, name, request, options))
