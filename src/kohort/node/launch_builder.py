"""From the spec of a container to what the runtime is asked to start."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from kohort.node.api_server_address import ApiServerAddress
from kohort.node.container_environment import (
    ConfigProblem,
    command_line,
    environment,
    expanded_words,
    service_environment,
)
from kohort.node.devices.container_use import NO_DEVICES, DeviceUse
from kohort.node.image_config import Image
from kohort.node.machine_info import Machine
from kohort.node.names.etc_hosts import write_hosts
from kohort.node.names.name_directory import NameDirectory
from kohort.node.pod_files import PodFiles
from kohort.node.pod_hostname import InvalidContainer, kernel_name_of
from kohort.node.runtimes.interface import ContainerKey, Launch, Mount
from kohort.node.security_context import container_security, rights_of
from kohort.node.stop_signal import stop_signal_name
from kohort.node.volumes import ConfigSources, mounts_of, read_in_volume
from kohort.objects.core import Service
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import CgroupValues, oom_score_adj
from kohort.rules import safe_sysctls

LARGEST_ENV_FILE = 1 << 20
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SandboxPaths(msgspec.Struct, frozen=True):
    """What a container gets from the sandbox of its pod."""

    address: str
    netns: str
    volumes: dict[str, str]
    cgroup: str
    """Of the container; empty if this node has no cgroups, or the runtime makes it."""
    resources: CgroupValues | None = None
    """For a runtime that makes the container's cgroup."""
    cgroup_files: dict[str, str] = {}
    devices: DeviceUse = NO_DEVICES


class LaunchBuilder:
    def __init__(
        self,
        machine: Machine,
        files: PodFiles,
        sources: ConfigSources,
        names: NameDirectory,
        api_server: ApiServerAddress,
    ) -> None:
        """`sources` gives ConfigMaps and Secrets for the environment."""
        self._machine = machine
        self._files = files
        self._sources = sources
        self._names = names
        self._api_server = api_server

    async def build(
        self,
        pod: NodePod,
        container: NodeContainer,
        attempt: int,
        sandbox: SandboxPaths,
        image: Image,
    ) -> Launch:
        """`pod` is the allocated one. Raises ConfigProblem, MountProblem, InvalidContainer."""
        env = {**sandbox.devices.env, **await self._environment(pod, container, sandbox)}
        if image.reference:
            return self._image_launch(pod, container, attempt, sandbox, image, env)
        command = command_line(container, env, image.config.entrypoint, image.config.command)
        if not command:
            raise InvalidContainer("no command specified, and the image has none of its own")
        if any("\0" in word for word in command):
            raise InvalidContainer("the command holds a NUL byte, which no program can be given")
        uid, name = pod.metadata.uid, kernel_name_of(pod)
        mounts = (
            *mounts_of(pod, container, sandbox.volumes, env),
            *self._own_files(pod, container, attempt, sandbox.address),
            *sandbox.devices.mounts_of_process(image.root),
        )
        rights = rights_of(pod, container, image)
        context = pod.spec.security_context
        sysctls = {each.name: each.value for each in context.sysctls} if context is not None else {}
        home = "/root" if not rights.uid else "/"
        return Launch(
            str(ContainerKey(uid, container.name, attempt)),
            command,
            {"PATH": DEFAULT_PATH, "HOSTNAME": name, "HOME": home, **image.config.env, **env},
            directory=container.working_dir or image.config.directory or ("/" if image.root else ""),
            root=image.root,
            layer=str(self._files.layer(uid, container.name, attempt)),
            own_processes=bool(image.root) and not pod.spec.host_pid,
            own_ipc=any(safe_sysctls.is_of_ipc(name) for name in sysctls),
            sysctls=sysctls,
            cgroup=sandbox.cgroup,
            log=str(self._files.log(uid, container.name, attempt)),
            mounts=mounts,
            netns=sandbox.netns,
            hostname="" if pod.spec.host_network else name,
            **msgspec.structs.asdict(rights),
            oom_score_adj=oom_score_adj(pod, container, self._machine.memory) if os.geteuid() == 0 else None,
            stop_signal=stop_signal_name(container, image.config.stop_signal),
            stdin=container.stdin,
            stdin_once=container.stdin_once,
            tty=container.tty,
        )

    def _image_launch(
        self,
        pod: NodePod,
        container: NodeContainer,
        attempt: int,
        sandbox: SandboxPaths,
        image: Image,
        env: dict[str, str],
    ) -> Launch:
        """For a runtime with images of its own, which completes command, environment and directory from the image."""
        uid = pod.metadata.uid
        return Launch(
            str(ContainerKey(uid, container.name, attempt)),
            expanded_words(container.command, env),
            env,
            args=expanded_words(container.args, env),
            directory=container.working_dir,
            image=image.reference,
            image_name=container.image,
            log=str(self._files.log(uid, container.name, attempt)),
            mounts=(
                *mounts_of(pod, container, sandbox.volumes, env),
                *self._own_files(pod, container, attempt, sandbox.address),
                *sandbox.devices.mounts,
            ),
            devices=sandbox.devices.devices,
            cdi_devices=sandbox.devices.cdi_devices,
            annotations=sandbox.devices.annotations,
            security=container_security(pod, container, image),
            resources=sandbox.resources,
            cgroup_files=sandbox.cgroup_files,
            stop_signal=stop_signal_name(container, image.config.stop_signal),
            shares_processes_of=container.target_container_name,
            oom_score_adj=oom_score_adj(pod, container, self._machine.memory),
            stdin=container.stdin,
            stdin_once=container.stdin_once,
            tty=container.tty,
        )

    def write_hosts(self, pod: NodePod, address: str) -> Path:
        """Write the pod's /etc/hosts; returns where it is."""
        path = self._files.hosts(pod.metadata.uid)
        write_hosts(path, self._names.hosts(pod, address))
        return path

    def _own_files(self, pod: NodePod, container: NodeContainer, attempt: int, address: str) -> Iterator[Mount]:
        """Files that every container has, unless it mounts a volume in their place: names, and its termination
        message."""
        taken = {os.path.normpath(each.mount_path) for each in container.volume_mounts}
        if "/etc/hosts" not in taken:
            yield Mount(str(self.write_hosts(pod, address)), "/etc/hosts", optional=True)
        if (text := self._names.resolv_conf(pod)) and "/etc/resolv.conf" not in taken:
            resolv_conf = self._files.resolv_conf(pod.metadata.uid)
            write_hosts(resolv_conf, text)
            context = container.security_context
            read_only = context is not None and bool(context.read_only_root_filesystem)
            yield Mount(str(resolv_conf), "/etc/resolv.conf", read_only, optional=True)
        path = container.termination_message_path
        if path and os.path.normpath(path) not in taken:
            message = self._files.termination_message(pod.metadata.uid, container.name, attempt)
            message.parent.mkdir(parents=True, exist_ok=True)
            message.touch()
            message.chmod(0o666)
            yield Mount(str(message), path, optional=True)

    async def _environment(self, pod: NodePod, container: NodeContainer, sandbox: SandboxPaths) -> dict[str, str]:
        namespace = pod.metadata.namespace
        known: dict[tuple[str, str], dict[str, str] | None] = {}
        for kind, name in _referenced(container):
            data = await self._sources.variables(kind, namespace, name)
            known[kind, name] = None if data is None else {key: os.fsdecode(value) for key, value in data.items()}
        services: list[Service] = []
        if pod.spec.enable_service_links is not False:
            services = self._names.services(namespace, outside=pod.spec.host_network)
        return environment(
            pod,
            container,
            lambda kind, name: known.get((kind, name)),
            service_environment(services, self._api_server.current()),
            self._machine.field_values(sandbox.address),
            self._machine.allocatable,
            lambda volume, path: _env_file(sandbox.volumes, volume, path),
        )


def _env_file(volumes: Mapping[str, str], volume: str, path: str) -> str | None:
    if volume not in volumes:
        raise ConfigProblem(f'cannot find the volume "{volume}" referenced by FileKeyRef')
    try:
        return read_in_volume(volumes[volume], path, LARGEST_ENV_FILE).decode(errors="surrogateescape")
    except ValueError as problem:
        raise ConfigProblem(f"couldn't parse env file: {problem}") from problem
    except OSError:
        return None


def _referenced(container: NodeContainer) -> set[tuple[str, str]]:
    """ConfigMaps and Secrets that the environment of a container refers to."""
    wanted = {("configmap", each.config_map_ref.name) for each in container.env_from if each.config_map_ref}
    wanted |= {("secret", each.secret_ref.name) for each in container.env_from if each.secret_ref}
    for entry in container.env:
        if entry.value_from is not None:
            if entry.value_from.config_map_key_ref is not None:
                wanted.add(("configmap", entry.value_from.config_map_key_ref.name))
            if entry.value_from.secret_key_ref is not None:
                wanted.add(("secret", entry.value_from.secret_key_ref.name))
    return wanted
