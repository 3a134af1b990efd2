"""Pods with everything that a node needs to run them."""

from msgspec import field

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import KeySelector, ObjectMeta
from kohort.objects.pods import Container, Pod, PodSpec, PodStatus
from kohort.objects.view import View
from kohort.objects.volumes import ObjectFieldSelector, ResourceFieldSelector


class FileKeySelector(View, frozen=True):
    """A variable of a file in a volume of the pod."""

    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool = False


class EnvVarSource(View, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(View, frozen=True):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFrom(View, frozen=True):
    class Source(View, frozen=True):
        name: str = ""
        optional: bool = False

    prefix: str = ""
    config_map_ref: Source | None = None
    secret_ref: Source | None = None


class HttpHeader(View, frozen=True):
    name: str = ""
    value: str = ""


class HttpGet(View, frozen=True):
    port: int | str = 0
    path: str = ""
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocket(View, frozen=True):
    port: int | str = 0
    host: str = ""


class GrpcCheck(View, frozen=True):
    port: int = 0
    service: str = ""


class Command(View, frozen=True):
    command: tuple[str, ...] = ()


class Sleep(View, frozen=True):
    seconds: int = 0


class Probe(View, frozen=True):
    exec: Command | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    grpc: GrpcCheck | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHook(View, frozen=True):
    exec: Command | None = None
    http_get: HttpGet | None = None
    tcp_socket: TcpSocket | None = None
    sleep: Sleep | None = None


class Lifecycle(View, frozen=True):
    post_start: LifecycleHook | None = None
    pre_stop: LifecycleHook | None = None
    stop_signal: str = ""


class VolumeMount(View, frozen=True):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    mount_propagation: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Capabilities(View, frozen=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(View, frozen=True):
    type: str = ""
    localhost_profile: str = ""


class AppArmorProfile(View, frozen=True):
    type: str = ""
    localhost_profile: str = ""


class Sysctl(View, frozen=True):
    name: str = ""
    value: str = ""


class SecurityContext(View, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    privileged: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: JsonObject | None = None
    windows_options: JsonObject | None = None
    proc_mount: str = ""


class RestartRuleExitCodes(View, frozen=True):
    operator: str = ""
    values: tuple[int, ...] = ()


class RestartRule(View, frozen=True):
    action: str = ""
    exit_codes: RestartRuleExitCodes | None = None


class NodeContainer(Container, frozen=True):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    image_pull_policy: str = ""
    termination_message_path: str = ""
    termination_message_policy: str = ""
    security_context: SecurityContext | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    target_container_name: str = ""
    """Of an ephemeral container."""


class PodSecurityContext(View, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = ""
    sysctls: tuple[Sysctl, ...] = ()
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: JsonObject | None = None
    windows_options: JsonObject | None = None


class HostAlias(View, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class DnsOption(View, frozen=True):
    name: str = ""
    value: str | None = None


class DnsConfig(View, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[DnsOption, ...] = ()


class LocalReference(View, frozen=True):
    """An object of the same namespace."""

    name: str = ""


class NodePodSpec(PodSpec, frozen=True):
    containers: tuple[NodeContainer, ...] | None = None
    init_containers: tuple[NodeContainer, ...] = ()
    ephemeral_containers: tuple[NodeContainer, ...] = ()
    dns_policy: str = ""
    dns_config: DnsConfig | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    host_users: bool | None = None
    hostname_override: str = ""
    share_process_namespace: bool | None = None
    enable_service_links: bool | None = None
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalReference, ...] = ()
    runtime_class_name: str | None = None


class NodePod(Pod, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePodSpec = NodePodSpec()
    status: PodStatus = PodStatus()
