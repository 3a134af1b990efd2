"""Ends the pods of an agent that was killed, without another agent."""

from pathlib import Path

from kohort.node.grpc.status import RpcError
from kohort.node.runtimes.cri import discovery
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.cni import CniServer, socket_of
from kohort.node.runtimes.cri.configuration import NODE_LABEL, POD_UID


class _NoNetworks:
    """Answers the runtime's plugin: the networks are removed by those who call this module."""

    def connect(self, uid: str, namespace: str) -> str:
        raise OSError("no agent runs on this node")

    def disconnect(self, uid: str, namespace: str) -> None:
        pass

    def raise_loopback(self, namespace: str) -> None:
        pass


async def end_sandboxes(directory: Path) -> set[str]:
    """Stop and remove all pods of a node in its container runtime; returns the UIDs of those that were ready. Raises
    OSError."""
    before = discovery.recorded(directory)
    if before is None:
        return set()
    client, networks = CriClient(Path(before.socket)), CniServer(socket_of(directory), _NoNetworks())
    await networks.start()
    try:
        labels = cri.PodSandboxFilter(label_selector={NODE_LABEL: before.owner})
        found = (await client.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest(labels))).items
        for each in found:
            await client.call_unless_gone(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(each.id))
            await client.call_unless_gone(cri.REMOVE_POD_SANDBOX, cri.RemovePodSandboxRequest(each.id))
    except RpcError as problem:
        raise OSError(f"pods in the container runtime at {before.socket} could not be ended: {problem}") from problem
    finally:
        await networks.close()
        await client.close()
    return {each.labels[POD_UID] for each in found if each.state == cri.PodSandboxState.READY}
