"""`logs`: the output of a group's pods, interleaved, each pod in a colour of its own."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import click

from kohort.cli.actions import reading
from kohort.cli.connection import REFUSED, Refusal
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, from_response
from kohort.kube.http import Request
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Pod

SIMULATED: Final = "simulation.kohort.dev/node"
COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")

Query = tuple[tuple[str, str], ...]


async def logs(
    client: Client, namespace: str, name: str, group: int | None, pod: str, container: str, query: Query
) -> int:
    found = await reading.snapshot(client, namespace, name)
    pods = chosen(found, group, pod)
    if container:
        pods = having(container, pods)
    width = max(len(one.metadata.name) for one in pods)
    options = (*query, *((("container", container),) if container else ()))
    jobs = [
        _one(client, one, options, click.style(one.metadata.name.ljust(width), fg=COLOURS[number % len(COLOURS)]))
        for number, one in enumerate(pods)
    ]
    results = await asyncio.gather(*jobs)
    if all(results) and await _pretends(client, pods[0].spec.node_name):
        click.echo(
            "kohort: pods on simulated nodes only pretend to run; a node without --simulated-nodes has logs", err=True
        )
    return REFUSED if all(results) else 0


async def _pretends(client: Client, node: str) -> bool:
    """Whether a node is simulated. Not everybody may ask."""
    try:
        found = await client.find(NODES, node) if node else None
    except ApiError:
        return False
    return found is not None and SIMULATED in (found["metadata"].get("labels") or {})


def chosen(snapshot: Snapshot, group: int | None, pod: str) -> list[Pod]:
    """The pods of one group or all of them, leaders first, or the one named."""
    pods = sorted(snapshot.pods, key=lambda one: (group_of(one) or 0, worker_of(one)))
    if pod:
        found = [one for one in pods if one.metadata.name == pod]
    elif group is not None:
        found = [one for one in pods if group_of(one) == group]
    else:
        found = pods
    if found:
        return found
    subject = f"pod {pod}" if pod else f"pods in group {group}" if group is not None else "pods"
    there = ", ".join(one.metadata.name for one in pods) or "none"
    raise Refusal(f"LeaderWorkerSet {snapshot.name} has no {subject}; there are: {there}")


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


async def _one(client: Client, pod: Pod, query: Query, prefix: str) -> bool:
    """Print one pod's lines; True when there was nothing to be had."""
    metadata = pod.metadata
    path = PODS.path(metadata.namespace, metadata.name, "log")
    try:
        async for line in _lines(client, path, query):
            click.echo(f"{prefix}  {line}")
    except ApiError as problem:
        click.echo(f"{prefix}  (no logs: {problem.message})", err=True)
        return True
    return False


async def _lines(client: Client, path: str, query: Query) -> AsyncIterator[str]:
    request = Request("GET", path, query, {"accept": "*/*", "user-agent": client.user_agent})
    rest = b""
    async with client.transport.stream(request) as stream:
        if stream.status != 200:
            raise from_response(stream.status, b"".join([chunk async for chunk in stream]))
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
