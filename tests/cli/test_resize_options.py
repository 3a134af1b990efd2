"""Options of `kohort resize` that cannot be given together."""

import pytest
from click.testing import CliRunner

from kohort.cli.resize import command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "give --cpu, --memory or both; or --policy or --deadline; or --size"),
        ("--dry-run", "give --cpu, --memory or both"),
        ("--size 2 --cpu 1", "give either --size, or --cpu and/or --memory"),
        ("--size 2 --memory 1Gi", "give either --size, or --cpu and/or --memory"),
        ("--size 2 --policy InPlaceOnly", "give either --size, or --cpu and/or --memory"),
        ("--size 2 --deadline 60", "give either --size, or --cpu and/or --memory"),
        ("--pod --size 2", "--pod is about pods as a whole"),
        ("--pod --cpu 1 --container main", "--pod is about pods as a whole"),
        ("--pods-only --cpu 1 --policy InPlaceOnly", "--pods-only is about running pods"),
        ("--pods-only --cpu 1 --deadline 60", "--pods-only is about running pods"),
        ("--pods-only --cpu 1 --recreate", "--pods-only is about running pods"),
        ("--pods-only --size 2", "--pods-only is about running pods"),
        ("--allow-restart --cpu 1", "--allow-restart is for --pods-only"),
        ("--pods-only --cpu 1 -o json", "--output, --wait and --timeout are for changes of --cpu and --memory in the"),
        ("--pods-only --cpu 1 --timeout 5", "--output, --wait and --timeout are for"),
        ("--size 2 --dry-run --timeout 3", "--output, --wait and --timeout are for"),
        ("--size 2 -o yaml", "--output, --wait and --timeout are for"),
        ("--size 2 --role worker", "--role and --container are for --cpu and --memory"),
        ("--policy InPlaceOnly --recreate", "--recreate contradicts --policy"),
        ("--cpu much", "'much' is not an amount"),
    ],
)
def test_what_contradicts_each_other_is_said(options: str, said: str) -> None:
    result = CliRunner().invoke(command, ["llm", *options.split()])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    "options",
    [
        "--cpu 1",
        "--memory 1Gi --role worker --container main",
        "--size 2 --recreate",
        "--size 2 --dry-run -o json",
        "--policy InPlaceOnly",
        "--deadline 60",
        "--cpu 1 --recreate",
        "--pod --memory 1Gi",
        "--cpu 1 --pods-only --allow-restart",
        "--cpu 0",
        "--cpu 1 --wait --timeout 5 -o json",
    ],
)
def test_what_can_be_given_together_is_not_refused(options: str) -> None:
    """It goes on to the cluster, which is not there."""
    result = CliRunner().invoke(command, ["llm", "--kubeconfig", "/does/not/exist", *options.split()])
    assert result.exit_code == 1
    assert "/does/not/exist" in result.output
