"""Two clusters on one machine, and programs that use its network for something else: none harms another."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import count
from pathlib import Path

import pytest
from tests.e2e.conftest import directory
from tests.node.processes import Bench, shell, up

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import EVENTS, SERVICES
from kohort.node import netlink
from kohort.node.address_blocks import ASSIGNED_POOL
from kohort.node.block_marks import RULE_PRIORITY, table_of
from kohort.node.machine_info import own_name
from kohort.node.pod_network_namespaces import NetworkNamespaces

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed"),
]
SERVICE_ADDRESS = "10.96.0.200"
"""The same in all clusters."""
SERVE = """
import http.server, sys
class Named(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
http.server.ThreadingHTTPServer(('0.0.0.0', 8080), Named).serve_forever()
"""
ASK = """
import os, sys, time, urllib.request
good = bad = 0
while not os.path.exists('/run/results/stop'):
    try:
        good += urllib.request.urlopen(sys.argv[1], timeout=5).read() == sys.argv[2].encode() or 1 / 0
    except Exception:
        bad += good > 0  # before the first answer the service may not be there yet
    with open('/run/results/new', 'w') as file:
        file.write(f'{good} {bad}')
    os.rename('/run/results/new', '/run/results/now')
    time.sleep(0.01)
"""


@dataclass
class Cluster:
    name: str
    bench: Bench
    results: Path
    server_address: str = ""

    async def serve_and_ask(self) -> None:
        """A pod behind a service, and a pod that asks for it all the time."""
        spec = {
            "selector": {"app": "named"},
            "ports": [{"port": 80, "targetPort": 8080}],
            "clusterIP": SERVICE_ADDRESS,
        }
        front = {"metadata": {"name": "front", "namespace": "default"}, "spec": spec}
        await self.bench.client.create(SERVICES, front, "default")
        ready = {"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}
        serves = {"name": "c", "image": "host", "command": [sys.executable, "-c", SERVE, self.name], **ready}
        await self.bench.run("serves", serves, labels={"app": "named"})
        self.server_address = (await self.bench.ready("serves"))["podIP"]
        self.results.mkdir()
        place = [{"name": "results", "hostPath": {"path": str(self.results)}}]
        command = [sys.executable, "-c", ASK, f"http://{SERVICE_ADDRESS}/", self.name]
        mounts = [{"name": "results", "mountPath": "/run/results"}]
        asks = {"name": "c", "image": "host", "command": command, "volumeMounts": mounts}
        await self.bench.run("asks", asks, volumes=place, restartPolicy="Never")

    def counted(self) -> tuple[int, int]:
        """Good answers, and others."""
        try:
            good, bad = (self.results / "now").read_text().split()
        except FileNotFoundError:
            return 0, 0
        return int(good), int(bad)

    async def goes_on(self, answers: int = 100) -> None:
        """Wait until there are so many good answers more."""
        wanted = self.counted()[0] + answers
        await until(lambda: self.counted()[0] >= wanted)

    async def reported(self, words: str) -> None:
        """Wait until an event of the node says this."""
        async with asyncio.timeout(120):
            while True:
                events = (await self.bench.client.list(EVENTS, "default")).items
                if any(words in each["message"] for each in events if each["reason"] == "NetworkRestored"):
                    return
                await asyncio.sleep(0.05)

    @property
    def block(self) -> IPv4Network:
        found = ASSIGNED_POOL.block_of(int(IPv4Address(self.server_address)))
        assert found is not None, self.server_address
        return found


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def restored(route: netlink.Route) -> None:
    await until(lambda: route in netlink.routes())


@contextlib.asynccontextmanager
async def cluster(data: Path) -> AsyncIterator[Cluster]:
    with up(data):
        async with connected(data) as found:
            yield found


@contextlib.asynccontextmanager
async def connected(data: Path) -> AsyncIterator[Cluster]:
    client = Client(kubeconfig.load(data / "kubeconfig"))
    try:
        yield Cluster(data.name, Bench(client, data), data.with_name(f"{data.name}-results"))
    finally:
        await client.close()


def first_choice(data: Path) -> IPv4Network:
    return ASSIGNED_POOL.first_choice(f"{own_name()} {data / 'node'}")


async def test_two_clusters_that_want_the_same_block_serve_at_once_and_end_on_their_own(tmp_path: Path) -> None:
    one = tmp_path / "one"
    other = next(path for i in count() if first_choice(path := tmp_path / f"other{i}") == first_choice(one))
    async with cluster(other) as stays:
        async with cluster(one) as ends:
            await stays.serve_and_ask()
            await ends.serve_and_ask()
            assert stays.block != ends.block
            for each in (stays, ends):
                await each.goes_on()
            assert ends.counted()[1] == 0
        await stays.goes_on()
        assert stays.counted()[1] == 0
        assert [each for each in netlink.rules() if each.source == stays.block]
        await until(lambda: not [each for each in netlink.routes() if each.network.subnet_of(ends.block)])
        assert not [each for each in netlink.rules() if each.source == ends.block]
        async with cluster(one) as again:
            await again.bench.ready("serves")
            await stays.goes_on()
        assert stays.counted()[1] == 0


@pytest.fixture
def foreign_route(tmp_path: Path) -> Iterator[netlink.Route]:
    """A route of another program to the block that the cluster in `data` would choose."""
    block = first_choice(tmp_path / "data")
    netlink.add_route(block, netlink.LOOPBACK_INDEX)
    yield netlink.Route(block, netlink.MAIN_TABLE, netlink.LOOPBACK_INDEX)
    netlink.delete_route(block, netlink.LOOPBACK_INDEX)


async def test_a_cluster_leaves_the_route_of_another_program_alone(
    tmp_path: Path, foreign_route: netlink.Route
) -> None:
    async with cluster(tmp_path / "data") as found:
        await found.serve_and_ask()
        await found.goes_on(20)
        assert not found.block.overlaps(foreign_route.network)
        assert foreign_route in netlink.routes()
    assert foreign_route in netlink.routes()


async def test_routes_and_rules_that_another_program_deletes_are_restored(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as found:
        await found.serve_and_ask()
        await found.goes_on(20)
        table, service = table_of(found.block), IPv4Network(SERVICE_ADDRESS)
        to_service = next(each for each in netlink.routes() if (each.network, each.table) == (service, table))
        to_pod = next(each for each in netlink.routes() if each.network == IPv4Network(found.server_address))
        netlink.delete_route(to_service.network, to_service.interface, table)
        await restored(to_service)
        netlink.delete_rule(found.block, table, RULE_PRIORITY)
        await until(lambda: any(each.source == found.block for each in netlink.rules()))
        netlink.delete_route(to_pod.network, to_pod.interface)
        await restored(to_pod)
        await found.goes_on(20)
        for words in (f"route to {SERVICE_ADDRESS}", f"rule from {found.block}", "route to pod"):
            await found.reported(words)


async def test_a_route_through_another_interface_in_the_table_of_services_is_replaced(tmp_path: Path) -> None:
    """An agent that was killed leaves such a route, and so would a second `hold` at the same time."""
    async with cluster(tmp_path / "data") as found:
        await found.serve_and_ask()
        await found.goes_on(20)
        table, service = table_of(found.block), IPv4Network(SERVICE_ADDRESS)
        right = next(each for each in netlink.routes() if (each.network, each.table) == (service, table))
        wrong = netlink.Route(service, table, netlink.LOOPBACK_INDEX)
        netlink.delete_route(right.network, right.interface, table)
        netlink.add_route(service, netlink.LOOPBACK_INDEX, table)
        await until(lambda: wrong not in netlink.routes())
        await restored(right)
        await found.goes_on(20)


async def test_pods_that_start_while_routes_are_deleted_all_have_a_network(tmp_path: Path) -> None:
    """Restoring must not meddle with a network that is just being made."""
    async with cluster(tmp_path / "data") as found:
        await found.serve_and_ask()
        names = [f"p{number}" for number in range(12)]
        for name in names:
            await found.bench.run(name, shell("sleep 100"))
        for _ in range(20):
            to_pod = next(each for each in netlink.routes() if each.network == IPv4Network(found.server_address))
            netlink.delete_route(to_pod.network, to_pod.interface)
            await restored(to_pod)
        addresses = {(await found.bench.until(name, lambda status: bool(status["podIP"])))["podIP"] for name in names}
        await until(lambda: {IPv4Network(each) for each in addresses} <= {each.network for each in netlink.routes()})
        await found.goes_on(20)


async def test_the_block_of_a_killed_cluster_waits_for_it(tmp_path: Path) -> None:
    one = tmp_path / "one"
    other = next(path for i in count() if first_choice(path := tmp_path / f"other{i}") == first_choice(one))
    with directory(one) as kohort:
        child = kohort.up()
        async with connected(one) as found:
            await found.serve_and_ask()
            await found.goes_on(20)
        child.kill()
        child.wait()
        async with cluster(other) as second:
            await second.serve_and_ask()
            await second.goes_on(20)
            assert second.block != found.block
            kohort.up()
            async with connected(one) as again:
                status = await again.bench.ready("serves")
                assert (status["podIP"], status["containerStatuses"][0]["restartCount"]) == (found.server_address, 0)
                await found.goes_on(20)
            assert second.counted()[1] == 0
