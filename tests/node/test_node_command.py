"""`kohort node` beside `kohort up`, and what it says to those who call it wrongly."""

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.children import environment
from tests.node.processes import Bench, bench, data, shell

from kohort.cli.node import command
from kohort.cli.up import command as up
from kohort.kube.resources import NODES
from kohort.node.cgroups import NoLimits, usable_parent
from kohort.node.machine_info import own_name

__all__ = ["bench", "data"]


COMMAND = (sys.executable, "-m", "kohort", "node")


def node(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


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


@pytest.mark.parametrize(
    ("name", "rule"),
    [("Bad_Name", "a lowercase RFC 1123 subdomain must consist of"), ("n" * 64, "must be no more than 63 bytes")],
)
def test_a_name_that_no_node_can_have_is_refused_at_once(name: str, rule: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["--kubeconfig", str(tmp_path / "none"), "--name", name])
    assert result.exit_code == 2
    assert f"--name: '{name}' cannot be the name of a node: " in result.output and rule in result.output


@pytest.mark.parametrize("of", [command, up])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--runtime", "process", "--runtime-endpoint", "unix:///x"], "--runtime-endpoint: only for container"),
        (["--runtime", "process", "--share-runtime"], "--share-runtime: only for container runtimes"),
        (["--registry-credentials", "none"], "--registry-credentials: cannot read none: No such file"),
        (["--registry-credentials", "broken"], "--registry-credentials: broken is not a file as docker login"),
    ],
)
def test_options_of_container_runtimes_that_cannot_be_used_are_refused(
    of: click.Command, words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken").write_text("{")
    result = CliRunner().invoke(of, ["--kubeconfig", "none.yaml", *words])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert [each.name for each in tmp_path.iterdir()] == ["broken"]


def test_a_cgroup_that_cannot_be_used_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoLimits, match=f"^{tmp_path} is not a cgroup v2 directory$"):
        usable_parent(tmp_path / "below" / "it")
    assert not (tmp_path / "below").exists()
    (tmp_path / "cgroup.controllers").write_text("pids memory\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "cgroup.controllers").write_text("pids memory\n")
    with pytest.raises(NoLimits, match="has no controller for cpu"):
        usable_parent(tmp_path / "made")


@pytest.mark.e2e
def test_the_command_says_which_cgroup_cannot_be_used(bench: Bench, tmp_path: Path) -> None:
    words = ("--data-dir", str(tmp_path / "node"), "--name", "other", "--cgroup-parent", str(tmp_path / "none"))
    result = node("--kubeconfig", str(bench.data / "kubeconfig"), *words)
    expected = f"kohort: --cgroup-parent: {tmp_path} is not a cgroup v2 directory"
    assert (result.returncode, result.stderr.splitlines()[-1]) == (1, expected)


@pytest.mark.e2e
def test_a_node_without_pods_gives_back_what_it_took_of_the_machine(bench: Bench, tmp_path: Path) -> None:
    words = ("--kubeconfig", str(bench.data / "kubeconfig"), "--data-dir", str(tmp_path), "--name", "visitor")
    record = tmp_path / "records" / "service-addresses"
    with subprocess.Popen([*COMMAND, *words], env=environment(), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "node ready\n"
        taken = record.read_text().split()[::2] if record.exists() else []
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    if not taken:
        pytest.skip("no address can be added to this machine")
    assert record.read_text() == ""
    there = subprocess.run(["ip", "-4", "address", "show", "lo"], capture_output=True, text=True, check=True).stdout
    assert [address for address in taken if f" {address}/32 " in there] == []
