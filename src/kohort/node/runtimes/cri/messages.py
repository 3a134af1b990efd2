"""Messages, enumerations and methods of the container runtime interface, package `runtime.v1`.

Names and numbers are those of the interface; fields that no part of the agent uses may be absent. Enumerations are
fields of type `int`, because a newer runtime may send values that are not known here.
"""

from enum import IntEnum
from typing import Annotated, Final

import msgspec

from kohort.node.grpc.codec import UNSIGNED, Message
from kohort.node.grpc.status import Method


class MountPropagation(IntEnum):
    PRIVATE = 0
    HOST_TO_CONTAINER = 1
    BIDIRECTIONAL = 2


class NamespaceMode(IntEnum):
    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class SupplementalGroupsPolicy(IntEnum):
    MERGE = 0
    STRICT = 1


class ProfileType(IntEnum):
    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


class PodSandboxState(IntEnum):
    READY = 0
    NOT_READY = 1


class ContainerState(IntEnum):
    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class CgroupDriver(IntEnum):
    SYSTEMD = 0
    CGROUPFS = 1


_SIGNALS: Final = (
    *("ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL"),
    *("PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1"),
    *("USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", *(f"RTMIN+{number}" for number in range(1, 16))),
    *(*(f"RTMAX-{number}" for number in range(14, 0, -1)), "RTMAX"),
)
SIGNAL_NUMBERS: Final = {f"SIG{name}": number for number, name in enumerate(_SIGNALS, 1)}
"""Signals by name, as the interface numbers them, which is not how the kernel does."""


class VersionRequest(Message, frozen=True):
    version: Annotated[str, 1] = ""


class VersionResponse(Message, frozen=True):
    version: Annotated[str, 1] = ""
    runtime_name: Annotated[str, 2] = ""
    runtime_version: Annotated[str, 3] = ""
    runtime_api_version: Annotated[str, 4] = ""


class StatusRequest(Message, frozen=True):
    verbose: Annotated[bool, 1] = False


class RuntimeCondition(Message, frozen=True):
    type: Annotated[str, 1] = ""
    status: Annotated[bool, 2] = False
    reason: Annotated[str, 3] = ""
    message: Annotated[str, 4] = ""


class RuntimeStatus(Message, frozen=True):
    conditions: Annotated[tuple[RuntimeCondition, ...], 1] = ()


class RuntimeHandlerFeatures(Message, frozen=True):
    recursive_read_only_mounts: Annotated[bool, 1] = False
    user_namespaces: Annotated[bool, 2] = False


class RuntimeHandler(Message, frozen=True):
    name: Annotated[str, 1] = ""
    features: Annotated[RuntimeHandlerFeatures | None, 2] = None


class RuntimeFeatures(Message, frozen=True):
    supplemental_groups_policy: Annotated[bool, 1] = False
    user_namespaces_host_network: Annotated[bool, 2] = False
    mount_options: Annotated[bool, 3] = False


class StatusResponse(Message, frozen=True):
    status: Annotated[RuntimeStatus | None, 1] = None
    info: Annotated[dict[str, str], 2] = msgspec.field(default_factory=dict)
    runtime_handlers: Annotated[tuple[RuntimeHandler, ...], 3] = ()
    features: Annotated[RuntimeFeatures | None, 4] = None


class LinuxRuntimeConfiguration(Message, frozen=True):
    cgroup_driver: Annotated[int, 1] = 0


class RuntimeConfigResponse(Message, frozen=True):
    linux: Annotated[LinuxRuntimeConfiguration | None, 1] = None


class PodSandboxMetadata(Message, frozen=True):
    name: Annotated[str, 1] = ""
    uid: Annotated[str, 2] = ""
    namespace: Annotated[str, 3] = ""
    attempt: Annotated[int, 4] = 0


class DNSConfig(Message, frozen=True):
    servers: Annotated[tuple[str, ...], 1] = ()
    searches: Annotated[tuple[str, ...], 2] = ()
    options: Annotated[tuple[str, ...], 3] = ()


class IDMapping(Message, frozen=True):
    host_id: Annotated[int, 1] = 0
    container_id: Annotated[int, 2] = 0
    length: Annotated[int, 3] = 0


class UserNamespace(Message, frozen=True):
    mode: Annotated[int, 1] = 0
    uids: Annotated[tuple[IDMapping, ...], 2] = ()
    gids: Annotated[tuple[IDMapping, ...], 3] = ()


class NamespaceOption(Message, frozen=True):
    network: Annotated[int, 1] = 0
    pid: Annotated[int, 2] = 0
    ipc: Annotated[int, 3] = 0
    target_id: Annotated[str, 4] = ""
    userns_options: Annotated[UserNamespace | None, 5] = None


class SELinuxOption(Message, frozen=True):
    user: Annotated[str, 1] = ""
    role: Annotated[str, 2] = ""
    type: Annotated[str, 3] = ""
    level: Annotated[str, 4] = ""


class Int64Value(Message, frozen=True):
    value: Annotated[int, 1] = 0


class SecurityProfile(Message, frozen=True):
    profile_type: Annotated[int, 1] = 0
    localhost_ref: Annotated[str, 2] = ""


class LinuxSandboxSecurityContext(Message, frozen=True):
    namespace_options: Annotated[NamespaceOption | None, 1] = None
    selinux_options: Annotated[SELinuxOption | None, 2] = None
    run_as_user: Annotated[Int64Value | None, 3] = None
    run_as_group: Annotated[Int64Value | None, 8] = None
    readonly_rootfs: Annotated[bool, 4] = False
    supplemental_groups: Annotated[tuple[int, ...], 5] = ()
    supplemental_groups_policy: Annotated[int, 11] = 0
    privileged: Annotated[bool, 6] = False
    seccomp: Annotated[SecurityProfile | None, 9] = None
    apparmor: Annotated[SecurityProfile | None, 10] = None
    seccomp_profile_path: Annotated[str, 7] = ""


class HugepageLimit(Message, frozen=True):
    page_size: Annotated[str, 1] = ""
    limit: Annotated[int, 2, UNSIGNED] = 0


class LinuxContainerResources(Message, frozen=True):
    cpu_period: Annotated[int, 1] = 0
    cpu_quota: Annotated[int, 2] = 0
    cpu_shares: Annotated[int, 3] = 0
    memory_limit_in_bytes: Annotated[int, 4] = 0
    oom_score_adj: Annotated[int, 5] = 0
    cpuset_cpus: Annotated[str, 6] = ""
    cpuset_mems: Annotated[str, 7] = ""
    hugepage_limits: Annotated[tuple[HugepageLimit, ...], 8] = ()
    unified: Annotated[dict[str, str], 9] = msgspec.field(default_factory=dict)
    memory_swap_limit_in_bytes: Annotated[int, 10] = 0


class LinuxPodSandboxConfig(Message, frozen=True):
    cgroup_parent: Annotated[str, 1] = ""
    security_context: Annotated[LinuxSandboxSecurityContext | None, 2] = None
    sysctls: Annotated[dict[str, str], 3] = msgspec.field(default_factory=dict)
    overhead: Annotated[LinuxContainerResources | None, 4] = None
    resources: Annotated[LinuxContainerResources | None, 5] = None


class PodSandboxConfig(Message, frozen=True):
    metadata: Annotated[PodSandboxMetadata | None, 1] = None
    hostname: Annotated[str, 2] = ""
    log_directory: Annotated[str, 3] = ""
    dns_config: Annotated[DNSConfig | None, 4] = None
    labels: Annotated[dict[str, str], 6] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 7] = msgspec.field(default_factory=dict)
    linux: Annotated[LinuxPodSandboxConfig | None, 8] = None


class RunPodSandboxRequest(Message, frozen=True):
    config: Annotated[PodSandboxConfig | None, 1] = None
    runtime_handler: Annotated[str, 2] = ""


class RunPodSandboxResponse(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""


class StopPodSandboxRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""


class RemovePodSandboxRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""


class PodSandboxStatusRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""
    verbose: Annotated[bool, 2] = False


class PodIP(Message, frozen=True):
    ip: Annotated[str, 1] = ""


class PodSandboxNetworkStatus(Message, frozen=True):
    ip: Annotated[str, 1] = ""
    additional_ips: Annotated[tuple[PodIP, ...], 2] = ()


class Namespace(Message, frozen=True):
    options: Annotated[NamespaceOption | None, 2] = None


class LinuxPodSandboxStatus(Message, frozen=True):
    namespaces: Annotated[Namespace | None, 1] = None


class PodSandboxStatus(Message, frozen=True):
    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata | None, 2] = None
    state: Annotated[int, 3] = 0
    created_at: Annotated[int, 4] = 0
    network: Annotated[PodSandboxNetworkStatus | None, 5] = None
    linux: Annotated[LinuxPodSandboxStatus | None, 6] = None
    labels: Annotated[dict[str, str], 7] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 8] = msgspec.field(default_factory=dict)
    runtime_handler: Annotated[str, 9] = ""


class ContainerMetadata(Message, frozen=True):
    name: Annotated[str, 1] = ""
    attempt: Annotated[int, 2] = 0


class ImageSpec(Message, frozen=True):
    image: Annotated[str, 1] = ""
    annotations: Annotated[dict[str, str], 2] = msgspec.field(default_factory=dict)
    user_specified_image: Annotated[str, 18] = ""
    runtime_handler: Annotated[str, 19] = ""
    image_ref: Annotated[str, 20] = ""


class Mount(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    readonly: Annotated[bool, 3] = False
    selinux_relabel: Annotated[bool, 4] = False
    propagation: Annotated[int, 5] = 0
    uid_mappings: Annotated[tuple[IDMapping, ...], 6] = ()
    gid_mappings: Annotated[tuple[IDMapping, ...], 7] = ()
    recursive_read_only: Annotated[bool, 8] = False
    image: Annotated[ImageSpec | None, 9] = None
    image_sub_path: Annotated[str, 10] = ""
    mount_options: Annotated[tuple[str, ...], 11] = ()


class ContainerResources(Message, frozen=True):
    linux: Annotated[LinuxContainerResources | None, 1] = None


class LinuxContainerUser(Message, frozen=True):
    uid: Annotated[int, 1] = 0
    gid: Annotated[int, 2] = 0
    supplemental_groups: Annotated[tuple[int, ...], 3] = ()


class ContainerUser(Message, frozen=True):
    linux: Annotated[LinuxContainerUser | None, 1] = None


class ContainerStatus(Message, frozen=True):
    id: Annotated[str, 1] = ""
    metadata: Annotated[ContainerMetadata | None, 2] = None
    state: Annotated[int, 3] = 0
    created_at: Annotated[int, 4] = 0
    started_at: Annotated[int, 5] = 0
    finished_at: Annotated[int, 6] = 0
    exit_code: Annotated[int, 7] = 0
    image: Annotated[ImageSpec | None, 8] = None
    image_ref: Annotated[str, 9] = ""
    reason: Annotated[str, 10] = ""
    message: Annotated[str, 11] = ""
    labels: Annotated[dict[str, str], 12] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 13] = msgspec.field(default_factory=dict)
    mounts: Annotated[tuple[Mount, ...], 14] = ()
    log_path: Annotated[str, 15] = ""
    resources: Annotated[ContainerResources | None, 16] = None
    image_id: Annotated[str, 17] = ""
    user: Annotated[ContainerUser | None, 18] = None
    stop_signal: Annotated[int, 19] = 0


class PodSandboxStatusResponse(Message, frozen=True):
    status: Annotated[PodSandboxStatus | None, 1] = None
    info: Annotated[dict[str, str], 2] = msgspec.field(default_factory=dict)
    containers_statuses: Annotated[tuple[ContainerStatus, ...], 3] = ()
    timestamp: Annotated[int, 4] = 0


class PodSandboxStateValue(Message, frozen=True):
    state: Annotated[int, 1] = 0


class PodSandboxFilter(Message, frozen=True):
    id: Annotated[str, 1] = ""
    state: Annotated[PodSandboxStateValue | None, 2] = None
    label_selector: Annotated[dict[str, str], 3] = msgspec.field(default_factory=dict)


class ListPodSandboxRequest(Message, frozen=True):
    filter: Annotated[PodSandboxFilter | None, 1] = None


class PodSandbox(Message, frozen=True):
    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata | None, 2] = None
    state: Annotated[int, 3] = 0
    created_at: Annotated[int, 4] = 0
    labels: Annotated[dict[str, str], 5] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 6] = msgspec.field(default_factory=dict)
    runtime_handler: Annotated[str, 7] = ""


class ListPodSandboxResponse(Message, frozen=True):
    items: Annotated[tuple[PodSandbox, ...], 1] = ()


class UpdatePodSandboxResourcesRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""
    overhead: Annotated[LinuxContainerResources | None, 2] = None
    resources: Annotated[LinuxContainerResources | None, 3] = None


class KeyValue(Message, frozen=True):
    key: Annotated[str, 1] = ""
    value: Annotated[bytes, 2] = b""


class Device(Message, frozen=True):
    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class Capability(Message, frozen=True):
    add_capabilities: Annotated[tuple[str, ...], 1] = ()
    drop_capabilities: Annotated[tuple[str, ...], 2] = ()
    add_ambient_capabilities: Annotated[tuple[str, ...], 3] = ()


class LinuxContainerSecurityContext(Message, frozen=True):
    capabilities: Annotated[Capability | None, 1] = None
    privileged: Annotated[bool, 2] = False
    namespace_options: Annotated[NamespaceOption | None, 3] = None
    selinux_options: Annotated[SELinuxOption | None, 4] = None
    run_as_user: Annotated[Int64Value | None, 5] = None
    run_as_group: Annotated[Int64Value | None, 12] = None
    run_as_username: Annotated[str, 6] = ""
    readonly_rootfs: Annotated[bool, 7] = False
    supplemental_groups: Annotated[tuple[int, ...], 8] = ()
    supplemental_groups_policy: Annotated[int, 17] = 0
    no_new_privs: Annotated[bool, 11] = False
    masked_paths: Annotated[tuple[str, ...], 13] = ()
    readonly_paths: Annotated[tuple[str, ...], 14] = ()
    seccomp: Annotated[SecurityProfile | None, 15] = None
    apparmor: Annotated[SecurityProfile | None, 16] = None
    apparmor_profile: Annotated[str, 9] = ""
    seccomp_profile_path: Annotated[str, 10] = ""


class LinuxContainerConfig(Message, frozen=True):
    resources: Annotated[LinuxContainerResources | None, 1] = None
    security_context: Annotated[LinuxContainerSecurityContext | None, 2] = None


class CDIDevice(Message, frozen=True):
    name: Annotated[str, 1] = ""


class ContainerConfig(Message, frozen=True):
    metadata: Annotated[ContainerMetadata | None, 1] = None
    image: Annotated[ImageSpec | None, 2] = None
    command: Annotated[tuple[str, ...], 3] = ()
    args: Annotated[tuple[str, ...], 4] = ()
    working_dir: Annotated[str, 5] = ""
    envs: Annotated[tuple[KeyValue, ...], 6] = ()
    mounts: Annotated[tuple[Mount, ...], 7] = ()
    devices: Annotated[tuple[Device, ...], 8] = ()
    labels: Annotated[dict[str, str], 9] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 10] = msgspec.field(default_factory=dict)
    log_path: Annotated[str, 11] = ""
    stdin: Annotated[bool, 12] = False
    stdin_once: Annotated[bool, 13] = False
    tty: Annotated[bool, 14] = False
    linux: Annotated[LinuxContainerConfig | None, 15] = None
    cdi_devices: Annotated[tuple[CDIDevice, ...], 17] = ()
    stop_signal: Annotated[int, 18] = 0


class CreateContainerRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""
    config: Annotated[ContainerConfig | None, 2] = None
    sandbox_config: Annotated[PodSandboxConfig | None, 3] = None


class CreateContainerResponse(Message, frozen=True):
    container_id: Annotated[str, 1] = ""


class StartContainerRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""


class StopContainerRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    timeout: Annotated[int, 2] = 0


class RemoveContainerRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""


class ContainerStateValue(Message, frozen=True):
    state: Annotated[int, 1] = 0


class ContainerFilter(Message, frozen=True):
    id: Annotated[str, 1] = ""
    state: Annotated[ContainerStateValue | None, 2] = None
    pod_sandbox_id: Annotated[str, 3] = ""
    label_selector: Annotated[dict[str, str], 4] = msgspec.field(default_factory=dict)


class ListContainersRequest(Message, frozen=True):
    filter: Annotated[ContainerFilter | None, 1] = None


class Container(Message, frozen=True):
    id: Annotated[str, 1] = ""
    pod_sandbox_id: Annotated[str, 2] = ""
    metadata: Annotated[ContainerMetadata | None, 3] = None
    image: Annotated[ImageSpec | None, 4] = None
    image_ref: Annotated[str, 5] = ""
    state: Annotated[int, 6] = 0
    created_at: Annotated[int, 7] = 0
    labels: Annotated[dict[str, str], 8] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 9] = msgspec.field(default_factory=dict)
    image_id: Annotated[str, 10] = ""


class ListContainersResponse(Message, frozen=True):
    containers: Annotated[tuple[Container, ...], 1] = ()


class ContainerStatusRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    verbose: Annotated[bool, 2] = False


class ContainerStatusResponse(Message, frozen=True):
    status: Annotated[ContainerStatus | None, 1] = None
    info: Annotated[dict[str, str], 2] = msgspec.field(default_factory=dict)


class UpdateContainerResourcesRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    linux: Annotated[LinuxContainerResources | None, 2] = None
    annotations: Annotated[dict[str, str], 4] = msgspec.field(default_factory=dict)


class ReopenContainerLogRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""


class ExecSyncRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    cmd: Annotated[tuple[str, ...], 2] = ()
    timeout: Annotated[int, 3] = 0


class ExecSyncResponse(Message, frozen=True):
    stdout: Annotated[bytes, 1] = b""
    stderr: Annotated[bytes, 2] = b""
    exit_code: Annotated[int, 3] = 0


class ExecRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    cmd: Annotated[tuple[str, ...], 2] = ()
    tty: Annotated[bool, 3] = False
    stdin: Annotated[bool, 4] = False
    stdout: Annotated[bool, 5] = False
    stderr: Annotated[bool, 6] = False


class ExecResponse(Message, frozen=True):
    url: Annotated[str, 1] = ""


class AttachRequest(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    stdin: Annotated[bool, 2] = False
    tty: Annotated[bool, 3] = False
    stdout: Annotated[bool, 4] = False
    stderr: Annotated[bool, 5] = False


class AttachResponse(Message, frozen=True):
    url: Annotated[str, 1] = ""


class PortForwardRequest(Message, frozen=True):
    pod_sandbox_id: Annotated[str, 1] = ""
    port: Annotated[tuple[int, ...], 2] = ()


class PortForwardResponse(Message, frozen=True):
    url: Annotated[str, 1] = ""


class GetEventsRequest(Message, frozen=True):
    pass


class ContainerEventResponse(Message, frozen=True):
    container_id: Annotated[str, 1] = ""
    container_event_type: Annotated[int, 2] = 0
    created_at: Annotated[int, 3] = 0
    pod_sandbox_status: Annotated[PodSandboxStatus | None, 4] = None
    containers_statuses: Annotated[tuple[ContainerStatus, ...], 5] = ()


class ImageFilter(Message, frozen=True):
    image: Annotated[ImageSpec | None, 1] = None


class ListImagesRequest(Message, frozen=True):
    filter: Annotated[ImageFilter | None, 1] = None


class Image(Message, frozen=True):
    id: Annotated[str, 1] = ""
    repo_tags: Annotated[tuple[str, ...], 2] = ()
    repo_digests: Annotated[tuple[str, ...], 3] = ()
    size: Annotated[int, 4, UNSIGNED] = 0
    uid: Annotated[Int64Value | None, 5] = None
    username: Annotated[str, 6] = ""
    spec: Annotated[ImageSpec | None, 7] = None
    pinned: Annotated[bool, 8] = False


class ListImagesResponse(Message, frozen=True):
    images: Annotated[tuple[Image, ...], 1] = ()


class ImageStatusRequest(Message, frozen=True):
    image: Annotated[ImageSpec | None, 1] = None
    verbose: Annotated[bool, 2] = False


class ImageStatusResponse(Message, frozen=True):
    image: Annotated[Image | None, 1] = None
    info: Annotated[dict[str, str], 2] = msgspec.field(default_factory=dict)


class AuthConfig(Message, frozen=True):
    username: Annotated[str, 1] = ""
    password: Annotated[str, 2] = ""
    auth: Annotated[str, 3] = ""
    server_address: Annotated[str, 4] = ""
    identity_token: Annotated[str, 5] = ""
    registry_token: Annotated[str, 6] = ""


class PullImageRequest(Message, frozen=True):
    image: Annotated[ImageSpec | None, 1] = None
    auth: Annotated[AuthConfig | None, 2] = None
    sandbox_config: Annotated[PodSandboxConfig | None, 3] = None


class PullImageResponse(Message, frozen=True):
    image_ref: Annotated[str, 1] = ""


class RemoveImageRequest(Message, frozen=True):
    image: Annotated[ImageSpec | None, 1] = None


class FilesystemIdentifier(Message, frozen=True):
    mountpoint: Annotated[str, 1] = ""


class UInt64Value(Message, frozen=True):
    value: Annotated[int, 1, UNSIGNED] = 0


class FilesystemUsage(Message, frozen=True):
    timestamp: Annotated[int, 1] = 0
    fs_id: Annotated[FilesystemIdentifier | None, 2] = None
    used_bytes: Annotated[UInt64Value | None, 3] = None
    inodes_used: Annotated[UInt64Value | None, 4] = None


class ContainerAttributes(Message, frozen=True):
    id: Annotated[str, 1] = ""
    labels: Annotated[dict[str, str], 3] = msgspec.field(default_factory=dict)
    annotations: Annotated[dict[str, str], 4] = msgspec.field(default_factory=dict)


class ContainerStats(Message, frozen=True):
    attributes: Annotated[ContainerAttributes | None, 1] = None
    writable_layer: Annotated[FilesystemUsage | None, 4] = None


class ContainerStatsFilter(Message, frozen=True):
    label_selector: Annotated[dict[str, str], 3] = msgspec.field(default_factory=dict)


class ListContainerStatsRequest(Message, frozen=True):
    filter: Annotated[ContainerStatsFilter | None, 1] = None


class ListContainerStatsResponse(Message, frozen=True):
    stats: Annotated[tuple[ContainerStats, ...], 1] = ()


class ImageFsInfoResponse(Message, frozen=True):
    image_filesystems: Annotated[tuple[FilesystemUsage, ...], 1] = ()
    container_filesystems: Annotated[tuple[FilesystemUsage, ...], 2] = ()


RUNTIME: Final = "/runtime.v1.RuntimeService/"
IMAGES: Final = "/runtime.v1.ImageService/"


class Empty(Message, frozen=True):
    """For answers without content."""


VERSION: Final = Method(RUNTIME + "Version", VersionRequest, VersionResponse)
STATUS: Final = Method(RUNTIME + "Status", StatusRequest, StatusResponse)
RUNTIME_CONFIG: Final = Method(RUNTIME + "RuntimeConfig", Empty, RuntimeConfigResponse)
RUN_POD_SANDBOX: Final = Method(RUNTIME + "RunPodSandbox", RunPodSandboxRequest, RunPodSandboxResponse)
STOP_POD_SANDBOX: Final = Method(RUNTIME + "StopPodSandbox", StopPodSandboxRequest, Empty)
REMOVE_POD_SANDBOX: Final = Method(RUNTIME + "RemovePodSandbox", RemovePodSandboxRequest, Empty)
POD_SANDBOX_STATUS: Final = Method(RUNTIME + "PodSandboxStatus", PodSandboxStatusRequest, PodSandboxStatusResponse)
LIST_POD_SANDBOX: Final = Method(RUNTIME + "ListPodSandbox", ListPodSandboxRequest, ListPodSandboxResponse)
CREATE_CONTAINER: Final = Method(RUNTIME + "CreateContainer", CreateContainerRequest, CreateContainerResponse)
START_CONTAINER: Final = Method(RUNTIME + "StartContainer", StartContainerRequest, Empty)
STOP_CONTAINER: Final = Method(RUNTIME + "StopContainer", StopContainerRequest, Empty)
REMOVE_CONTAINER: Final = Method(RUNTIME + "RemoveContainer", RemoveContainerRequest, Empty)
LIST_CONTAINERS: Final = Method(RUNTIME + "ListContainers", ListContainersRequest, ListContainersResponse)
CONTAINER_STATUS: Final = Method(RUNTIME + "ContainerStatus", ContainerStatusRequest, ContainerStatusResponse)
LIST_CONTAINER_STATS: Final = Method(
    RUNTIME + "ListContainerStats", ListContainerStatsRequest, ListContainerStatsResponse
)
UPDATE_CONTAINER: Final = Method(RUNTIME + "UpdateContainerResources", UpdateContainerResourcesRequest, Empty)
UPDATE_POD_SANDBOX: Final = Method(RUNTIME + "UpdatePodSandboxResources", UpdatePodSandboxResourcesRequest, Empty)
REOPEN_CONTAINER_LOG: Final = Method(RUNTIME + "ReopenContainerLog", ReopenContainerLogRequest, Empty)
EXEC_SYNC: Final = Method(RUNTIME + "ExecSync", ExecSyncRequest, ExecSyncResponse)
EXEC: Final = Method(RUNTIME + "Exec", ExecRequest, ExecResponse)
ATTACH: Final = Method(RUNTIME + "Attach", AttachRequest, AttachResponse)
PORT_FORWARD: Final = Method(RUNTIME + "PortForward", PortForwardRequest, PortForwardResponse)
CONTAINER_EVENTS: Final = Method(RUNTIME + "GetContainerEvents", GetEventsRequest, ContainerEventResponse)
LIST_IMAGES: Final = Method(IMAGES + "ListImages", ListImagesRequest, ListImagesResponse)
IMAGE_STATUS: Final = Method(IMAGES + "ImageStatus", ImageStatusRequest, ImageStatusResponse)
PULL_IMAGE: Final = Method(IMAGES + "PullImage", PullImageRequest, PullImageResponse)
REMOVE_IMAGE: Final = Method(IMAGES + "RemoveImage", RemoveImageRequest, Empty)
IMAGE_FS_INFO: Final = Method(IMAGES + "ImageFsInfo", Empty, ImageFsInfoResponse)
