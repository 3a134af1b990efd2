"""All names of the cluster as pods of this node see them, kept up to date.

A hosts file in every container is there on any machine. Where an address can be added and port 53 be used, there is a
name server too, for what a file cannot say (ports, wildcards of search paths, reverse names) and for programs that do
not read files.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kohort.kube.informer import Informer
from kohort.kube.log import Log
from kohort.node import netlink
from kohort.node.names.dns_server import NameServer, machine_nameservers, machine_search
from kohort.node.names.dns_zone import Zone, build_zone
from kohort.node.names.etc_hosts import Record, host_network_text, hosts_text, pod_records, records
from kohort.node.names.resolv_conf import resolv_conf
from kohort.node.names.service_forwarding import Forwarding, backends
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_hostname import hostname_of, subdomain_of
from kohort.node.service_network import ServiceNetwork
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.node_pods import NodePod

SETTLING_SECONDS = 0.1
"""Many changes at once lead to one rewriting."""
CHECK_SECONDS = 30.0
"""Between two looks at the network of services, in case a deletion was not noticed."""
RETRY_SECONDS = 1.0
"""After a look that ended in an error."""
_log = Log(part="node")


class NameDirectory:
    def __init__(
        self,
        services: Informer[Service],
        slices: Informer[EndpointSlice],
        pods: Callable[[], list[tuple[NodePod, str]]],
        api_server: Callable[[], tuple[str, str]],
        changed: Callable[[], None],
        addresses: AddressBook | None,
        network: ServiceNetwork | None = None,
        node_address: str = "",
        report_restored: Callable[[list[str]], None] = lambda restored: None,
    ) -> None:
        """`addresses` are for services and the name server; without them there are only files. In `network`, if pods
        have networks of their own, services have the addresses that the cluster has given them."""
        self._services = services
        self._slices = slices
        self._pods = pods
        self._api_server = api_server
        self._changed = changed
        self._addresses = addresses
        self.network = network
        self._node_address = node_address
        self._report_restored = report_restored
        self._forwarding: Forwarding | None = None
        self._deletions: netlink.Deletions | None = None
        self._check_network = False
        """Whether routes, rules and interfaces may be missing."""
        self._server = NameServer(self._current_zone, machine_nameservers)
        self._nameserver = ""
        self._records: list[Record] | None = None
        self._zone: Zone | None = None
        self._news = asyncio.Event()
        services.on_change(lambda old, new: self.notice())
        slices.on_change(lambda old, new: self.notice())

    def notice(self) -> None:
        """Services, endpoints or addresses of pods have changed."""
        self._records = self._zone = None
        self._news.set()

    async def start(self) -> None:
        if self._addresses is None:
            return
        self._forwarding = Forwarding(self._addresses, self.network, self._node_address)
        try:
            address = self._addresses.take("name server")
            await self._server.start(address)
            self._nameserver = address
        except (OSError, OverflowError) as problem:
            self._addresses.release("name server")
            _log.info("failed to start the name server; pods have a hosts file only", problem=str(problem))

    async def run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._news.wait(), self._seconds_until_check())
            except TimeoutError:
                self._check_network = True
            await asyncio.sleep(SETTLING_SECONDS)
            self._news.clear()
            self._changed()
            if self._forwarding is not None and self._addresses is not None:
                await self._open_network(self._forwarding)
                services = self._services.list()
                found = backends(services, self._slices.list(), self._pods(), self._api_server())
                check, self._check_network = self._check_network, False
                restored = await self._forwarding.refresh(services, found, check=check)
                if check:
                    restored += await self._restore_pods()
                if restored:
                    self._report_restored(restored)
                self._addresses.release_orphans()

    async def _restore_pods(self) -> list[str]:
        """The routes that were restored, for the log and the event."""
        if self.network is None or not self.network.started:
            return []
        pods = [(pod.metadata.uid, address) for pod, address in self._pods() if not pod.spec.host_network]
        try:
            restored = await asyncio.to_thread(self.network.restore_pods, pods)
        except OSError as problem:
            _log.warning("failed to restore the network of a pod", problem=str(problem))
            return []
        return [f"route to pod {address}" for address in restored]

    def _seconds_until_check(self) -> float | None:
        """Seconds until the network of services is looked at, without any news."""
        if self._forwarding is None or (self.network is None and not self._forwarding.waiting):
            return None
        return RETRY_SECONDS if self._forwarding.incomplete else CHECK_SECONDS

    async def _open_network(self, forwarding: Forwarding) -> None:
        """When the first pod has come."""
        if self.network is None or self.network.started or not self._pods():
            return
        try:
            await self.network.start()
            self._watch_deletions(self.network)
        except (OSError, OverflowError) as problem:
            _log.warning("services have addresses of this node only", problem=str(problem))
            self.network = forwarding.network = None
            self.notice()

    def _watch_deletions(self, network: ServiceNetwork) -> None:
        """Notice at once when another program deletes a route, a rule or an interface."""
        deletions = self._deletions = netlink.Deletions()

        def read() -> None:
            if deletions.read(network.concerns):
                self._check_network = True
                self._news.set()

        asyncio.get_running_loop().add_reader(deletions.socket, read)

    def close(self, *, for_good: bool) -> None:
        """Stop answering; `for_good` gives addresses back, which otherwise wait for the next agent and its pods."""
        self._server.stop()
        if self._deletions is not None:
            asyncio.get_running_loop().remove_reader(self._deletions.socket)
            self._deletions.close()
        if self._forwarding is not None:
            self._forwarding.close()
        if for_good and self._addresses is not None:
            self._addresses.release_all()
        if for_good and self.network is not None:
            self.network.remove()

    def give_up_addresses(self) -> None:
        """Another process may have those that nothing uses."""
        if self._addresses is not None:
            self._addresses.close()

    def services(self, namespace: str = "", *, outside: bool = False) -> list[Service]:
        """Services with the addresses at which pods of this node reach them; `outside` for those that share the
        machine's network."""
        found = self._services.list(namespace)
        return list(found) if self.network is not None and not outside else [self._reachable(each) for each in found]

    def hosts(self, pod: NodePod, address: str) -> str:
        """The /etc/hosts of a pod."""
        spec, namespace = pod.spec, pod.metadata.namespace
        if spec.host_network:
            return host_network_text(_machine_hosts(), spec.host_aliases)
        names = hostname_of(pod), subdomain_of(pod)
        return hosts_text(self._current(), namespace, address, *names, spec.host_aliases)

    def resolv_conf(self, pod: NodePod) -> str:
        """The /etc/resolv.conf of a pod; empty if it has the machine's."""
        if not self._nameserver:
            return ""
        return resolv_conf(pod, self._nameserver, machine_nameservers(), machine_search())

    def _reachable(self, service: Service) -> Service:
        address = self._forwarding.address(service) if self._forwarding is not None else ""
        if not address:
            return service
        return msgspec.structs.replace(service, spec=msgspec.structs.replace(service.spec, cluster_ip=address))

    def _current(self) -> Iterable[Record]:
        if self._records is None:
            services = self.services()
            # A clusterIP leads to the API server where pods have networks of their own, whatever its real port.
            found = records(services, self._slices.list(), self._api_server()[0] if self.network is None else "")
            self._records = found + pod_records(services, self._pods())
        return self._records

    def _current_zone(self) -> Zone:
        if self._zone is None:
            self._zone = build_zone(self._current(), self.services(), self._slices.list())
        return self._zone


def _machine_hosts(path: Path = Path("/etc/hosts")) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
