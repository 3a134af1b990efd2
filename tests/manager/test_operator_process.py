"""The life of an operator process, on an API server in the same process: ready when it can work, and orderly to the
end."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.builders import lws

from kohort import operator
from kohort.admission.webhook_configurations import Address
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS, LEASES, NAMESPACES, STATEFUL_SETS
from kohort.manager.configuration import LEASE, ClientConnection, Configuration, ConfigurationError, Health, Metrics
from kohort.manager.operator_process import OperatorOptions, OperatorProcess
from kohort.testing import Cluster, virtual_time

SPACE = "lws-system"
SETS = 40


@pytest.fixture(autouse=True)
def _garbage() -> Iterator[None]:
    """A process sets up its collector for itself; here there are others."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def configuration(qps: float = 500, burst: int = 500, health: str = "127.0.0.1:0") -> Configuration:
    return Configuration(
        health=Health(health_probe_bind_address=health),
        metrics=Metrics(bind_address="0"),
        client_connection=ClientConnection(qps=qps, burst=burst),
        rollouts=False,
    )


@asynccontextmanager
async def cluster_with_definitions() -> AsyncIterator[Cluster]:
    async with Cluster() as cluster:
        await cluster.client.create(NAMESPACES, {"metadata": {"name": SPACE}})
        for definition in operator.definitions(rollouts=False):
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await operator.wait_established(cluster.client, definition["metadata"]["name"])
        yield cluster


async def _readiness(port: int) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as answer:
        return answer.status, await answer.text()


async def _until_ready(process: OperatorProcess) -> None:
    async with asyncio.timeout(60):
        # Asked over HTTP, as a kubelet does.
        while process.health_port == 0 or (await _readiness(process.health_port))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_ready_when_caches_are_complete_and_the_lease_is_given_back_at_the_end() -> None:
    async with cluster_with_definitions() as cluster:
        process = OperatorProcess(cluster.transport(), OperatorOptions(configuration(), "none", identity="first"))
        running = asyncio.create_task(process.run())
        await _until_ready(process)
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(1).size(2), "default")
        await cluster.until(lambda: cluster.find(STATEFUL_SETS, "llm", "default") is not None)
        held = await cluster.client.get(LEASES, LEASE, SPACE)
        assert held["spec"]["holderIdentity"] == "first"

        assert process.stop()
        await running
        freed = await cluster.client.get(LEASES, LEASE, SPACE)
        assert not freed["spec"].get("holderIdentity")


async def test_one_that_is_asked_to_stop_is_not_ready_any_more() -> None:
    async with cluster_with_definitions() as cluster:
        process = OperatorProcess(cluster.transport(), OperatorOptions(configuration(), "none"))
        running = asyncio.create_task(process.run())
        await _until_ready(process)
        process.stopping = True
        status, text = await _readiness(process.health_port)
        assert (status, text) == (503, "[-] shutdown: the operator is stopping\n")
        process.stop()
        await running


async def test_an_operator_started_by_hand_does_not_displace_an_installed_one() -> None:
    async with cluster_with_definitions() as cluster:
        installed = operator.webhooks(Address(b"", service=(SPACE, "lws-webhook-service")), rollouts=False)
        for one in installed:
            await operator.apply_webhooks(cluster.client, one, "install")
        process = OperatorProcess(cluster.transport(), OperatorOptions(configuration(), "loopback"))
        with pytest.raises(ConfigurationError, match="behind Service lws-system/lws-webhook-service"):
            await process.run()


@pytest.mark.parametrize(("qps", "burst", "waits"), [(500, 500, False), (1, 1, True)])
def test_a_burst_is_not_held_back(qps: float, burst: int, waits: bool) -> None:
    """Forty sets at once take no time with the usual limits; with a limit of one a second they do, and the lease is
    renewed all the same."""

    async def story() -> None:
        async with cluster_with_definitions() as cluster:
            for number in range(SETS):
                await cluster.client.create(LEADER_WORKER_SETS, lws(f"llm-{number}").replicas(1).size(2), "default")
            limited = configuration(qps, burst, health="0")
            process = OperatorProcess(cluster.transport(), OperatorOptions(limited, "none", identity="only"))
            running = asyncio.create_task(process.run())
            begun = asyncio.get_running_loop().time()
            await cluster.until(lambda: len(cluster.objects(STATEFUL_SETS, "default")) == SETS, 300)
            took = asyncio.get_running_loop().time() - begun
            assert (took > SETS) == waits, took
            assert (await cluster.client.get(LEASES, LEASE, SPACE))["spec"]["holderIdentity"] == "only"
            process.stop()
            await running

    virtual_time.run(story())


def test_an_operator_carries_no_tools_that_it_seldom_needs() -> None:
    heavy = ("cryptography", "lupa", "re2", "rich", "kohort.cluster", "kohort.node")
    code = f"import sys, kohort.manager.operator_process; print([one for one in {heavy!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
