"""Ports of this machine that lead to pods: `hostPort` of their containers, TCP and UDP, carried by this process."""

import asyncio
from collections.abc import Iterator

from kohort.node.names.endpoint_choice import EndpointChoice
from kohort.node.names.service_forwarding import KINDS
from kohort.node.names.service_proxy import TcpForwarder, UdpForwarder
from kohort.node.service_network import bound
from kohort.objects.node_pods import NodePod

ANY = "0.0.0.0"
Wanted = tuple[str, str, int, int]
"""Protocol, address and port of the machine, port of the pod."""


class HostPorts:
    def __init__(self) -> None:
        self._open: dict[str, dict[Wanted, TcpForwarder | UdpForwarder]] = {}

    async def open(self, pod: NodePod, address: str) -> None:
        """Lead to a pod at this address what arrives at its ports; those that are open stay. Raises OSError."""
        forwarders = self._open.setdefault(pod.metadata.uid, {})
        for wanted in wanted_by(pod):
            if wanted in forwarders:
                continue
            protocol, host, port, inside = wanted
            choice = EndpointChoice(asyncio.get_running_loop().time)
            choice.update([(address, inside)], None)
            forwarder = (TcpForwarder if protocol == "TCP" else UdpForwarder)(choice)
            await forwarder.start(bound(host, port, KINDS[protocol]))
            forwarders[wanted] = forwarder

    def close(self, uid: str) -> None:
        for forwarder in self._open.pop(uid, {}).values():
            forwarder.close()

    def close_all(self) -> None:
        for uid in list(self._open):
            self.close(uid)


def wanted_by(pod: NodePod) -> Iterator[Wanted]:
    """What a pod wants of the machine; one that is on its network has it anyway."""
    if pod.spec.host_network:
        return
    for container in (*pod.spec.init_containers, *(pod.spec.containers or ())):
        for port in container.ports:
            protocol = port.protocol or "TCP"
            if port.host_port and protocol in KINDS:
                yield protocol, port.host_ip or ANY, port.host_port, port.container_port
