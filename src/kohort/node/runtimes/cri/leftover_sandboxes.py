"""Ends the pods of an agent that was killed, without another agent."""

import asyncio
from pathlib import Path
from typing import Final

from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.cri import discovery
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.cni import CniServer
from kohort.node.runtimes.cri.configuration import NODE_LABEL, POD_UID
from kohort.node.runtimes.interface import RUNTIME_RECORD

ATTEMPTS: Final = 5
PAUSE_SECONDS: Final = 1.0
AWAY_ADVICE: Final = (
    "; start the runtime and repeat the command, or if it was uninstalled, give its pods up: kohort down --force"
)


class NoNetworks:
    """Answers the runtime's plugin: the networks are removed by those who call this module."""

    def has(self, uid: str) -> bool:
        return False

    def connect(self, uid: str, namespace: str) -> str:
        raise OSError("no agent runs on this node")

    def disconnect(self, uid: str, namespace: str) -> None:
        pass

    def raise_loopback(self, namespace: str) -> None:
        pass


async def end_sandboxes(directory: Path) -> set[str]:
    """Stop and remove all pods of a node in its container runtime, and the CNI plugin if no other agent needs it;
    returns the UIDs of those that were ready. Raises OSError."""
    before = discovery.recorded(directory)
    if before is None:
        return set()
    client, networks = CriClient(Path(before.socket)), CniServer(before.cni_agent(directory), NoNetworks())
    await networks.start()
    try:
        found = await _sandboxes(client, before.owner)
        await _end(client, before.owner)
        networks.uninstall()
    except RpcError as problem:
        advice = AWAY_ADVICE if problem.code == Code.UNAVAILABLE else ""
        where = f"pods in the container runtime at {before.socket}"
        raise OSError(f"{where} could not be ended: {problem}{advice}") from problem
    finally:
        await networks.close()
        await client.close()
    return {each.labels[POD_UID] for each in found if each.state == cri.PodSandboxState.READY}


async def give_up_sandboxes(directory: Path) -> discovery.RuntimeRecord | None:
    """Forget the container runtime of a node if it does not answer, and remove the CNI plugin if no other agent needs
    it; returns the runtime. Its containers may run on. None if there is none, or if it answers. Raises OSError."""
    before = discovery.recorded(directory)
    if before is None:
        return None
    client = CriClient(Path(before.socket))
    try:
        await client.call(cri.VERSION, cri.VersionRequest("0.1.0"))
        return None
    except RpcError as problem:
        if problem.code != Code.UNAVAILABLE:
            return None
    finally:
        await client.close()
    CniServer(before.cni_agent(directory), NoNetworks()).uninstall()
    (directory / RUNTIME_RECORD).unlink(missing_ok=True)
    return before


async def _end(client: CriClient, owner: str) -> None:
    """A killed agent may have left a call that still removes a sandbox; CRI-O fails a second one meanwhile. Raises
    RpcError."""
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            for each in await _sandboxes(client, owner):
                await client.call_unless_gone(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(each.id))
                await client.call_unless_gone(cri.REMOVE_POD_SANDBOX, cri.RemovePodSandboxRequest(each.id))
            return
        except RpcError:
            if not attempts_left:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _sandboxes(client: CriClient, owner: str) -> tuple[cri.PodSandbox, ...]:
    labels = cri.PodSandboxFilter(label_selector={NODE_LABEL: owner})
    return (await client.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest(labels))).items
