"""`kohort resize`."""

from collections.abc import Set
from typing import Literal

import click
from click.core import ParameterSource

from kohort.cli.connection import CommandTarget, cluster_options, execute, output_option, set_argument
from kohort.cli.option_types import Seconds, WholeNumber


def _amount(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from kohort.objects.quantity import Quantity

    try:
        Quantity.parse(value or 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not an amount: write 500m, 2 or 1.5, for memory 512Mi or 4Gi") from None
    return value


@click.command("resize")
@set_argument()
@click.option("--size", type=WholeNumber(1), help="Pods per group. Groups are recreated.")
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
    "--deadline",
    type=WholeNumber(1, 86400),
    metavar="SECONDS",
    help="Set the resourceUpdateDeadlineSeconds of the set in the same edit: how long a group may take.",
)
@click.option(
    "--recreate",
    is_flag=True,
    help="Edit the template also if the set recreates all groups for it; with --size, also without resizePolicy.",
)
@click.option("--pods-only", is_flag=True, help="Change running pods, in place, and leave the template as it is.")
@click.option(
    "--allow-restart",
    is_flag=True,
    help="With --pods-only: also containers that restart for it, while the rest of their group runs on.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done with each group; nothing is changed.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow it until it is done or has stopped.")
@click.option("--timeout", type=Seconds(0), help="With --wait: at most so many seconds; then exit code 5.")
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
    deadline: int | None,
    recreate: bool,
    pods_only: bool,
    allow_restart: bool,
    dry_run: bool,
    wait: bool,
    timeout: float | None,
    output: str,
    target: CommandTarget,
) -> None:
    """Change the CPU and memory of the groups of a set, or the number of pods in them.

    With the resourceUpdatePolicy InPlaceOrRecreate or InPlaceOnly, running pods get other CPU and memory without being
    recreated, one group after the other. A limit that was equal to its request stays equal; others follow only if the
    request outgrows them. Ctrl-C leaves the rest to the operator.

    \b
    kohort resize llm --cpu 2                                 change the template, follow the groups
    kohort resize llm --memory 8Gi --policy InPlaceOnly       and never recreate a group for it
    kohort resize llm --deadline 900                          more time for groups that wait or stopped for want of it
    kohort resize llm --pod --memory 16Gi                     of each pod as a whole
    kohort resize llm --cpu 2 --dry-run                       what would happen to each group
    kohort resize llm --cpu 2 --pods-only                     running pods, not the template
    kohort resize llm --size 4 --recreate                     pods per group; with --dry-run, only what would happen

    Exit code 3 if it stopped: stderr says at which group, why, and what to do.
    """
    from kohort.cli.actions import resize
    from kohort.inspection.template_resize import AmountRequest

    amounts = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    context = click.get_current_context()
    typed = (one for one in context.params if context.get_parameter_source(one) is ParameterSource.COMMANDLINE)
    given = {option for option in typed if context.params[option]}
    if contradiction := _contradiction(given):
        raise click.UsageError(contradiction)
    if size is not None:
        wanted = size
        execute(
            target,
            lambda client, namespace: resize.resize_groups(client, namespace, name, wanted, recreate, dry_run, output),
        )
    if pods_only:
        execute(
            target,
            lambda client, namespace: resize.resize_pods(
                client, namespace, name, amounts, container, role, dry_run, whole_pod, allow_restart
            ),
        )
    request = AmountRequest(amounts, container, role, whole_pod)
    options = resize.TemplateEditOptions(policy or "", deadline, recreate, dry_run, wait, timeout, output)
    execute(target, lambda client, namespace: resize.resize_template(client, namespace, name, request, options))


def _contradiction(given: Set[str]) -> str:
    """Why the options that are given cannot be given together; empty if they can."""
    size, amounts = "size" in given, not given.isdisjoint(("cpu", "memory"))
    strategy = not given.isdisjoint(("policy", "deadline"))
    followed = {"timeout", "wait"} | (set() if size and "dry_run" in given else {"output"})
    rows = (
        (size and (amounts or strategy), "give either --size, or --cpu and/or --memory"),
        (
            not (size or amounts or strategy),
            "give --cpu, --memory or both; or --policy or --deadline; or --size for the number of pods per group",
        ),
        (
            "whole_pod" in given and (size or "container" in given),
            "--pod is about pods as a whole: leave out --container and --size",
        ),
        (
            "pods_only" in given and (strategy or "recreate" in given or not amounts),
            "--pods-only is about running pods: give --cpu or --memory, no --policy, --deadline or --recreate",
        ),
        ("allow_restart" in given and "pods_only" not in given, "--allow-restart is for --pods-only"),
        (
            (size or "pods_only" in given) and not given.isdisjoint(followed),
            "--output, --wait and --timeout are for changes of --cpu and --memory in the template, which are followed; "
            "--output is also for --size with --dry-run",
        ),
        (size and not given.isdisjoint(("role", "container")), "--role and --container are for --cpu and --memory"),
        (
            {"policy", "recreate"} <= given,
            "--recreate contradicts --policy: the policy keeps groups from being recreated",
        ),
    )
    return next((text for applies, text in rows if applies), "")
