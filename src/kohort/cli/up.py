"""`kohort up`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.up import detached
from kohort.up.datadir import DataDirectory, default_directory
from kohort.up.failures import CannotStart

if TYPE_CHECKING:
    from kohort.up.cluster import Running


@click.command("up")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where the cluster lives.  [default: XDG data directory]"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="Port; 0 for any free one."
)
@click.option("--simulated-nodes", type=click.IntRange(0), default=0, metavar="N", help="Nodes that only pretend.")
@click.option(
    "--parts", default="", metavar="LIST", help="What to run, for example apiserver,workloads.  [default: all]"
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Another cluster to run parts other than apiserver on."
)
@click.option("--detach", is_flag=True, help="Run in the background; return when the cluster is ready.")
def command(
    data_dir: Path | None,
    host: str,
    port: int,
    simulated_nodes: int,
    parts: str,
    kubeconfig: Path | None,
    detach: bool,
) -> None:
    """Start a cluster on this machine, or continue the one in the data directory."""
    data = DataDirectory(data_dir or default_directory())
    try:
        if detach:
            arguments = ["--data-dir", str(data.path), "--host", host, "--port", str(port), "--parts", parts]
            arguments += ["--simulated-nodes", str(simulated_nodes)]
            arguments += ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
            _show(detached.start(data, ["up", *arguments]), data.kubeconfig)
        else:
            _run(data, host, port, simulated_nodes, parts, kubeconfig)
    except CannotStart as failure:
        if detached.is_detached():
            detached.report_failure(str(failure))
        click.echo(f"kohort: {failure}", err=True)
        sys.exit(1)


def _run(data: DataDirectory, host: str, port: int, simulated_nodes: int, parts: str, kubeconfig: Path | None) -> None:
    # A person in front of the terminal wants problems, not progress.
    os.environ.setdefault("KOHORT_LOG", "warning")
    from kohort.up.cluster import Options
    from kohort.up.parts import chosen
    from kohort.up.process import run

    run(Options(data, host, port, chosen(parts), simulated_nodes, kubeconfig), _ready)


def _ready(running: "Running") -> None:
    if detached.is_detached():
        detached.report_ready(running.server)
    else:
        _show(running.server, running.kubeconfig)


def _show(server: str, kubeconfig: Path) -> None:
    click.echo(f"ready {server}")
    click.echo(f"export KUBECONFIG={kubeconfig}")
