"""Runs the postStart and preStop hooks of containers."""

import asyncio

from kohort.node.probes import Execute, NoProbeResult, ProbeFailed, http_get, tcp_connect
from kohort.objects.node_pods import LifecycleHook, NodeContainer


class HookFailed(Exception):
    """A hook has failed; the message says why."""


async def run(hook: LifecycleHook, container: NodeContainer, address: str, execute: Execute) -> None:
    """Raises HookFailed."""
    try:
        if hook.exec is not None:
            code, output = await execute(hook.exec.command)
            if code != 0:
                raise HookFailed(f"exit code {code}: {output.decode(errors='replace').strip()[:256]}")
        elif hook.http_get is not None:
            await http_get(hook.http_get, container, address)
        elif hook.tcp_socket is not None:
            await tcp_connect(hook.tcp_socket, container, address)
        elif hook.sleep is not None:
            await asyncio.sleep(hook.sleep.seconds)
    except (ProbeFailed, NoProbeResult, OSError) as problem:
        raise HookFailed(str(problem)) from problem
