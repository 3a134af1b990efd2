"""`kohort node`: make this machine a node of a cluster, of this program's or of Kubernetes."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import click

from kohort.cli import option_types
from kohort.cli.connection import fail, print_error
from kohort.up.startup_errors import BadOption, CannotStart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kohort.kube.manager import Manager
    from kohort.kube.transport import HttpsTransport
    from kohort.node.runtimes.cri.discovery import RuntimeFacts
    from kohort.node.runtimes.interface import Runtime
    from kohort.rules.node_feature_gates import NodeGates


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="The cluster to join.")
@click.option("--name", default="", help="Name of the node.  [default: that of the machine]")
@click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where volumes, logs and records are kept."
)
@click.option(
    "--cgroup-parent",
    type=click.Path(path_type=Path, file_okay=False),
    help="The cgroup v2 directory to work in.  [default: /sys/fs/cgroup/kohort]",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of the node; may be repeated.")
@click.option(
    "--capacity",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="Capacity to report instead of the machine's own; may be repeated.",
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "cri", "process", "simulated"]),
    default="auto",
    show_default=True,
    help="What runs containers: a container runtime of this machine (cri), processes, or the former if there is one; "
    "or nothing (simulated).",
)
@option_types.runtime_endpoint
@option_types.share_runtime
@option_types.registry_credentials
@option_types.device_plugins
@click.option("--stop-pods", is_flag=True, help="End the pods when this command ends, instead of leaving them running.")
@click.option("--shared-network", is_flag=True, help="No network namespaces: pods use the machine's own network.")
@click.option(
    "--single-process-oom-kill",
    is_flag=True,
    help="When a container runs out of memory, end one of its processes, not the whole container.",
)
@click.option(
    "--feature-gates", default="", metavar="LIST", help="Feature gates of this node, such as PodLevelResources=false."
)
def command(
    kubeconfig: Path | None,
    name: str,
    data_dir: Path | None,
    cgroup_parent: Path | None,
    labels: tuple[str, ...],
    capacity: tuple[str, ...],
    runtime: str,
    runtime_endpoint: str,
    share_runtime: bool,
    registry_credentials: Path | None,
    device_plugins: Path | None,
    stop_pods: bool,
    shared_network: bool,
    single_process_oom_kill: bool,
    feature_gates: str,
) -> None:
    """Make this machine a node of a cluster: pods that are bound to it run in its container runtime, or as its
    processes."""
    from kohort.node.agent import NodeOptions
    from kohort.node.cgroups import warning_of_no_limits
    from kohort.node.machine_info import own_name
    from kohort.node.registration import ContainerOptions, default_directory, register
    from kohort.resources import Settings

    parsed = _parsed_options(name, labels, capacity, feature_gates)
    try:
        option_types.check_runtime_options(runtime, runtime_endpoint, share_runtime, registry_credentials)
    except BadOption as problem:
        raise click.UsageError(str(problem)) from problem
    transport = _transport(kubeconfig)
    facts = _container_runtime(runtime, runtime_endpoint, data_dir, share_runtime)
    if runtime != "simulated" and cgroup_parent is None and (unlimited := warning_of_no_limits()):
        print_error(unlimited)
    options = NodeOptions(
        name or own_name(),
        data_dir or default_directory(),
        labels=parsed.labels,
        capacity=parsed.capacity,
        api_server=transport.connection.server,
        stop_pods=stop_pods,
        gates=parsed.gates,
        device_plugins=device_plugins,
    )
    containers = ContainerOptions(
        runtime=facts,
        credentials_file=registry_credentials,
        cgroup_parent=cgroup_parent,
        settings=Settings(single_process_oom_kill=single_process_oom_kill),
        own_networks=not shared_network,
    )
    joining = partial(
        register,
        options=options,
        containers=containers,
        root_certificate=transport.connection.ca.decode(),
        runtime=_simulated() if runtime == "simulated" else None,
    )
    _run_until_signalled(transport, joining)


class _ParsedOptions(NamedTuple):
    labels: dict[str, str]
    capacity: dict[str, str]
    gates: "NodeGates"


def _parsed_options(
    name: str, labels: tuple[str, ...], capacity: tuple[str, ...], feature_gates: str
) -> _ParsedOptions:
    """Raises UsageError, also for a name that no node can have."""
    from kohort.node.machine_info import own_name
    from kohort.rules.node_feature_gates import NodeGates

    try:
        _check_name(name or own_name())
        return _ParsedOptions(
            option_types.labels("--label", option_types.pairs("--label", labels)),
            option_types.amounts("--capacity", option_types.pairs("--capacity", capacity)),
            NodeGates.parse(feature_gates),
        )
    except CannotStart as problem:
        raise click.UsageError(str(problem)) from problem
    except ValueError as problem:
        raise click.UsageError(f"--feature-gates: {problem}") from problem


def _transport(kubeconfig: Path | None) -> "HttpsTransport":
    from kohort.kube.kubeconfig import KubeconfigError, load

    try:
        return load(kubeconfig)
    except KubeconfigError as problem:
        fail(f"{problem}; name the cluster to join with --kubeconfig")


def _run_until_signalled(
    transport: "HttpsTransport", joining: "Callable[[Manager], Callable[[], Awaitable[None]]]"
) -> None:
    """Ends the process with a message where the machine cannot be this node."""
    from kohort.kube.private_files import NotPrivate
    from kohort.node.cgroups import NoLimits
    from kohort.node.single_agent_lock import NodeTaken

    try:
        asyncio.run(_run(transport, joining))
    except NodeTaken as taken:
        fail(str(taken))
    except NotPrivate as problem:
        fail(f"--data-dir: {problem}")
    except NoLimits as reason:
        fail(f"--cgroup-parent: {reason}")


async def _run(transport: "HttpsTransport", joining: "Callable[[Manager], Callable[[], Awaitable[None]]]") -> None:
    """Until a signal comes."""
    from kohort.kube.client import Client
    from kohort.kube.manager import Manager

    manager = Manager(Client(transport, user_agent="kohort-node"), name="node")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, manager.stop)
    try:
        await _announced(manager, joining(manager))
    finally:
        await transport.close()


async def _announced(manager: "Manager", registered: "Callable[[], Awaitable[None]]") -> None:
    async def announce() -> None:
        await registered()
        click.echo("node ready")

    announcing = asyncio.create_task(announce())
    try:
        await manager.run()
    finally:
        announcing.cancel()


def _check_name(name: str) -> None:
    """As the API has it; a label of the node repeats it, and labels are shorter. Raises BadOption."""
    from kohort.objects.names import dns1123_subdomain, label_value

    if problems := [*dns1123_subdomain(name), *label_value(name)]:
        raise BadOption(f"--name: {name!r} cannot be the name of a node: {problems[0]}")


def _container_runtime(wanted: str, endpoint: str, directory: Path | None, share: bool) -> "RuntimeFacts | None":
    """What runs containers, None for processes; the user is told which it is."""
    from kohort.node.registration import default_directory
    from kohort.node.runtimes.cri.discovery import CannotUseRuntime, choose

    if wanted not in ("auto", "cri", "process"):
        return None
    chosen = cast(Literal["auto", "cri", "process"], wanted)
    try:
        choice = asyncio.run(choose(chosen, endpoint, directory or default_directory(), share=share))
    except CannotUseRuntime as problem:
        fail(str(problem))
    if choice.note:
        print_error(choice.note)
    return choice.runtime


def _simulated() -> "Runtime":
    from kohort.node.runtimes.simulated import SimulatedRuntime

    return SimulatedRuntime()
