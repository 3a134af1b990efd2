"""Registers the node agent with a manager."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kohort.kube.errors import ApiError
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.private_files import private_directory
from kohort.kube.resources import CONFIG_MAPS, NODES, SECRETS
from kohort.node import single_agent_lock
from kohort.node.address_blocks import LOOPBACK_POOL
from kohort.node.agent import MARKERS, Agent, NodeOptions
from kohort.node.cgroups import node_cgroups, why_no_limits
from kohort.node.checkpoint import WriteObserver, unobserved
from kohort.node.machine_info import own_name
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan, AdoptedNetworks
from kohort.node.runtimes.interface import Runtime
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.objects.core import Node, Secret
from kohort.objects.meta import ObjectMeta
from kohort.objects.well_known_names import CLIENT_AUTHORITIES, CLIENT_AUTHORITY_KEY
from kohort.resources import Settings
from kohort.resources.cgroups import DEFAULT_SETTINGS
from kohort.rules.node_feature_gates import ALL_ON, NodeGates

if TYPE_CHECKING:
    from kohort.node.runtimes.cri.discovery import RuntimeFacts

MakeRuntime = Callable[[NodeOptions, AddressPlan], Runtime]
_log = Log(part="node")
_AUTHORITIES = (
    (CLIENT_AUTHORITIES, CLIENT_AUTHORITY_KEY),
    ("kube-root-ca.crt", "ca.crt"),
)


def register(
    manager: Manager,
    *,
    name: str = "",
    directory: Path | None = None,
    root_certificate: str = "",
    api_server: str = "",
    runtime: Runtime | None = None,
    containers: "RuntimeFacts | None" = None,
    credentials_file: Path | None = None,
    device_plugins: Path | None = None,
    cgroup_parent: Path | None = None,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    stop_pods: bool = True,
    own_networks: bool | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    gates: NodeGates = ALL_ON,
) -> Callable[[], Awaitable[None]]:
    """Make this machine a node called `name` (the machine's own name unless given).

    `containers` is the container runtime that runs the pods; otherwise they are processes of this machine.
    `credentials_file` has credentials for its registries. `runtime` is for tests: it gets no networks, names and
    cgroups. `device_plugins` is the folder where device plugins register; without it, there are none.

    `directory` holds volumes, logs and records. `root_certificate` is the authority whose client certificates may use
    the node's API; without it the cluster is asked. With `stop_pods` an orderly end of the manager ends the pods too;
    otherwise, and after any other end, they run on and are found again. Returns what to await for the node being
    registered.

    Every pod gets a network of its own where that is permitted, unless `own_networks` is false or, when it is not
    given, the environment says `KOHORT_NODE_NETWORK=shared`.

    The directory holds secrets of pods and is for this user alone. Containers that run as other users reach their
    volumes all the same: these are mounted into them, in a mount namespace of their own, before they change the user.

    Raises NodeTaken when the directory has another agent; so does the manager, when the name has one. Raises NotPrivate
    when other users may enter the directory.
    """
    if own_networks is None:
        own_networks = os.environ.get("KOHORT_NODE_NETWORK", "own") != "shared"
    place = directory or default_directory()
    private_directory(place, MARKERS)
    options = NodeOptions(
        *(name or own_name(), place, labels or {}, capacity or {}, api_server, stop_pods, gates),
        device_plugins=device_plugins,
    )
    lock = _locked(place, manager)
    try:
        if runtime is not None:
            agent = _simulated(manager, options, runtime)
        elif containers is not None:
            agent = container_agent(
                manager, options, containers, credentials_file, cgroup_parent, settings, own_networks=own_networks
            )
        else:
            agent = _agent(manager, options, _processes, cgroup_parent, settings, own_networks)
    except BaseException:
        lock.close()
        raise
    manager.background("node-api", lambda: _serve(manager, agent, place, root_certificate))

    async def registered() -> None:
        await agent.heartbeat.registered.wait()

    return registered


def container_agent(
    manager: Manager,
    options: NodeOptions,
    facts: "RuntimeFacts",
    credentials_file: Path | None = None,
    cgroup_parent: Path | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    observer: WriteObserver = unobserved,
    *,
    own_networks: bool = True,
) -> Agent:
    """An agent whose pods run in a container runtime."""
    make = partial(_container_runtime, manager, facts, credentials_file)
    options = msgspec.structs.replace(options, secrets_in_memory=True)
    other = facts.other_network if own_networks else ""
    agent = _agent(manager, options, make, cgroup_parent, settings, own_networks and not other, observer)
    if other:
        _report_other_network(manager, agent, other)
    return agent


def _agent(
    manager: Manager,
    options: NodeOptions,
    make_runtime: MakeRuntime,
    cgroup_parent: Path | None,
    settings: Settings,
    own_networks: bool,
    observer: WriteObserver = unobserved,
) -> Agent:
    name, directory = options.name, options.directory
    cgroups = node_cgroups(cgroup_parent, observer, settings)
    reason = "" if cgroups is not None else why_no_limits()
    addresses = AddressPlan.of_machine(name, directory, own_networks=own_networks)
    real = msgspec.structs.replace(options, no_limits_reason=reason)
    return Agent(manager, real, make_runtime(real, addresses), addresses, cgroups, observer)


def _simulated(manager: Manager, options: NodeOptions, runtime: Runtime) -> Agent:
    simulated = msgspec.structs.replace(options, no_limits_reason="containers are simulated")
    addresses = AddressPlan(AddressBook(LOOPBACK_POOL.first_choice(f"{options.name} {options.directory}")))
    return Agent(manager, simulated, runtime, addresses)


def _processes(options: NodeOptions, addresses: AddressPlan) -> Runtime:
    return ProcessRuntime(options.directory / "runtime")


def _container_runtime(
    manager: Manager,
    facts: "RuntimeFacts",
    credentials_file: Path | None,
    options: NodeOptions,
    addresses: AddressPlan,
) -> Runtime:
    from kohort.node.runtimes.cri import cni, discovery
    from kohort.node.runtimes.cri.client import CriClient
    from kohort.node.runtimes.cri.configuration import owner_label
    from kohort.node.runtimes.cri.image_pulls import RegistryImages
    from kohort.node.runtimes.cri.runtime import CriRuntime

    client = CriClient(facts.socket)

    async def secret(namespace: str, name: str) -> Secret | None:
        with contextlib.suppress(ApiError):
            found: Secret | None = await manager.client.find(SECRETS, name, namespace, type=Secret)
            return found
        return None

    images = RegistryImages(client, secret, credentials_file)
    networks = None
    if addresses.namespaces is not None:
        networks = cni.CniServer(facts.cni_agent(options.directory), AdoptedNetworks(addresses))
        networks.install()
    owner = owner_label(options.name, options.directory)
    discovery.record(options.directory, facts, owner)
    return CriRuntime(
        *(client, owner, facts.name, facts.version, images, networks),
        gives_exact_groups=facts.gives_exact_groups,
        sandbox_image=facts.sandbox_image,
    )


def _report_other_network(manager: Manager, agent: Agent, file: str) -> None:
    from kohort.node.runtimes.cri.discovery import shared_network

    async def report() -> None:
        node = Node(metadata=ObjectMeta(name=agent.state.machine.name))
        agent.recorder.warning(NODES, node, "NetworkShared", shared_network(file))

    _log.warning("the container runtime has another network; pods share the network of this machine", file=file)
    manager.prepare(report)


def _locked(directory: Path, manager: Manager) -> contextlib.ExitStack:
    """Held until the manager has ended and cleaned up everything else."""
    lock = contextlib.ExitStack()
    lock.callback(os.close, single_agent_lock.lock(directory))

    async def give_back() -> None:
        lock.close()

    manager.clean_up(give_back)
    return lock


def default_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "kohort" / "node"


async def _serve(manager: Manager, agent: Agent, directory: Path, authority: str) -> None:
    from kohort.node.api.listener import listen

    await listen(agent, directory, authority or await _found_authority(manager))


async def _found_authority(manager: Manager) -> str:
    """The certificate authority of the cluster's clients, from the ConfigMaps that publish it, as soon as one does."""
    while True:
        for name, key in _AUTHORITIES:
            with contextlib.suppress(ApiError):
                found = await manager.client.get(CONFIG_MAPS, name, "kube-system")
                if text := (found.get("data") or {}).get(key):
                    return str(text)
        await asyncio.sleep(1.0)
