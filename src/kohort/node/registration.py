"""Registers the node agent with a manager."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
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
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan, AdoptedNetworks
from kohort.node.runtimes.interface import Runtime
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.objects.core import Node, Secret
from kohort.objects.meta import ObjectMeta
from kohort.objects.well_known_names import CLIENT_AUTHORITIES, CLIENT_AUTHORITY_KEY
from kohort.resources import Settings
from kohort.resources.cgroups import DEFAULT_SETTINGS

if TYPE_CHECKING:
    from kohort.node.runtimes.cri.discovery import RuntimeFacts

MakeRuntime = Callable[[NodeOptions, AddressPlan], Runtime]
_log = Log(part="node")
_AUTHORITIES = (
    (CLIENT_AUTHORITIES, CLIENT_AUTHORITY_KEY),
    ("kube-root-ca.crt", "ca.crt"),
)


class ContainerOptions(msgspec.Struct, frozen=True):
    """How the containers of a node run."""

    runtime: "RuntimeFacts | None" = None
    """The container runtime; None for processes of this machine."""
    credentials_file: Path | None = None
    """Credentials for its registries."""
    cgroup_parent: Path | None = None
    settings: Settings = DEFAULT_SETTINGS
    own_networks: bool | None = None
    """Whether every pod gets a network of its own, where that is permitted. By default it does, unless the environment
    says `KOHORT_NODE_NETWORK=shared`."""

    @property
    def gives_networks(self) -> bool:
        if self.own_networks is None:
            return os.environ.get("KOHORT_NODE_NETWORK", "own") != "shared"
        return self.own_networks


AS_PROCESSES = ContainerOptions()


def register(
    manager: Manager,
    options: NodeOptions,
    containers: ContainerOptions = AS_PROCESSES,
    *,
    root_certificate: str = "",
    runtime: Runtime | None = None,
) -> Callable[[], Awaitable[None]]:
    """Make this machine a node. Returns what to await for the node being registered.

    `root_certificate` is the authority whose client certificates may use the node's API; without it the cluster is
    asked. `runtime` only pretends to run containers: it gets no networks, names and cgroups.

    With `stop_pods` of the options, an orderly end of the manager ends the pods too; otherwise, and after any other
    end, they run on and are found again.

    The directory holds secrets of pods and is for this user alone. Containers that run as other users reach their
    volumes all the same: these are mounted into them, in a mount namespace of their own, before they change the user.

    Raises NodeTaken when the directory has another agent; so does the manager, when the name has one. Raises NotPrivate
    when other users may enter the directory.
    """
    place = options.directory
    private_directory(place, MARKERS)
    lock = _locked(place, manager)
    try:
        agent = _simulated(manager, options, runtime) if runtime is not None else _real(manager, options, containers)
    except BaseException:
        lock.close()
        raise
    manager.background("node-api", lambda: _serve(manager, agent, place, root_certificate))

    async def registered() -> None:
        await agent.heartbeat.registered.wait()

    return registered


def _real(manager: Manager, options: NodeOptions, containers: ContainerOptions) -> Agent:
    parent, settings, own_networks = containers.cgroup_parent, containers.settings, containers.gives_networks
    if containers.runtime is None:
        return _agent(manager, options, _processes, parent, settings, own_networks)
    facts, credentials = containers.runtime, containers.credentials_file
    return container_agent(manager, options, facts, credentials, parent, settings, own_networks=own_networks)


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
