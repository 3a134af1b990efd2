"""`kohort operator` takes options as the released manager does."""

import click
import pytest

from kohort.cli.go_flags import translated
from kohort.cli.operator import command


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--leader-elect=true"], ["--leader-elect"]),
        (["--leader-elect=1"], ["--leader-elect"]),
        (["-leader-elect"], ["--leader-elect"]),
        (["-leader-elect=false"], ["--no-leader-elect"]),
        (["--leader-elect"], ["--leader-elect"]),
        (["--no-leader-elect"], ["--no-leader-elect"]),
        (["--zap-devel=true"], ["--zap-devel"]),
        (["--zap-devel=false"], []),
        (["-zap-log-level", "-1"], ["--zap-log-level", "-1"]),
        (["-zap-log-level=2"], ["--zap-log-level=2"]),
        (["-metrics-bind-address=:8443", "--leader-elect=T"], ["--metrics-bind-address=:8443", "--leader-elect"]),
        (["--config=/controller_manager_config.yaml"], ["--config=/controller_manager_config.yaml"]),
        (["--", "-leader-elect"], ["--", "-leader-elect"]),
        (["--unknown=true", "-x"], ["--unknown=true", "-x"]),
    ],
)
def test_go_style_options(given: list[str], expected: list[str]) -> None:
    assert translated(given, command.params) == expected


def test_a_value_that_is_no_boolean_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="'maybe' is neither true nor false"):
        translated(["--leader-elect=maybe"], command.params)


def test_the_command_understands_them() -> None:
    context = command.make_context("operator", ["-leader-elect=false", "--webhook-port=9444", "-namespaces", "a,b"])
    assert (context.params["leader_elect"], context.params["webhook_port"]) == (False, 9444)
    assert context.params["namespaces"] == "a,b"
