"""`kohort examples`: the manifests of the folder of that name, from wherever kohort is installed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kohort.cli.main import main
from kohort.install import examples

FOLDER = Path(__file__).parents[2] / "examples"


def test_all_are_listed_with_what_they_show() -> None:
    lines = CliRunner().invoke(main, ["examples"]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    (shown,) = [line for line in lines if line.startswith("blue-green ")]
    assert shown.endswith("Two full versions beside each other and one switch")


@pytest.mark.parametrize("name", ["llm", "llm.yaml"])
def test_one_is_printed_as_it_is(name: str) -> None:
    result = CliRunner().invoke(main, ["examples", name])
    assert (result.exit_code, result.stdout) == (0, (FOLDER / "llm.yaml").read_text())


def test_a_name_that_does_not_exist_is_answered_with_those_that_do() -> None:
    result = CliRunner().invoke(main, ["examples", "lmm"])
    assert result.exit_code == 1
    assert result.stderr.startswith("kohort: there is no example 'lmm'; there are autoscaler, blue-green, ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One. Two.\nkind: A", "One"),
        ("# One\n# more of it.\n#\n#   a command\nkind: A", "One more of it"),
        ("kind: A", ""),
    ],
)
def test_the_summary_is_the_first_sentence_of_the_head(text: str, expected: str) -> None:
    assert examples.summary(text) == expected
