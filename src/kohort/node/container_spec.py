"""From a container's spec to the process that is started for it."""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from kohort.node.container_environment import command_line, environment, service_environment
from kohort.node.image_config import read_image
from kohort.node.images import directory_of
from kohort.node.names.etc_hosts import full_name, write_hosts
from kohort.node.node_context import Surroundings
from kohort.node.runtimes.interface import Launch, Mount
from kohort.node.security_context import rights_of
from kohort.node.volumes import mounts_of
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import oom_score_adj
from kohort.rules import safe_sysctls

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_KERNEL_NAME = 64


class InvalidContainer(Exception):
    """A container cannot be made from its spec."""


def pod_directory(node: Surroundings, uid: str) -> Path:
    return node.directory / "pods" / uid


def log_path(node: Surroundings, uid: str, container: str, attempt: int) -> Path:
    return pod_directory(node, uid) / "logs" / container / f"{attempt}.log"


def message_path(node: Surroundings, uid: str, container: str, attempt: int) -> Path:
    """What a container says at its end."""
    return pod_directory(node, uid) / "messages" / container / str(attempt)


def layer_path(node: Surroundings, uid: str, container: str, attempt: int) -> Path:
    """What one start of a container changes in its image."""
    return pod_directory(node, uid) / "layers" / container / str(attempt)


def instance_id(uid: str, container: str, attempt: int) -> str:
    return f"{uid}_{container}_{attempt}"


def parsed_id(id: str) -> tuple[str, str, int]:
    """UID, container and attempt of an instance."""
    uid, container, attempt = id.split("_")
    return uid, container, int(attempt)


def facts_of(node: Surroundings, pod: NodePod, address: str) -> dict[str, str]:
    return {
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": node.host,
        "status.hostIPs": node.host,
        "spec.nodeName": node.name,
    }


def hostname_of(pod: NodePod) -> str:
    return pod.spec.hostname or pod.metadata.name[:63].rstrip("-.")


def kernel_name_of(pod: NodePod) -> str:
    """What `hostname` says in the pod. Raises InvalidContainer if no kernel takes it."""
    short = hostname_of(pod)
    if not pod.spec.set_hostname_as_fqdn or not pod.spec.subdomain:
        return short
    full = full_name(short, pod.spec.subdomain, pod.metadata.namespace)
    if len(full) > LONGEST_KERNEL_NAME:
        raise InvalidContainer(
            f"Failed to construct FQDN from Pod hostname and cluster domain, FQDN {full} is too long "
            f"({LONGEST_KERNEL_NAME} characters is the max, {len(full)} characters requested)"
        )
    return full


def write_pod_names(node: Surroundings, pod: NodePod, address: str) -> Path:
    """The names that the pod knows, as its /etc/hosts."""
    path = pod_directory(node, pod.metadata.uid) / "hosts"
    write_hosts(path, node.hosts(pod, address))
    return path


async def launch_of(
    node: Surroundings,
    pod: NodePod,
    container: NodeContainer,
    attempt: int,
    address: str,
    places: Mapping[str, str],
    cgroup: str,
    netns: str = "",
) -> Launch:
    """Raises ConfigProblem, NoImage, MountProblem, InvalidContainer. `pod` is the allocated one."""
    image = await asyncio.to_thread(lambda: read_image(directory_of(container.image, node.images)))
    env = await _environment(node, pod, container, address)
    command = command_line(container, env, image.config.entrypoint, image.config.command)
    if not command:
        raise InvalidContainer("no command specified, and the image has none of its own")
    if any("\0" in word for word in command):
        raise InvalidContainer("the command holds a NUL byte, which no program can be given")
    uid, name = pod.metadata.uid, kernel_name_of(pod)
    mounts = (*mounts_of(pod, container, places, env), *_own_files(node, pod, container, attempt, address))
    rights = rights_of(pod, container, image)
    sysctls = {each.name: each.value for each in pod.spec.security_context.sysctls} if pod.spec.security_context else {}
    return Launch(
        instance_id(uid, container.name, attempt),
        command,
        {"PATH": DEFAULT_PATH, "HOSTNAME": name, "HOME": "/root" if not rights.uid else "/", **image.config.env, **env},
        directory=container.working_dir or image.config.directory or ("/" if image.root else ""),
        root=image.root,
        layer=str(layer_path(node, uid, container.name, attempt)),
        own_processes=bool(image.root) and not pod.spec.host_pid,
        own_ipc=any(safe_sysctls.is_of_ipc(name) for name in sysctls),
        sysctls=sysctls,
        cgroup=cgroup,
        log=str(log_path(node, uid, container.name, attempt)),
        mounts=mounts,
        netns=netns,
        hostname="" if pod.spec.host_network else name,
        **msgspec.structs.asdict(rights),
        oom_score_adj=oom_score_adj(pod, container, node.memory) if os.geteuid() == 0 else None,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
    )


def _own_files(
    node: Surroundings, pod: NodePod, container: NodeContainer, attempt: int, address: str
) -> Iterator[Mount]:
    """Files that every container has, unless it mounts a volume in their place: the names it knows, and where it leaves
    its last words."""
    taken = {os.path.normpath(each.mount_path) for each in container.volume_mounts}
    if "/etc/hosts" not in taken:
        yield Mount(str(write_pod_names(node, pod, address)), "/etc/hosts", optional=True)
    if (text := node.resolv_conf(pod)) and "/etc/resolv.conf" not in taken:
        resolv_conf = pod_directory(node, pod.metadata.uid) / "resolv.conf"
        write_hosts(resolv_conf, text)
        yield Mount(str(resolv_conf), "/etc/resolv.conf", optional=True)
    path = container.termination_message_path
    if path and os.path.normpath(path) not in taken:
        message = message_path(node, pod.metadata.uid, container.name, attempt)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.touch()
        message.chmod(0o666)
        yield Mount(str(message), path, optional=True)


def execution_of(inside: Launch, id: str, command: tuple[str, ...], *, stdin: bool, tty: bool) -> Launch:
    """Another process in the surroundings of a container."""
    return msgspec.structs.replace(
        inside,
        id=id,
        command=command,
        env={**inside.env, "TERM": "xterm"} if tty else inside.env,
        log="",
        oom_score_adj=None,
        stdin=stdin,
        stdin_once=False,
        tty=tty,
    )


async def _environment(node: Surroundings, pod: NodePod, container: NodeContainer, address: str) -> dict[str, str]:
    wanted = {("configmap", each.config_map_ref.name) for each in container.env_from if each.config_map_ref}
    wanted |= {("secret", each.secret_ref.name) for each in container.env_from if each.secret_ref}
    for entry in container.env:
        if entry.value_from is not None:
            if entry.value_from.config_map_key_ref is not None:
                wanted.add(("configmap", entry.value_from.config_map_key_ref.name))
            if entry.value_from.secret_key_ref is not None:
                wanted.add(("secret", entry.value_from.secret_key_ref.name))
    namespace = pod.metadata.namespace
    known: dict[tuple[str, str], dict[str, str] | None] = {}
    for kind, name in wanted:
        data = await node.sources.variables(kind, namespace, name)
        known[kind, name] = None if data is None else {key: os.fsdecode(value) for key, value in data.items()}
    services = [] if pod.spec.enable_service_links is False else list(node.services(pod))
    return environment(
        pod,
        container,
        lambda kind, name: known.get((kind, name)),
        service_environment(services, node.api_server),
        facts_of(node, pod, address),
        node.allocatable,
    )


def own_name() -> str:
    """The name of this machine as a node's name."""
    return socket.gethostname().lower().rstrip(".") or "localhost"
