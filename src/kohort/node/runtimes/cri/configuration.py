"""From a pod and a launch to the configuration of a sandbox and of a container. Pure.

| the pod says                         | network | processes | IPC  |
|--------------------------------------|---------|-----------|------|
| nothing                              | POD     | CONTAINER | POD  |
| `hostNetwork`, `hostPID`, `hostIPC`  | NODE    | NODE      | NODE |
| `shareProcessNamespace`              |         | POD       |      |
| an ephemeral container has a target  |         | TARGET    |      |

Resources are always sent together, so that no update depends on what was sent before: an absent field leaves what the
runtime remembers. The weight of cpu time is sent twice: as shares, which every runtime takes, and as the file
`cpu.weight`, because OCI runtimes convert shares to weights by different formulas. The file is written last and holds
what pods have too.
"""

import glob
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.interface import ContainerKey, ContainerSecurity, Launch, Mount, PodSandboxSpec
from kohort.resources import CgroupValues
from kohort.resources.cgroups import shares_from_weight

NODE_LABEL: Final = "node.kohort.dev/node"
"""Which agent a sandbox or container belongs to."""
POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
TERMINATION_PATH: Final = "io.kubernetes.container.terminationMessagePath"
CRIO_STDIN: Final = "io.kubernetes.cri-o.Stdin"
"""An annotation that CRI-O adds."""
LONGEST_HOSTNAME: Final = 64
LARGEST_LABELS: Final = 8 << 10
LARGEST_ANNOTATIONS: Final = 16 << 10
"""Characters that a sandbox gets of those of its pod. A list of all sandboxes must fit into one message of 16 MiB; some
pods with all that the API permits would fill it, and no agent could use the runtime any more."""

MASKED_PATHS: Final = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
    "/sys/devices/virtual/powercap",
)
READ_ONLY_PATHS: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
UNLIMITED: Final = -1
PROPAGATION: Final = {
    "HostToContainer": cri.MountPropagation.HOST_TO_CONTAINER,
    "Bidirectional": cri.MountPropagation.BIDIRECTIONAL,
}
PROFILES: Final = {
    "RuntimeDefault": cri.SecurityProfile(cri.ProfileType.RUNTIME_DEFAULT),
    "Unconfined": cri.SecurityProfile(cri.ProfileType.UNCONFINED),
}


def owner_label(node: str, directory: Path) -> str:
    """Distinguishes the agents that share a runtime, also those of nodes with the same name in other clusters."""
    return f"{node}-{directory_mark(directory)}"


def directory_mark(directory: Path) -> str:
    """How the owner of a sandbox ends: its name may change, its directory does not."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]


def sandbox_config(pod: PodSandboxSpec, node: str, attempt: int, cgroup_mount: str) -> cri.PodSandboxConfig:
    """`cgroup_mount` is where the tree of cgroups is mounted, which paths in the configuration leave out."""
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(pod.name, pod.uid, pod.namespace, attempt),
        hostname="" if pod.host_network else pod.hostname[:LONGEST_HOSTNAME],
        log_directory=pod.log_directory,
        labels={**smallest(pod.labels, LARGEST_LABELS), **_pod_labels(pod, node)},
        annotations=smallest(pod.annotations, LARGEST_ANNOTATIONS),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=pod.cgroup.removeprefix(cgroup_mount),
            sysctls={name.replace("/", "."): value for name, value in pod.sysctls.items()},
            security_context=cri.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(pod),
                run_as_user=_number(pod.uid_of_user),
                run_as_group=_number(pod.gid_of_user) if pod.uid_of_user is not None else None,
                supplemental_groups=pod.groups,
                privileged=pod.privileged,
                seccomp=PROFILES["RuntimeDefault"],
            ),
        ),
    )


def smallest(entries: Mapping[str, str], room: int) -> dict[str, str]:
    """As many entries as there is room for, small ones first: what runtimes read is small. The order stays."""
    kept = set()
    for name in sorted(entries, key=lambda name: (len(name) + len(entries[name]), name)):
        room -= len(name) + len(entries[name])
        if room < 0:
            break
        kept.add(name)
    return {name: value for name, value in entries.items() if name in kept}


def container_config(
    launch: Launch, pod: PodSandboxSpec, node: str, key: ContainerKey, target_id: str = ""
) -> cri.ContainerConfig:
    """`target_id` is the container whose processes this one sees."""
    resources = cri.LinuxContainerResources()
    if launch.resources is not None:
        resources = linux_resources(launch.resources, launch.cgroup_files, without_limit=0)
    if launch.oom_score_adj is not None:
        resources = msgspec.structs.replace(resources, oom_score_adj=launch.oom_score_adj)
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(key.container, key.attempt),
        image=cri.ImageSpec(image=launch.image, user_specified_image=launch.image_name),
        command=launch.command,
        args=launch.args,
        working_dir=launch.directory,
        envs=tuple(cri.KeyValue(name, os.fsencode(value)) for name, value in launch.env.items()),
        mounts=tuple(_mount(each) for each in launch.mounts),
        devices=tuple(cri.Device(each.target, each.source, each.permissions) for each in launch.devices),
        cdi_devices=tuple(cri.CDIDevice(name) for name in launch.cdi_devices),
        labels={**_pod_labels(pod, node), CONTAINER_NAME: key.container},
        annotations={**launch.annotations, RESTART_COUNT: str(key.attempt)},
        log_path=os.path.relpath(launch.log, pod.log_directory),
        stdin=launch.stdin,
        stdin_once=launch.stdin_once,
        tty=launch.tty,
        stop_signal=cri.SIGNAL_NUMBERS.get(launch.stop_signal, 0),
        linux=cri.LinuxContainerConfig(
            resources=resources,
            security_context=_security(launch.security, pod, target_id),
        ),
    )


def linux_resources(
    values: CgroupValues, files: Mapping[str, str] | None = None, *, without_limit: int = UNLIMITED
) -> cri.LinuxContainerResources:
    """All of cpu and memory, and further files of the cgroup. No limit is sent as such, because an absent field means
    the limit that was sent before. `without_limit` is how the absence of a memory limit is sent: for a new container 0,
    because CRI-O refuses -1 there as too small a limit."""
    limit = without_limit if values.memory_max is None else values.memory_max
    content = values.files()
    protected = {name: content[name] for name in ("memory.min", "memory.low") if content[name] != "0"}
    return cri.LinuxContainerResources(
        cpu_period=values.cpu_period,
        cpu_quota=UNLIMITED if values.cpu_quota is None else values.cpu_quota,
        cpu_shares=shares_from_weight(values.cpu_weight),
        memory_limit_in_bytes=limit,
        memory_swap_limit_in_bytes=limit,
        unified={
            "cpu.weight": content["cpu.weight"],
            "memory.high": content["memory.high"],
            **protected,
            **(files or {}),
        },
    )


def container_key(labels: Mapping[str, str], annotations: Mapping[str, str]) -> ContainerKey | None:
    """Which container of the agent's it is; None for one that no agent of ours has made."""
    uid, name, count = labels.get(POD_UID, ""), labels.get(CONTAINER_NAME, ""), annotations.get(RESTART_COUNT, "")
    return ContainerKey(uid, name, int(count)) if uid and name and count.isdecimal() else None


class _Process(msgspec.Struct, frozen=True):
    terminal: bool = False


class _Linux(msgspec.Struct, frozen=True):
    cgroup: str = msgspec.field(default="", name="cgroupsPath")


class _OciSpec(msgspec.Struct, frozen=True):
    process: _Process = _Process()
    linux: _Linux = _Linux()
    annotations: dict[str, str] = {}


class _OwnConfig(msgspec.Struct, frozen=True):
    stdin: bool = False
    tty: bool = False


class RuntimeInfo(msgspec.Struct, frozen=True):
    """What the verbose status of a container says beyond the interface, where the runtime says it."""

    pid: int = 0
    config: _OwnConfig = _OwnConfig()
    """Only of containerd."""
    oci: _OciSpec = msgspec.field(default=_OciSpec(), name="runtimeSpec")

    @property
    def stdin(self) -> bool:
        return self.config.stdin or self.oci.annotations.get(CRIO_STDIN) == "true"

    @property
    def tty(self) -> bool:
        return self.config.tty or self.oci.process.terminal

    @property
    def cgroup_name(self) -> str:
        """The directory below that of the pod; runtimes differ in how they name it."""
        return self.oci.linux.cgroup.rpartition("/")[2]


def runtime_info(info: Mapping[str, str]) -> RuntimeInfo:
    try:
        return msgspec.json.decode(info.get("info", "{}"), type=RuntimeInfo)
    except msgspec.MsgspecError:
        return RuntimeInfo()


def _pod_labels(pod: PodSandboxSpec, node: str) -> dict[str, str]:
    return {POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid, NODE_LABEL: node}


def _namespaces(pod: PodSandboxSpec, target_id: str = "") -> cri.NamespaceOption:
    mode = cri.NamespaceMode
    pid = mode.NODE if pod.host_pid else mode.POD if pod.shared_processes else mode.CONTAINER
    return cri.NamespaceOption(
        network=mode.NODE if pod.host_network else mode.POD,
        pid=mode.TARGET if target_id else pid,
        ipc=mode.NODE if pod.host_ipc else mode.POD,
        target_id=target_id,
    )


def _mount(mount: Mount) -> cri.Mount:
    propagation = PROPAGATION.get(mount.propagation, cri.MountPropagation.PRIVATE)
    return cri.Mount(mount.target, mount.source, mount.read_only, propagation=propagation)


def _security(own: ContainerSecurity, pod: PodSandboxSpec, target_id: str) -> cri.LinuxContainerSecurityContext:
    masked = not own.unmasked_proc and not own.privileged
    return cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(own.added_capabilities, own.dropped_capabilities),
        privileged=own.privileged,
        namespace_options=_namespaces(pod, target_id),
        selinux_options=cri.SELinuxOption(**own.selinux) if own.selinux else None,
        run_as_user=_number(own.uid),
        run_as_username=own.user_name,
        run_as_group=_number(own.gid) if own.uid is not None or own.user_name else None,
        readonly_rootfs=own.read_only_root,
        supplemental_groups=own.groups,
        supplemental_groups_policy=cri.SupplementalGroupsPolicy.STRICT
        if own.strict_groups
        else cri.SupplementalGroupsPolicy.MERGE,
        no_new_privs=own.no_new_privileges,
        masked_paths=(*MASKED_PATHS, *_thermal_throttles()) if masked else (),
        readonly_paths=READ_ONLY_PATHS if masked else (),
        seccomp=_profile(own.seccomp),
        apparmor=_profile(own.apparmor) if own.apparmor else None,
        apparmor_profile=_old_apparmor(own.apparmor),
    )


def _profile(name: str) -> cri.SecurityProfile:
    return PROFILES.get(name, cri.SecurityProfile(cri.ProfileType.LOCALHOST, name))


def _old_apparmor(name: str) -> str:
    """The field of runtimes before the one with types."""
    return {"": "", "RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}.get(name, f"localhost/{name}")


def _thermal_throttles() -> list[str]:
    return sorted(glob.glob("/sys/devices/system/cpu/cpu*/thermal_throttle"))


def _number(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value)
