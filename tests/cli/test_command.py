"""The command line itself."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.children import imports

from kohort import __version__
from kohort.cli.main import COMMANDS, main
from kohort.cli.option_types import blocks, listed, pairs
from kohort.up.startup_errors import CannotStart


def test_help_names_every_command() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    assert all(f"  {name} " in output for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")


def test_version() -> None:
    assert CliRunner().invoke(main, ["version"]).output == f"kohort {__version__}\n"
    assert CliRunner().invoke(main, ["--version"]).output == f"kohort {__version__}\n"


def test_a_revision_is_named_as_kubectl_names_it_too() -> None:
    command = main.get_command(click.Context(main), "undo")
    assert command is not None
    for option in ("--to", "--to-revision"):
        assert command.make_context("undo", ["llm", option, "3"]).params["to"] == 3


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["version"]])
def test_help_does_not_load_what_it_does_not_need(arguments: list[str]) -> None:
    """Each of these takes longer to import than a person waits for help."""
    code = (
        "import sys; from kohort.cli.main import main; main(standalone_mode=False); "
        "print([name for name in ('aiohttp', 'cryptography', 'yaml', 'asyncio') if name in sys.modules])"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=imports(), capture_output=True, text=True, timeout=30, check=True
    )
    assert child.stdout.splitlines()[-1] == "[]"


def test_an_unknown_command_is_an_error() -> None:
    assert CliRunner().invoke(main, ["fly"]).exit_code == 2


def test_an_unknown_part_is_one_line_on_stderr(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "data"), "--parts", "etcd"])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("kohort: there is no part 'etcd'")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["up", "down"])
def test_an_empty_path_is_not_the_current_directory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [name, "--data-dir", ""])
    assert (result.exit_code, "'--data-dir': the path is empty" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_of_its_own_needs_no_kubeconfig(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "data"), "--kubeconfig", str(tmp_path / "k")])
    assert (result.exit_code, "leave apiserver out of --parts" in result.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


def test_down_without_a_cluster(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["down", "--data-dir", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, f"kohort is not running on {tmp_path}\n")


def test_down_gives_up_pods_of_a_runtime_that_was_uninstalled_only_when_it_is_told_to(tmp_path: Path) -> None:
    record, configuration = tmp_path / "node" / "records" / "runtime.json", tmp_path / "cni"
    record.parent.mkdir(parents=True)
    runtime = {
        "socket": str(tmp_path / "gone.sock"),
        "owner": "node-1",
        "cni_binaries": str(configuration),
        "cni_configurations": str(configuration),
    }
    record.write_text(json.dumps(runtime))
    refused = CliRunner().invoke(main, ["down", "--data-dir", str(tmp_path)])
    assert (refused.exit_code, "kohort down --force" in refused.stderr, record.exists()) == (1, True, True)
    forced = CliRunner().invoke(main, ["down", "--data-dir", str(tmp_path), "--force"])
    assert forced.exit_code == 0, forced.output
    assert forced.output.startswith(f"gave up the pods in the container runtime at {tmp_path}/gone.sock")
    assert "crictl pods --label node.kohort.dev/node=node-1" in forced.output
    after = CliRunner().invoke(main, ["down", "--data-dir", str(tmp_path)])
    assert (after.exit_code, after.output) == (0, f"kohort is not running on {tmp_path}\n")


def test_lists_of_pairs() -> None:
    assert pairs("--x", listed("cpu=8, example.com/gpu=2,")) == {"cpu": "8", "example.com/gpu": "2"}
    assert blocks("--x", {"rack": "4"}) == {"rack": 4}


@pytest.mark.parametrize("text", ["cpu", "=8", "cpu=1,memory"])
def test_what_is_no_pair_is_named(text: str) -> None:
    with pytest.raises(CannotStart, match=r"--x: .* is not of the form name=value"):
        pairs("--x", listed(text))


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_what_is_no_number_of_blocks_is_named(count: str) -> None:
    with pytest.raises(CannotStart, match="rack must be divided"):
        blocks("--x", {"rack": count})


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--simulated-capacity", "cpu=abc", "'abc' is not an amount of cpu; write for example 8, 500m or 64Gi"),
        ("--simulated-capacity", "cpu=4,memory=-1Gi", "'-1Gi' is not an amount of memory;"),
        ("--simulated-capacity", "cpu=", "'' is not an amount of cpu;"),
        ("--simulated-capacity", "c pu=1", "'c pu' is not a valid name: name part must consist of"),
        ("--simulated-labels", "pool=a b", "'a b' cannot be the value of pool: a valid label must be"),
        ("--simulated-labels", "a/b/c=d", "'a/b/c' is not a valid name: a valid label key must consist of"),
        ("--simulated-topology", "a/b/c=2", "'a/b/c' is not a valid name: a valid label key must consist of"),
    ],
)
def test_simulated_nodes_that_cannot_be_are_refused_at_once(tmp_path: Path, option: str, value: str, text: str) -> None:
    result = CliRunner().invoke(
        main, ["up", "--data-dir", str(tmp_path / "data"), "--simulated-nodes", "2", option, value]
    )
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert result.stderr.startswith(f"kohort: {option}: {text}")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--capacity", "cpu=abc"), ("--capacity", "memory=-1"), ("--label", "pool=a b")]
)
def test_a_node_that_cannot_be_is_refused_at_once(option: str, value: str) -> None:
    result = CliRunner().invoke(main, ["node", option, value])
    assert (result.exit_code, f"{option}: '{value.partition('=')[2]}' " in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--port", "70000"),
        ("--port", "http"),
        ("--simulated-nodes", "-1"),
        ("--simulated-start", "-1"),
        ("--simulated-start", "inf"),
        ("--simulated-start", "nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path: Path, option: str, value: str) -> None:
    result = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "data"), option, value])
    assert result.exit_code == 2
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("value", ["A B", "good,Bad", "-a"])
def test_namespaces_that_cannot_be_are_refused(value: str) -> None:
    result = CliRunner().invoke(main, ["manifests", f"--namespaces={value}"])
    assert (result.exit_code, result.stdout, "cannot be a namespace" in result.stderr) == (2, "", True)


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_gate_that_is_unknown_is_refused_in_front_and_behind(tmp_path: Path, detach: list[str]) -> None:
    words = ["up", "--data-dir", str(tmp_path / "data"), "--feature-gates", "Foo=true", *detach]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stderr.startswith("kohort: --feature-gates: ")) == (2, True)
    assert not (tmp_path / "data").exists()


def test_sets_are_not_removed_by_a_command_that_cannot_ask(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["uninstall", "--kubeconfig", str(tmp_path / "none")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "kohort: this would remove all sets and their pods: add --yes to confirm, or --keep-objects to keep them\n"
    )


def test_a_node_of_no_cluster(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["node", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert result.stderr.startswith("kohort: ")


@pytest.mark.parametrize(("typed", "meant"), [("statuss", "status"), ("exlpain", "explain"), ("dmeo", "demo")])
def test_a_misspelt_command(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, [typed])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean `kohort {meant}`?" in result.stderr
