"""`kohort operator`, `manifests`: what is refused, and in which words."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kohort.cli.main import main

HEAD = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"


def test_version_has_three_lines() -> None:
    done = CliRunner().invoke(main, ["operator", "--version"])
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in done.output.splitlines()] == ["Version", "Build Date", "Git Commit"]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("leaderelection: {}", [], 'unknown field "leaderelection"'),
        ("", ["--leader-elect-lease-duration", "long"], "leaseDuration"),
        ("", ["--namespaces", "Nope"], "namespaces"),
        ("", ["--namespaces", " ,"], "--namespaces: names no namespace"),
        ("", ["--partition-percent-limit=-1"], "partitionPercentLimit: -1 is not a percentage"),
        ("", ["--zap-log-level", "loud"], "--zap-log-level: 'loud'"),
    ],
)
def test_a_wrong_configuration_ends_the_start(tmp_path: Path, text: str, words: list[str], expected: str) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(HEAD + text)
    done = CliRunner().invoke(main, ["operator", "--config", str(path), *words])
    assert done.exit_code == 1
    assert expected in done.output


def test_no_cluster_is_said_in_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["operator", "--kubeconfig", str(tmp_path / "missing")])
    assert done.exit_code == 1
    assert done.output.startswith("kohort: ")
    assert len(done.output.splitlines()) == 1


def test_manifests_are_yaml() -> None:
    done = CliRunner().invoke(main, ["manifests", "--namespace", "here", "--no-rollouts", "--namespaces", "a, b"])
    assert done.exit_code == 0
    objects = [*yaml.safe_load_all(done.output)]
    assert objects[0]["metadata"]["name"] == "here"
    assert [one["metadata"]["namespace"] for one in objects if one["kind"] == "Role"] == ["here", "a", "b"]
