"""`logs`: the output of a group's pods by time, each pod in a colour of its own."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

import click

from kohort.cli.actions import snapshot_reader
from kohort.cli.connection import REFUSED, Refusal
from kohort.inspection.release_subject import title
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.inspection.workload import PlainWorkload
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.pod_logs import TIMESTAMPS, Query, log_lines, stamped
from kohort.kube.resources import NODES
from kohort.objects.core import Pod
from kohort.rules.simulation_labels import SIMULATED

COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")


async def logs(
    client: Client, namespace: str, name: str, group: int | None, pod: str, container: str, query: Query
) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    pods = chosen(found, group, pod)
    if container:
        pods = having(container, pods)
    width = max(len(one.metadata.name) for one in pods)
    options = (*query, *((("container", container),) if container else ()))
    prefixes = [
        click.style(one.metadata.name.ljust(width), fg=COLOURS[number % len(COLOURS)])
        for number, one in enumerate(pods)
    ]
    sources = [_Pod(client, one, prefix) for one, prefix in zip(pods, prefixes, strict=True)]
    if ("follow", "true") in options:
        await asyncio.gather(*(_follow(one, options) for one in sources))
    else:
        await by_time(sources, options)
    results = [one.failed for one in sources]
    if all(results) and await _is_simulated(client, pods[0].spec.node_name):
        click.echo(
            "kohort: pods on simulated nodes only pretend to run; a node without --simulated-nodes has logs", err=True
        )
    return REFUSED if all(results) else 0


async def _is_simulated(client: Client, node: str) -> bool:
    """Whether a node is simulated; false also if the user may not read nodes."""
    try:
        found = await client.find(NODES, node) if node else None
    except ApiError:
        return False
    return found is not None and SIMULATED in (found["metadata"].get("labels") or {})


def chosen(found: Snapshot | PlainWorkload, group: int | None, pod: str) -> list[Pod]:
    """The pods of one group or all of them, leaders first, or the one named. A pod that is named may be one of the new
    version of a release."""
    if isinstance(found, PlainWorkload) and group is not None:
        raise Refusal(f"{title(found)} has no groups; leave --group out, or name a pod with --pod")
    of_release = found.canary.pods if pod and found.canary is not None else ()
    pods = sorted((*found.pods, *of_release), key=lambda one: (group_of(one) or 0, worker_of(one), one.metadata.name))
    if pod:
        selected = [one for one in pods if one.metadata.name == pod]
    elif group is not None:
        selected = [one for one in pods if group_of(one) == group]
    else:
        selected = pods
    if selected:
        return selected
    subject = f"pod {pod}" if pod else f"pods in group {group}" if group is not None else "pods"
    there = ", ".join(one.metadata.name for one in pods) or "none"
    raise Refusal(f"{title(found)} has no {subject}; there are: {there}")


def having(container: str, pods: list[Pod]) -> list[Pod]:
    """The pods that have such a container: leaders may differ from workers."""
    names = {one.metadata.name: _containers(one) for one in pods}
    if found := [one for one in pods if container in names[one.metadata.name]]:
        return found
    there = ", ".join(dict.fromkeys(name for each in names.values() for name in each))
    raise Refusal(f"no container {container} in {', '.join(names)}; there are: {there}")


def _containers(pod: Pod) -> list[str]:
    """All of them, those first that a reader most likely means."""
    spec = pod.spec
    return [one.name for one in (*(spec.containers or ()), *spec.init_containers, *spec.ephemeral_containers)]


class LogSource(Protocol):
    """Lines of one pod."""

    prefix: str

    def lines(self, query: Query) -> AsyncIterator[str]: ...


class _Pod:
    """The lines that a cluster has of a pod."""

    def __init__(self, client: Client, pod: Pod, prefix: str) -> None:
        self._client = client
        self._pod = pod.metadata
        self.prefix = prefix
        self.failed = False
        """There was nothing to be had."""

    async def lines(self, query: Query) -> AsyncIterator[str]:
        try:
            async for line in log_lines(self._client, self._pod.namespace, self._pod.name, query):
                yield line
        except ApiError as problem:
            click.echo(f"{self.prefix}  (no logs: {problem.message})", err=True)
            self.failed = True


async def _follow(source: LogSource, query: Query) -> None:
    """Lines as they come, which is the order of time."""
    async for line in source.lines(query):
        click.echo(f"{source.prefix}  {line}")


async def by_time(sources: Sequence[LogSource], query: Query) -> None:
    """What is there already, in the order in which it was written: always the oldest of the next lines of all pods."""
    shown = TIMESTAMPS in query
    asked = query if shown else (*query, TIMESTAMPS)
    streams = [source.lines(asked) for source in sources]
    heads: list[tuple[str, int, str]] = []
    for number, stream in enumerate(streams):
        if (line := await anext(stream, None)) is not None:
            heappush(heads, (stamped(line)[0], number, line))
    while heads:
        _, number, line = heappop(heads)
        text = line if shown else stamped(line)[1]
        click.echo(f"{sources[number].prefix}  {text}")
        if (following := await anext(streams[number], None)) is not None:
            heappush(heads, (stamped(following)[0], number, following))
