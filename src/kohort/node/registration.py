"""Registers the node agent with a manager."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from kohort.kube.errors import ApiError
from kohort.kube.manager import Manager
from kohort.kube.private_files import private_directory
from kohort.kube.resources import CONFIG_MAPS
from kohort.node import single_agent_lock
from kohort.node.address_blocks import LOOPBACK_POOL
from kohort.node.agent import MARKERS, Agent, NodeOptions
from kohort.node.cgroups import node_cgroups, why_no_limits
from kohort.node.machine_info import own_name
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan
from kohort.node.runtimes.interface import Runtime
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.resources import Settings
from kohort.resources.cgroups import DEFAULT_SETTINGS
from kohort.rules.node_feature_gates import ALL_ON, NodeGates

_AUTHORITIES = (("extension-apiserver-authentication", "client-ca-file"), ("kube-root-ca.crt", "ca.crt"))


def register(
    manager: Manager,
    *,
    name: str = "",
    directory: Path | None = None,
    root_certificate: str = "",
    api_server: str = "",
    runtime: Runtime | None = None,
    cgroup_parent: Path | None = None,
    labels: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    stop_pods: bool = True,
    own_networks: bool | None = None,
    settings: Settings = DEFAULT_SETTINGS,
    gates: NodeGates = ALL_ON,
) -> Callable[[], Awaitable[None]]:
    """Make this machine a node called `name` (the machine's own name unless given).

    `runtime` runs containers; processes of this machine unless given. Only those need networks, names and cgroups.

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
    options = NodeOptions(name or own_name(), place, labels or {}, capacity or {}, api_server, stop_pods, gates)
    lock = _locked(place, manager)
    try:
        agent = _agent(manager, options, runtime, cgroup_parent, settings, own_networks)
    except BaseException:
        lock.close()
        raise
    manager.background("node-api", lambda: _serve(manager, agent, place, root_certificate))
    return agent.heartbeat.registered.wait  # type: ignore[return-value]


def _agent(
    manager: Manager,
    options: NodeOptions,
    runtime: Runtime | None,
    cgroup_parent: Path | None,
    settings: Settings,
    own_networks: bool,
) -> Agent:
    name, directory = options.name, options.directory
    if runtime is not None:
        simulated = msgspec.structs.replace(options, no_limits_reason="containers are simulated")
        addresses = AddressPlan(AddressBook(LOOPBACK_POOL.first_choice(f"{name} {directory}")))
        return Agent(manager, simulated, runtime, addresses)
    cgroups = node_cgroups(cgroup_parent, settings=settings)
    reason = "" if cgroups is not None else why_no_limits()
    addresses = AddressPlan.of_machine(name, directory, own_networks=own_networks)
    real = msgspec.structs.replace(options, no_limits_reason=reason)
    return Agent(manager, real, ProcessRuntime(directory / "runtime"), addresses, cgroups)


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
