"""`kohort up`."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from kohort.cli import option_types
from kohort.cli.connection import print_error
from kohort.cli.option_types import WholeNumber
from kohort.objects.json_types import Json
from kohort.up import detached
from kohort.up.data_directory import DataDirectory, default_directory
from kohort.up.startup_errors import BadOption, CannotStart

if TYPE_CHECKING:
    from kohort.dashboard.commands import Commands
    from kohort.up.cluster import RunningCluster, UpOptions

DEFAULT_PORT = 6443


@click.command("up")
@click.option(
    "--data-dir",
    type=option_types.SomePath(),
    help="Where the cluster keeps its data.  [default: in the XDG data directory]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=WholeNumber(0, 65535), default=DEFAULT_PORT, show_default=True, help="Port; 0 for any free one."
)
@click.option(
    "--parts", default="", metavar="LIST", help="Which parts to run, for example apiserver,workloads.  [default: all]"
)
@click.option(
    "--kubeconfig",
    type=option_types.SomePath(),
    help="The cluster to run the parts on, if apiserver is not one of them.",
)
@click.option(
    "--feature-gates",
    default="",
    metavar="LIST",
    help="Feature gates of the API server and of Rollouts, such as PodLevelResources=false.",
)
@click.option(
    "--default-resize-policy",
    type=click.Choice(["None", "Recreate"]),
    default="None",
    show_default=True,
    help="Whether the size of sets without resizePolicy may change: Recreate rolls their groups.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "cri", "process"]),
    default="auto",
    show_default=True,
    help="What runs containers: a container runtime of this machine (cri), processes, or the former if there is one.",
)
@option_types.runtime_endpoint
@option_types.share_runtime
@option_types.registry_credentials
@option_types.device_plugins
@click.option("--dashboard-actions", is_flag=True, help="Let users of the dashboard act, not only look.")
@click.option("--detach", is_flag=True, help="Run in the background; return when the cluster is ready.")
@click.option(
    "--simulated-nodes",
    type=WholeNumber(0),
    default=0,
    metavar="N",
    help="How many nodes to simulate; their pods only pretend to run.",
)
@click.option(
    "--simulated-capacity", default="", metavar="LIST", help="Capacity of each simulated node: cpu=8,memory=64Gi,..."
)
@click.option("--simulated-labels", default="", metavar="LIST", help="Labels of each simulated node: pool=a,disk=fast")
@click.option(
    "--simulated-topology",
    default="",
    metavar="LIST",
    help="Divide them into equal blocks by label: example.com/rack=4",
)
@click.option(
    "--simulated-start",
    type=option_types.Seconds(0),
    default=0.0,
    metavar="SECONDS",
    help="How long their pods take to start.",
)
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    parts: str,
    kubeconfig: Path | None,
    feature_gates: str,
    default_resize_policy: str,
    runtime: str,
    runtime_endpoint: str,
    share_runtime: bool,
    registry_credentials: Path | None,
    device_plugins: Path | None,
    dashboard_actions: bool,
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
        option_types.check_runtime_options(runtime, runtime_endpoint, share_runtime, registry_credentials)
        simulation: dict[str, Json] = {}
        if simulated_nodes:
            simulation = {"nodes": simulated_nodes, "start_latency": simulated_start}
            simulation |= _nodes(simulated_capacity, simulated_labels, simulated_topology)
        options = _options(data, host, port, parts, kubeconfig, simulation, feature_gates, default_resize_policy)
        options = replace(
            options,
            runtime=runtime,
            runtime_endpoint=runtime_endpoint,
            share_runtime=share_runtime,
            registry_credentials=registry_credentials,
            device_plugins=device_plugins,
            dashboard_commands=_dashboard_commands,
            dashboard_actions=dashboard_actions,
        )
        if detach:
            server, note = detached.start(data, _arguments(data))
            _show(server, data.export if options.is_cluster else "", note)
        else:
            _run(options)
    except CannotStart as failure:
        _refuse(failure)
    except OSError as error:
        _refuse(data.unusable(error))


def _dashboard_commands() -> "Commands":
    """Imported when the dashboard is used for the first time."""
    from kohort.cli.actions.dashboard_commands import CliCommands

    return CliCommands()


def _refuse(failure: CannotStart) -> NoReturn:
    if detached.is_detached():
        detached.report_failure(str(failure))
    print_error(str(failure))
    sys.exit(failure.exit_code)


def _arguments(data: DataDirectory) -> list[str]:
    """What this command was called with, for the process in the background."""
    given = click.get_current_context().params
    options = {
        name: value for name, value in given.items() if value not in (None, "") and name not in ("detach", "data_dir")
    }
    words = ["up", "--data-dir", str(data.path)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] if value else []
        else:
            words += [option, str(value)]
    return words


def _nodes(capacity: str, labels: str, topology: str) -> dict[str, Json]:
    """What the simulated nodes are like, from the options of these names."""
    option = "--simulated-capacity"
    nodes: dict[str, Json] = {
        "capacity": option_types.amounts(option, option_types.pairs(option, option_types.listed(capacity)))
    }
    option = "--simulated-labels"
    nodes["labels"] = option_types.labels(option, option_types.pairs(option, option_types.listed(labels)))
    if topology:
        option = "--simulated-topology"
        nodes["topology"] = option_types.blocks(option, option_types.pairs(option, option_types.listed(topology)))
    return nodes


def _options(
    data: DataDirectory,
    host: str,
    port: int,
    parts: str,
    kubeconfig: Path | None,
    simulation: Mapping[str, Json],
    feature_gates: str,
    default_resize_policy: str,
) -> "UpOptions":
    # A person in front of the terminal wants problems, not progress.
    os.environ.setdefault("KOHORT_LOG", "warning")
    from kohort.up.cluster import UpOptions
    from kohort.up.gates import divided
    from kohort.up.parts import chosen

    try:
        gates, release_gates = divided(feature_gates)
    except ValueError as problem:
        raise BadOption(f"--feature-gates: {problem}") from problem
    wanted = chosen(parts, simulated=bool(simulation))
    options = UpOptions(
        data, host, port, wanted, simulation, kubeconfig, gates, default_resize_policy, release_gates=release_gates
    )
    if kubeconfig is not None and options.is_cluster:
        raise BadOption("--kubeconfig names a cluster to run parts on; leave apiserver out of --parts, or --kubeconfig")
    return options


def _run(options: "UpOptions") -> None:
    from kohort.up.process import run

    if code := run(options, _ready):
        sys.exit(code)


def _ready(running: "RunningCluster") -> None:
    if detached.is_detached():
        detached.report_ready(running.server, running.note)
    else:
        _show(running.server, running.export, running.note)


def _show(server: str, export: str, note: str) -> None:
    if note:
        print_error(note)
    click.echo(f"ready {server}")
    if export:
        click.echo(export)
