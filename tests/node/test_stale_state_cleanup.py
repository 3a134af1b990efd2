"""Real processes, networks and addresses whose agent was killed."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node.free_addresses import free_block

from kohort.node import emptydir, netlink, stale_state_cleanup
from kohort.node.block_marks import interface_of
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.runtimes.interface import Instance, Launch
from kohort.node.runtimes.process.process_launch import birth
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.service_network import ServiceNetwork
from kohort.objects.volumes import EmptyDir

ENV = {"PATH": os.environ["PATH"]}


async def abandoned(directory: Path, *ids: str) -> list[Instance]:
    """Containers that run, without an agent."""
    runtime = ProcessRuntime(directory / "runtime")
    launches = [Launch(id, ("/bin/sleep", "60"), ENV, log=str(directory / id)) for id in ids]
    found = [await runtime.start(launch) for launch in launches]
    await runtime.close(stop=False)
    return found


def supervisor_of(instance: Instance) -> int:
    return int(Path(f"/proc/{instance.pid}/stat").read_text().rpartition(")")[2].split()[1])


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def is_mounted_below(directory: Path) -> bool:
    return str(directory) in Path("/proc/self/mounts").read_text()


async def until(holds: Callable[[], bool]) -> None:
    """The kernel tells nobody, so look again until it is so."""
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_pods_end_and_their_supervisor_too(tmp_path: Path) -> None:
    containers = await abandoned(tmp_path, "uid1_a_0", "uid1_b_0", "uid2_a_3")
    supervisor = supervisor_of(containers[0])
    assert await stale_state_cleanup.end(tmp_path) == 2, "two pods with three containers"
    assert [birth(each.pid) for each in containers] == [None, None, None]
    await until(lambda: birth(supervisor) is None)
    assert await stale_state_cleanup.end(tmp_path) == 0, "nothing is left for a second time"


async def test_pods_whose_supervisor_was_killed_as_well_end(tmp_path: Path) -> None:
    (container,) = await abandoned(tmp_path, "uid1_a_0")
    supervisor = supervisor_of(container)
    os.kill(supervisor, signal.SIGKILL)
    await until(lambda: birth(supervisor) is None)
    assert birth(container.pid) == container.birth
    assert await stale_state_cleanup.end(tmp_path) == 1
    assert birth(container.pid) is None


async def test_daemons_end_though_their_container_and_its_supervisor_were_killed(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path / "runtime")
    script = f"setsid sleep 63 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/daemon; wait"
    container = await runtime.start(Launch("uid1_a_0", ("/bin/sh", "-c", script), ENV, log=str(tmp_path / "log")))
    await until((tmp_path / "daemon").exists)
    daemon = int((tmp_path / "daemon").read_text())
    await runtime.close(stop=False)
    for pid in (supervisor_of(container), container.pid):
        os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: birth(pid) is None)  # type: ignore[misc]
    assert birth(daemon) is not None
    await stale_state_cleanup.end(tmp_path)
    assert birth(daemon) is None


async def test_a_process_that_only_has_the_number_of_a_container_is_spared(tmp_path: Path) -> None:
    await abandoned(tmp_path, "uid1_a_0")
    kept = tmp_path / "runtime" / "instances" / "uid1_a_0.json"
    content = json.loads(kept.read_text())
    assert await stale_state_cleanup.end(tmp_path) == 1
    stranger = await asyncio.create_subprocess_exec("/bin/sleep", "60")
    born = birth(stranger.pid)
    assert born is not None
    content["instance"] |= {"pid": stranger.pid, "birth": born - 1}
    kept.write_text(json.dumps(content))
    assert await stale_state_cleanup.end(tmp_path) == 0
    assert birth(stranger.pid) is not None
    content["instance"]["birth"] = born
    kept.write_text(json.dumps(content))
    assert await stale_state_cleanup.end(tmp_path) == 1, "the time of its birth tells them apart"
    assert await stranger.wait() == -signal.SIGKILL


async def test_a_directory_without_anything_is_left_alone(tmp_path: Path) -> None:
    assert await stale_state_cleanup.end(tmp_path) == 0
    assert names_in(tmp_path) == []


async def test_networks_go_with_their_mounts_and_interfaces(tmp_path: Path) -> None:
    if not NetworkNamespaces.permitted():
        pytest.skip("the right to make networks is needed")
    address = str(free_block(tmp_path)[1])
    await NetworkNamespaces(tmp_path / "networks").ensure("uid1", address, None)
    assert interface_of(address) in names_in(Path("/sys/class/net"))
    await stale_state_cleanup.end(tmp_path)
    assert not is_mounted_below(tmp_path)
    assert names_in(tmp_path / "networks") == []
    await until(lambda: interface_of(address) not in names_in(Path("/sys/class/net")))


async def test_networks_of_some_pods_can_be_kept(tmp_path: Path) -> None:
    if not NetworkNamespaces.permitted():
        pytest.skip("the right to make networks is needed")
    networks, block = NetworkNamespaces(tmp_path / "networks"), free_block(tmp_path)
    for number, uid in enumerate(("stays", "goes"), 1):
        await networks.ensure(uid, str(block[number]), None)
    networks.remove_all(but={"stays"})
    assert names_in(tmp_path / "networks") == ["stays"]
    networks.remove_all()


async def test_addresses_are_given_back(tmp_path: Path) -> None:
    block = free_block(tmp_path)
    if not netlink.may_add_addresses(str(block.broadcast_address - 1)):
        pytest.skip("the right to add addresses is needed")
    record = tmp_path / "records" / "service-addresses"
    address = AddressBook(block, assigns=True, record=record).take("name server")
    await stale_state_cleanup.end(tmp_path)
    with pytest.raises(OSError):
        netlink.delete_address(address)
    assert record.read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="mounts and networks are needed")
async def test_what_services_and_volumes_have_left_goes_too(tmp_path: Path) -> None:
    networks, pods = NetworkNamespaces(tmp_path / "networks"), AddressBook(free_block(tmp_path))
    services = ServiceNetwork(networks, pods, tmp_path / "records" / "service-network")
    await services.start()
    await asyncio.to_thread(services.hold, {"10.96.0.77"})
    block = str(pods.network.network_address)
    emptydir.provide(EmptyDir("Memory"), tmp_path / "pods" / "u1" / "volumes" / "m", 1 << 20)
    assert is_mounted_below(tmp_path) and await is_ruled(block)
    await stale_state_cleanup.end(tmp_path)
    assert not is_mounted_below(tmp_path) and not await is_ruled(block)


async def is_ruled(block: str) -> bool:
    asked = await asyncio.create_subprocess_exec("ip", "rule", "list", stdout=asyncio.subprocess.PIPE)
    return f"from {block}/" in (await asked.communicate())[0].decode()


def test_directories_of_unknown_pods_are_removed(tmp_path: Path) -> None:
    for uid in ("known", "gone"):
        (tmp_path / "pods" / uid / "logs").mkdir(parents=True)
    stale_state_cleanup.remove_directories(stale_state_cleanup.orphaned_directories(tmp_path, {"known"}))
    assert names_in(tmp_path / "pods") == ["known"]
