"""`kohort logs`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument
from kohort.cli.option_types import WholeNumber


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    from kohort.rules.go_duration import parse_duration

    try:
        seconds = int(value) if value.isdecimal() else int(parse_duration(value))
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    if seconds < 1:
        raise click.BadParameter(f"{value} is less than a second")
    return seconds


@click.command("logs")
@workload_argument()
@click.option("--group", type=WholeNumber(0), metavar="INDEX", help="Only this group.")
@click.option("--pod", default="", help="Only this pod.")
@click.option("-c", "--container", default="", help="Which container.  [default: the first]")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until interrupted.")
@click.option("-p", "--previous", is_flag=True, help="Logs of the container before its last restart.")
@click.option("--tail", type=WholeNumber(0), help="Only the last lines of each pod.")
@click.option("--since", metavar="TIME", callback=_seconds, help="Only lines newer than this: 30s, 5m, 1h, or seconds.")
@click.option("--timestamps", is_flag=True, help="Show when each line was written.")
@cluster_options
def command(
    name: str,
    group: int | None,
    pod: str,
    container: str,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: int | None,
    timestamps: bool,
    target: CommandTarget,
) -> None:
    """Show the logs of a set's pods in order of time, each in its own colour."""
    from kohort.cli.actions import logs

    given = {
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since is None else str(since),
        "timestamps": "true" if timestamps else "",
    }
    query = tuple((key, value) for key, value in given.items() if value)
    execute(target, lambda client, namespace: logs.logs(client, namespace, name, group, pod, container, query))
