"""The CNI plugin as a runtime calls it, with agents of several clusters; and what is left when they are gone."""

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.node.runtimes.cri.cni import CniServer
from kohort.node.runtimes.cri.cni_installation import (
    CONFIGURATION,
    LOOPBACK,
    PLUGIN,
    TRY_LATER,
    CniAgent,
    install,
    other_network,
    running_agents,
    uninstall,
)


class Networks:
    """Networks of the pods of one agent."""

    def __init__(self, uids: set[str], address: str) -> None:
        self.uids = uids
        self.address = address
        self.disconnected: list[str] = []

    def has(self, uid: str) -> bool:
        return uid in self.uids

    def connect(self, uid: str, namespace: str) -> str:
        return self.address

    def disconnect(self, uid: str, namespace: str) -> None:
        self.disconnected.append(uid)

    def raise_loopback(self, namespace: str) -> None:
        pass


@pytest.fixture
def agents() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kohort-") as directory:  # paths of sockets must be short
        yield Path(directory)


def agent(tmp_path: Path, name: str, folders: str = "cni") -> CniAgent:
    (tmp_path / name).mkdir(exist_ok=True)
    place = tmp_path / folders
    return CniAgent(str(tmp_path / name), "/run/runtime.sock", str(place / "bin"), str(place / "conf"))


def files(tmp_path: Path, folders: str = "cni") -> list[str]:
    return sorted(path.name for path in (tmp_path / folders).rglob("*") if path.is_file())


def call(tmp_path: Path, command: str, uid: str, plugin: str = PLUGIN) -> tuple[int, dict[str, object]]:
    environment = {"CNI_COMMAND": command, "CNI_IFNAME": "eth0", "CNI_NETNS": "/n", "CNI_ARGS": f"K8S_POD_UID={uid}"}
    program, config = str(tmp_path / "cni" / "bin" / plugin), json.dumps({"cniVersion": "0.4.0"})
    done = subprocess.run([program], input=config, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout or "{}")


async def test_the_plugin_finds_the_agent_of_a_pod_whoever_came_last(tmp_path: Path, agents: Path) -> None:
    networks = {"a": Networks({"pod-a"}, "198.18.1.1"), "b": Networks({"pod-b"}, "198.18.2.1")}
    servers = {name: CniServer(agent(tmp_path, name), each, agents) for name, each in networks.items()}
    for server in servers.values():
        server.install()
        await server.start()

    async def add(uid: str) -> tuple[int, str]:
        code, answer = await asyncio.to_thread(call, tmp_path, "ADD", uid)
        return code, str(answer.get("ips") or answer["msg"])

    code, found = await add("pod-a")
    assert code == 0 and "198.18.1.1/32" in found
    code, found = await add("pod-b")
    assert code == 0 and "198.18.2.1/32" in found
    await asyncio.to_thread(call, tmp_path, "DEL", "pod-a")
    assert (networks["a"].disconnected, networks["b"].disconnected) == (["pod-a"], [])
    assert await asyncio.to_thread(call, tmp_path, "DEL", "removed long ago") == (0, {})
    await servers["b"].close()
    servers["b"].uninstall()
    assert (await add("pod-a"))[0] == 0 and running_agents(agents) == [agent(tmp_path, "a")]
    assert await add("pod-b") == (1, "no node agent has this pod")
    assert (await asyncio.to_thread(call, tmp_path, "ADD", "pod-b", LOOPBACK))[0] == 0
    await servers["a"].close()
    assert await add("pod-a") == (1, "the node agent does not answer")
    assert running_agents(agents) == []


async def test_an_agent_that_hangs_holds_up_no_other(tmp_path: Path, agents: Path) -> None:
    server = CniServer(agent(tmp_path, "a"), Networks({"pod-a"}, "198.18.1.1"), agents)
    server.install()
    await server.start()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
            writer.close()

    hanging = await asyncio.start_unix_server(silent, str(agents / "0.sock"))
    async with hanging:
        code, _ = await asyncio.to_thread(call, tmp_path, "ADD", "pod-a")
        assert code == 0
    await server.close()


@pytest.mark.parametrize("words", [b"", b"{", b" " * 200_000])
async def test_a_caller_that_says_nothing_whole_is_no_fault_of_the_agent(
    tmp_path: Path, agents: Path, words: bytes
) -> None:
    """Agents look this way whether another one runs."""
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    server = CniServer(agent(tmp_path, "a"), Networks({"pod-a"}, "198.18.1.1"), agents)
    server.install()
    await server.start()
    reader, writer = await asyncio.open_unix_connection(str(server.socket))
    with contextlib.suppress(OSError):
        writer.write(words)
        writer.write_eof()
        assert await reader.read() == b""
    writer.close()
    assert (await asyncio.to_thread(call, tmp_path, "ADD", "pod-a"))[0] == 0
    await server.close()
    assert faults == []


async def test_a_server_without_an_entry_leaves_no_socket(tmp_path: Path, agents: Path) -> None:
    """One that only ends the pods of a killed agent."""
    server = CniServer(agent(tmp_path, "a"), Networks(set(), ""), agents)
    await server.start()
    await server.close()
    assert os.listdir(agents) == []


def test_the_last_agent_takes_away_what_was_written(tmp_path: Path, agents: Path) -> None:
    first, second, elsewhere = (agent(tmp_path, "a"), agent(tmp_path, "b"), agent(tmp_path, "c", "other"))
    for each in (first, second, elsewhere):
        install(each, agents)
    ours = sorted([CONFIGURATION, PLUGIN, LOOPBACK])
    uninstall(first, agents)
    assert files(tmp_path) == ours, "the second agent needs them"
    uninstall(second, agents)
    assert files(tmp_path) == [] and files(tmp_path, "other") == ours
    uninstall(second, agents)


def test_an_agent_whose_directory_is_gone_does_not_count(tmp_path: Path, agents: Path) -> None:
    gone, last = agent(tmp_path, "gone"), agent(tmp_path, "last")
    install(gone, agents)
    install(last, agents)
    os.rmdir(gone.directory)
    uninstall(last, agents)
    assert files(tmp_path) == [] and not list(agents.glob("*.json"))


def test_files_of_others_are_neither_replaced_nor_removed(tmp_path: Path, agents: Path) -> None:
    one = agent(tmp_path, "a")
    binaries, configurations = Path(one.binaries), Path(one.configurations)
    binaries.mkdir(parents=True)
    (binaries / LOOPBACK).write_bytes(b"\x7fELF of others")
    install(one, agents)
    (binaries / PLUGIN).write_text("#!/bin/sh\n# of an administrator, named kohort\n")
    (configurations / CONFIGURATION).write_text('{"plugins": [{"type": "kohort"}, {"type": "portmap"}]}')
    uninstall(one, agents)
    assert files(tmp_path) == sorted([CONFIGURATION, PLUGIN, LOOPBACK])
    assert (binaries / LOOPBACK).read_bytes() == b"\x7fELF of others"


@pytest.mark.parametrize(
    ("names", "any_other", "before_ours"),
    [
        ((), "", ""),
        ((CONFIGURATION, "README"), "", ""),
        ((CONFIGURATION, "87-podman.conflist"), "87-podman.conflist", ""),
        ((CONFIGURATION, "00-other.conf"), "00-other.conf", "00-other.conf"),
    ],
)
def test_networks_of_others(tmp_path: Path, names: tuple[str, ...], any_other: str, before_ours: str) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    assert os.path.basename(other_network(tmp_path)) == any_other
    assert os.path.basename(other_network(tmp_path, before_ours=True)) == before_ours


async def test_an_agent_of_another_runtime_does_not_answer_for_one_that_is_away(tmp_path: Path, agents: Path) -> None:
    install(agent(tmp_path, "away"), agents)
    other = CniServer(agent(tmp_path, "other", "other-cni"), Networks({"pod-b"}, "198.18.2.1"), agents)
    other.install()
    await other.start()
    try:
        code, answer = await asyncio.to_thread(call, tmp_path, "DEL", "pod-a")
        assert (code, answer["code"]) == (1, TRY_LATER)
        code, answer = await asyncio.to_thread(call, tmp_path, "ADD", "pod-b")
        assert (code, answer["msg"]) == (1, "the node agent does not answer")
    finally:
        await other.close()
