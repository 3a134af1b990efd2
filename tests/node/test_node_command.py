"""`kohort node` beside `kohort up`, and what it says to those who call it wrongly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.node.processes import Bench, bench, data, shell

from kohort.kube.resources import NODES
from kohort.node.starting import own_name

__all__ = ["bench", "data"]


def node(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kohort", "node", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.e2e
async def test_a_second_agent_for_the_same_node_is_refused_and_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    await bench.run("steady", shell("echo started; exec sleep 1000"))
    await bench.ready("steady")
    before = (await bench.client.get(NODES, own_name()))["status"]["daemonEndpoints"]
    connection = ("--kubeconfig", str(bench.data / "kubeconfig"))
    same_name = node(*connection, "--data-dir", str(tmp_path / "other"))
    assert same_name.returncode == 1
    assert same_name.stderr.splitlines()[-1].startswith(f'kohort: another agent runs the node "{own_name()}"')
    same_directory = node(*connection, "--data-dir", str(bench.data / "node"), "--name", "other")
    assert same_directory.returncode == 1
    assert same_directory.stderr.splitlines()[-1].startswith(f"kohort: a node runs on {bench.data}/node already (pid ")
    assert await bench.log("steady") == "started\n"
    assert (await bench.client.get(NODES, own_name()))["status"]["daemonEndpoints"] == before
    await bench.gone("steady")
