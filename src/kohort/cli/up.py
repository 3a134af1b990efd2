"""`kohort up`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.objects.jsontypes import Json
from kohort.up import detached
from kohort.up.datadir import DataDirectory, default_directory
from kohort.up.failures import BadOption, CannotStart

if TYPE_CHECKING:
    from kohort.up.cluster import Options, Running

PATH = click.Path(path_type=Path)
DEFAULT_PORT = 6443


@click.command("up")
@click.option("--data-dir", type=PATH, help="Where the cluster lives.  [default: in the XDG data directory]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="Port; 0 for any free one."
)
@click.option(
    "--parts", default="", metavar="LIST", help="What to run, for example apiserver,workloads.  [default: all]"
)
@click.option("--kubeconfig", type=PATH, help="Another cluster to run the parts on, when apiserver is not one of them.")
@click.option("--feature-gates", default="", metavar="LIST", help="Of the API server: PodLevelResources=false,...")
@click.option("--detach", is_flag=True, help="Run in the background; return when the cluster is ready.")
@click.option(
    "--simulated-nodes", type=click.IntRange(0), default=0, metavar="N", help="Nodes whose pods only pretend to run."
)
@click.option("--simulated-capacity", default="", metavar="LIST", help="Of each: cpu=8,memory=64Gi,nvidia.com/gpu=4")
@click.option("--simulated-labels", default="", metavar="LIST", help="Of each: pool=a,disk=fast")
@click.option("--simulated-topology", default="", metavar="LIST", help="Equal blocks by label: example.com/rack=4")
@click.option(
    "--simulated-start", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="From bound to running."
)
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    parts: str,
    kubeconfig: Path | None,
    feature_gates: str,
    detach: bool,
    simulated_nodes: int,
    simulated_capacity: str,
    simulated_labels: str,
    simulated_topology: str,
    simulated_start: float,
) -> None:
    """Start a cluster on this machine, or continue the one in the data directory."""
    data = DataDirectory(data_dir or default_directory())
    try:
        simulation: dict[str, Json] = {}
        if simulated_nodes:
            simulation = {"nodes": simulated_nodes, "start_latency": simulated_start}
            simulation["capacity"] = amounts("--simulated-capacity", pairs("--simulated-capacity", simulated_capacity))
            simulation["labels"] = labels("--simulated-labels", pairs("--simulated-labels", simulated_labels))
            if simulated_topology:
                simulation["topology"] = blocks(pairs("--simulated-topology", simulated_topology))
        options = _options(data, host, port, parts, kubeconfig, simulation, feature_gates)
        if detach:
            server, note = detached.start(data, _arguments(data))
            _show(server, data.kubeconfig, note)
        else:
            _run(options)
    except CannotStart as failure:
        if detached.is_detached():
            detached.report_failure(str(failure))
        click.echo(f"kohort: {failure}", err=True)
        sys.exit(failure.exit_code)


def _arguments(data: DataDirectory) -> list[str]:
    """What this command was called with, for the process in the background."""
    given = click.get_current_context().params
    options = {
        name: value for name, value in given.items() if value not in (None, "") and name not in ("detach", "data_dir")
    }
    words = ["up", "--data-dir", str(data.path)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def pairs(option: str, text: str) -> dict[str, str]:
    """`a=1,b=2` as a mapping."""
    found: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise BadOption(f"{option}: {item!r} is not of the form name=value")
        found[name.strip()] = value.strip()
    return found


def amounts(option: str, given: Mapping[str, str]) -> dict[str, str]:
    """Resources and how much there is of each."""
    from kohort.objects.quantity import ZERO, Quantity

    _check_keys(option, given)
    for name, amount in given.items():
        try:
            fits = Quantity.parse(amount) >= ZERO
        except ValueError:
            fits = False
        if not fits:
            raise BadOption(f"{option}: {amount!r} is not an amount of {name}; write for example 8, 500m or 64Gi")
    return dict(given)


def labels(option: str, given: Mapping[str, str]) -> dict[str, str]:
    from kohort.objects.names import label_value

    _check_keys(option, given)
    for name, value in given.items():
        if problems := label_value(value):
            raise BadOption(f"{option}: {value!r} cannot be the value of {name}: {problems[0]}")
    return dict(given)


def _check_keys(option: str, given: Mapping[str, str]) -> None:
    from kohort.objects.names import qualified_name

    for name in given:
        if problems := qualified_name(name):
            raise BadOption(f"{option}: {name!r} is no name: {problems[0]}")


def blocks(given: Mapping[str, str]) -> dict[str, int]:
    _check_keys("--simulated-topology", given)
    for label, count in given.items():
        if not count.isdecimal() or int(count) < 1:
            raise BadOption(f"--simulated-topology: {label} must be divided into a number of blocks, not {count!r}")
    return {label: int(count) for label, count in given.items()}


def _options(
    data: DataDirectory,
    host: str,
    port: int,
    parts: str,
    kubeconfig: Path | None,
    simulation: Mapping[str, Json],
    feature_gates: str,
) -> "Options":
    # A person in front of the terminal wants problems, not progress.
    os.environ.setdefault("KOHORT_LOG", "warning")
    from kohort.cluster.apiserver.kinds import gates
    from kohort.up.cluster import Options
    from kohort.up.parts import chosen

    try:
        turned = gates.parse(feature_gates)
    except ValueError as problem:
        raise BadOption(f"--feature-gates: {problem}") from problem
    return Options(data, host, port, chosen(parts, simulated=bool(simulation)), simulation, kubeconfig, turned)


def _run(options: "Options") -> None:
    from kohort.up.process import run

    run(options, _ready)


def _ready(running: "Running") -> None:
    if detached.is_detached():
        detached.report_ready(running.server, running.note)
    else:
        _show(running.server, running.kubeconfig, running.note)


def _show(server: str, kubeconfig: Path, note: str) -> None:
    if note:
        click.echo(f"kohort: {note}", err=True)
    click.echo(f"ready {server}")
    click.echo(f"export KUBECONFIG={kubeconfig}")
