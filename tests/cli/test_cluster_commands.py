"""The click commands as a person calls them: options, errors, exit codes, over a socket."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from tests.builders import lws
from tests.children import environment

from kohort.cli.actions import plan
from kohort.cli.main import COMMANDS, main
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.testing import Cluster

ON_CLUSTERS = (
    *("get", "status", "explain", "history", "diff", "undo", "pause", "resume", "approve", "abort", "restart", "logs"),
    *("resize", "plan"),
)


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def arguments_of(name: str) -> list[str]:
    more = {"resize": ["llm", "--size", "2"], "plan": ["-f", "-"]}
    return [name, *more.get(name, ["llm"])]


async def run(*arguments: str) -> tuple[int, str, str]:
    """As a process of its own, so that this one can serve it."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kohort",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    out, err = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode is not None
    return child.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_a_kubeconfig_that_does_not_exist(name: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    code, out, err = invoke(*arguments_of(name), "--kubeconfig", missing)
    assert (code, out) == (1, "")
    assert err == f"kohort: {missing}: no such file; `kohort up --detach` starts a cluster on this machine\n"


def test_the_cluster_of_the_kubeconfig_in_use_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data directory is not the default one; nothing runs there."""
    data = tmp_path / "second"
    (data / "pki").mkdir(parents=True)
    (data / "kubeconfig").write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "first"))
    monkeypatch.setenv("KUBECONFIG", str(data / "kubeconfig"))
    assert invoke("status", "--cluster") == (1, "", f"kohort: kohort is not running on {data}\n")
    chosen = invoke("status", "--cluster", "--data-dir", str(tmp_path / "third"))
    assert chosen == (1, "", f"kohort: kohort is not running on {tmp_path / 'third'}\n")
    _, _, err = invoke("get")
    assert f"is the cluster running? (kohort up --detach --data-dir {data}, or" in err
    foreign = tmp_path / "kubeconfig"
    foreign.write_text((data / "kubeconfig").read_text())
    monkeypatch.setenv("KUBECONFIG", str(foreign))
    default = tmp_path / "first" / "kohort"
    assert invoke("status", "--cluster") == (1, "", f"kohort: kohort is not running on {default}\n")


@pytest.mark.parametrize("command", [["get"], ["install"], ["uninstall", "--yes"]], ids=" ".join)
def test_a_cluster_that_does_not_answer(command: list[str], tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    code, _, err = invoke(*command, "--kubeconfig", str(config))
    assert code == 1
    assert err.startswith("kohort: no answer: http://127.0.0.1:9 cannot be reached; is the cluster running?")
    assert "is the cluster running? (kohort up --detach" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", [["get"], ["install"], ["uninstall", "--yes"]], ids=" ".join)
def test_a_context_that_does_not_exist(command: list[str], tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: a, context: {}}]\ncurrent-context: a\n")
    code, _, err = invoke(*command, "--kubeconfig", str(config), "--context", "b")
    assert (code, "no context 'b' (there are: a)" in err) == (1, True)


def test_uninstall_has_only_options_that_it_uses() -> None:
    _, out, _ = invoke("uninstall", "--help")
    assert sorted(set(re.findall(r"--[a-z-]+", out))) == sorted(
        ["--context", "--help", "--keep-objects", "--kubeconfig", "--namespace", "--yes"]
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: b: c\n", " is not YAML: line 1, column 5: mapping values are not allowed here"),
        ("contexts: a\n", ": contexts must be a list of entries with a name and a context"),
        ("clusters: [{cluster: {}}]\n", ": clusters must be a list of entries with a name and a cluster"),
    ],
)
def test_a_kubeconfig_that_is_broken(text: str, complaint: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    code, _, err = invoke("get", "--kubeconfig", str(config))
    assert (code, err) == (1, f"kohort: {config}{complaint}; fix the file, or choose another with --kubeconfig\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["get", "pod/llm"], "'pod/llm' names no workload: write the name of a LeaderWorkerSet, deployment/NAME"),
        (["resize", "", "--cpu", "1"], "'' names no workload"),
        (["failures", ".."], "'..' names no workload"),
        (["undo", "llm%2Fscale"], "'llm%2Fscale' names no workload"),
        (["get", "deployment/web/scale"], "'deployment/web/scale' names no workload"),
        (["resize", "deployment/web", "--size", "3"], "is not a LeaderWorkerSet: write its name, or lws/NAME"),
        (["resize", "llm"], "give --cpu, --memory or both; or --policy or --deadline; or --size"),
        (["resize", "llm", "--size", "3", "--cpu", "2"], "give either --size, or --cpu and/or --memory"),
        (["resize", "llm", "--size", "0"], "'0' is not a whole number of 1 or more"),
        (["resize", "llm", "--deadline", "soon"], "'soon' is not a whole number from 1 to 86400"),
        (["resize", "llm", "--deadline", "86401"], "'86401' is not a whole number from 1 to 86400"),
        (["status", "llm", "--timeout", "nan"], "'nan' is not a number of seconds of 0 or more"),
        (["status", "llm", "--timeout", "-1"], "'-1' is not a number of seconds of 0 or more"),
        (["status"], "Missing argument 'NAME'"),
        (["get", "-o", "xml"], "'xml' is not one of"),
        (["plan"], "give either -f FILE or --drain NODE"),
    ],
)
def test_a_command_line_that_makes_no_sense(arguments: list[str], text: str) -> None:
    code, _, err = invoke(*arguments)
    assert code == 2
    assert text in err


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    code, _, err = invoke("plan", "-f", str(tmp_path / "none.yaml"))
    assert (code, err) == (1, f"kohort: cannot read {tmp_path / 'none.yaml'}: No such file or directory\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    code, out, _ = invoke("completion", shell)
    assert code == 0
    assert "_KOHORT_COMPLETE" in out


def test_version_for_programs() -> None:
    from kohort import __version__

    assert json.loads(invoke("version", "-o", "json")[1]) == {"version": __version__}


async def test_commands_over_a_socket(tmp_path: Path) -> None:
    """What the in-process tests cannot show: kubeconfig, namespace and exit codes of a real process."""
    async with (
        Cluster(parts=("workloads", "scheduler", "operator"), nodes=4) as cluster,
        cluster.listening() as address,
    ):
        config = ["--kubeconfig", str(address.kubeconfig(tmp_path))]
        await cluster.client.create(LEADER_WORKER_SETS, lws("llm").replicas(2).size(2), "default")
        code, out, err = await run("status", "-w", "lws/llm", "--timeout", "600", *config)
        assert (code, err) == (0, "")
        assert out.splitlines()[-1].endswith("2/2 groups at revision 1 and ready, 2 ready in all  Available")
        code, out, _ = await run("get", "-o", "json", *config)
        assert (code, json.loads(out)[0]["ready"]) == (0, 2)
        code, _, err = await run("explain", "llm", "-n", "elsewhere", *config)
        assert (code, err) == (
            1,
            "kohort: there is no LeaderWorkerSet llm in namespace elsewhere, but in default: -n default\n",
        )
        file = tmp_path / "llm.yaml"
        file.write_text(json.dumps(lws("llm").replicas(3).size(2)))
        code, out, err = await run("plan", "-f", str(file), "--exit-code", *config)
        assert (code, err) == (4, "")
        assert "would be scaled" in out


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["get", "--help"], ["explain", "--help"]])
def test_help_is_quick(arguments: list[str]) -> None:
    """150 ms of processor time, the best of five: a shared machine must not make this fail."""
    best = 9.9
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-m", "kohort", *arguments], env=environment(), capture_output=True, check=True)
        after = os.times()
        best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
    assert best < 0.150


def test_every_command_is_in_the_overview() -> None:
    assert set(ON_CLUSTERS) <= set(COMMANDS)


def contexts(tmp_path: Path) -> str:
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: here, context: {cluster: a}}, {name: there, context: {cluster: a}}]\ncurrent-context: here\n"
    )
    return str(config)


def offered(*words: str) -> list[str]:
    """Behind the last of the words, which is being typed."""
    *before, begun = words
    return [one.value for one in ShellComplete(main, {}, "kohort", "_X").get_completions(before, begun)]


def test_the_cluster_may_be_named_before_the_command(tmp_path: Path) -> None:
    config = contexts(tmp_path)
    _, _, err = invoke("--kubeconfig", config, "--context", "nowhere", "get")
    assert "no context 'nowhere' (there are: here, there)" in err
    _, _, err = invoke("--kubeconfig", config, "--context", "nowhere", "get", "--context", "neither")
    assert "no context 'neither'" in err
    code, _, err = invoke("--context", "here", "down")
    assert (code, "`kohort down` has no --context" in err) == (2, True)


def test_a_shell_is_offered_contexts(tmp_path: Path) -> None:
    config = contexts(tmp_path)
    assert offered("--kubeconfig", config, "get", "--context", "") == ["here", "there"]
    assert offered("get", "--kubeconfig", config, "--context", "th") == ["there"]


def test_a_shell_is_offered_nothing_by_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    config = contexts(tmp_path)
    assert offered("get", "--kubeconfig", config, "") == []
    assert offered("get", "--kubeconfig", str(tmp_path / "none"), "") == []


def test_plan_reads_the_manifests_of_a_directory(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json", "notes.txt"):
        (tmp_path / name).write_text(name)
    assert plan.read([str(tmp_path)]) == {str(tmp_path / name): name for name in ("a.json", "b.yaml")}
    empty = tmp_path / "empty"
    empty.mkdir()
    code, _, err = invoke("plan", "-f", str(empty))
    assert (code, err) == (1, f"kohort: {empty} holds no manifests (.json, .yaml, .yml)\n")


def test_an_answer_that_cannot_be_written(tmp_path: Path) -> None:
    script = f"{sys.executable} -m kohort completion bash > /dev/full; exit $?"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
