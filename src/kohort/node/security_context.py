"""The user and the rights of a container: its `securityContext`, and the pod's for fields that it does not set. Pure.

| field                             | what follows                                                                     |
|-----------------------------------|----------------------------------------------------------------------------------|
| `runAsUser`, `runAsGroup`         | user and group; see below for a user without a group                             |
| `runAsNonRoot`                    | a container that would run as root does not start                                |
| `supplementalGroups`, `fsGroup`   | further groups; volumes belong to the latter                                     |
| `supplementalGroupsPolicy`        | `Merge` adds the groups that the image's `/etc/group` gives the user             |
| `readOnlyRootFilesystem`          | the root is read-only, volumes are not                                           |
| `allowPrivilegeEscalation: false` | programs gain no rights when they start others                                   |
| `capabilities`                    | the usual set of container runtimes, with those added and without those dropped  |
| `privileged`                      | all capabilities, all devices, no seccomp profile                                |
| `seccompProfile`                  | `RuntimeDefault` is applied, `Localhost` is refused: a node has no such files    |
| `procMount: Unmasked`             | nothing of /proc is hidden                                                       |

The group of a container that names a user but no group:

| the user                                  | group                                                       |
|-------------------------------------------|-------------------------------------------------------------|
| is in the image's `/etc/passwd`           | the one there                                               |
| is not, in an image                       | 0, as with every container runtime                          |
| is not, with the machine's own root       | the number of the user: group 0 owns files of the machine   |

An agent that is not root can only give its own rights. `unenforced` lists the fields of a pod, of this table and
others, that the node does not enforce.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from kohort.node.container_environment import ConfigProblem
from kohort.node.image_config import Image
from kohort.node.runtimes.interface import ContainerSecurity
from kohort.node.runtimes.process import seccomp
from kohort.objects.node_pods import (
    AppArmorProfile,
    Capabilities,
    NodeContainer,
    NodePod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from kohort.rules.safe_sysctls import safe_sysctls

CAPABILITIES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""In the order of their numbers."""
DEFAULT_CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
"""What container runtimes leave to root in a container."""
MACHINE: Final = Image()
SECCOMP_PROFILES: Final = Path("/var/lib/kubelet/seccomp")
"""Where files of profiles are for runtimes that read them; the usual place."""


class Rights(msgspec.Struct, frozen=True):
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    privileged: bool = False
    capabilities: tuple[int, ...] | None = None
    seccomp: bytes = b""
    unmasked_proc: bool = False


class _PasswdEntry(msgspec.Struct, frozen=True):
    name: str
    uid: int
    gid: int


def rights_of(pod: NodePod, container: NodeContainer, image: Image = MACHINE) -> Rights:
    """Raises ConfigProblem when it must not run as root and would, and for users and profiles that are not there."""
    whole = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    wanted = whole.run_as_user if own.run_as_user is None else own.run_as_user
    non_root = whole.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    uid, gid = _image_user(image) if wanted is None else (wanted, None)
    if non_root:
        _refuse_root(pod, container, uid, image if wanted is None else MACHINE)
    run_as_group = whole.run_as_group if own.run_as_group is None else own.run_as_group
    granted = granted_capabilities(own)
    return Rights(
        uid=uid,
        gid=run_as_group if run_as_group is not None else gid if gid is not None else _primary_group(image, uid),
        groups=_groups(whole, image, uid),
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        privileged=bool(own.privileged),
        capabilities=None
        if own.privileged
        else tuple(number for number, name in enumerate(CAPABILITIES) if name in granted),
        seccomp=_filter(own.seccomp_profile or whole.seccomp_profile, own, granted),
        unmasked_proc=own.proc_mount == "Unmasked",
    )


def container_security(pod: NodePod, container: NodeContainer, image: Image) -> ContainerSecurity:
    """The same for a runtime that carries it out by itself. Raises ConfigProblem."""
    whole = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    wanted = whole.run_as_user if own.run_as_user is None else own.run_as_user
    non_root = whole.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    named = image.config.user.partition(":")[0]
    uid = int(named) if wanted is None and named.isdecimal() else wanted
    if non_root:
        _refuse_root(pod, container, uid, image if wanted is None else MACHINE)
    capabilities = own.capabilities or Capabilities()
    return ContainerSecurity(
        uid=uid,
        user_name="" if wanted is not None or named.isdecimal() else named,
        gid=whole.run_as_group if own.run_as_group is None else own.run_as_group,
        groups=(*(() if whole.fs_group is None else (whole.fs_group,)), *whole.supplemental_groups),
        strict_groups=whole.supplemental_groups_policy == "Strict",
        privileged=bool(own.privileged),
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        added_capabilities=tuple(name.removeprefix("CAP_") for name in capabilities.add),
        dropped_capabilities=tuple(name.removeprefix("CAP_") for name in capabilities.drop),
        seccomp=_seccomp_profile(own.seccomp_profile or whole.seccomp_profile),
        apparmor=_apparmor_profile(own.app_armor_profile or whole.app_armor_profile),
        selinux={key: str(value) for key, value in (own.se_linux_options or whole.se_linux_options or {}).items()},
        unmasked_proc=own.proc_mount == "Unmasked",
    )


def _seccomp_profile(profile: SeccompProfile | None) -> str:
    if profile is None or profile.type in ("", "Unconfined"):
        return "Unconfined"
    if profile.type == "RuntimeDefault":
        return profile.type
    path = Path(profile.localhost_profile)
    if not profile.localhost_profile or path.is_absolute() or ".." in path.parts:
        raise ConfigProblem(f"seccompProfile.localhostProfile: {profile.localhost_profile!r} is not a file name")
    return str(SECCOMP_PROFILES / profile.localhost_profile)


def _apparmor_profile(profile: AppArmorProfile | None) -> str:
    if profile is None:
        return ""
    return profile.localhost_profile if profile.type == "Localhost" else profile.type


def granted_capabilities(own: SecurityContext) -> frozenset[str]:
    """Names of all that root may do in a container. What is added stays, whatever is dropped."""
    if own.privileged:
        return frozenset(CAPABILITIES)
    added = {name.removeprefix("CAP_") for name in own.capabilities.add} if own.capabilities else set()
    dropped = {name.removeprefix("CAP_") for name in own.capabilities.drop} if own.capabilities else set()
    kept = frozenset() if "ALL" in dropped else DEFAULT_CAPABILITIES - dropped
    return frozenset(CAPABILITIES) - (dropped - {"ALL"}) | (added - {"ALL"}) if "ALL" in added else kept | added


def forbidden_sysctls(pod: NodePod) -> list[str]:
    """Kernel settings of a pod that a node does not change."""
    safe = safe_sysctls()
    wanted = pod.spec.security_context.sysctls if pod.spec.security_context is not None else ()
    return [each.name for each in wanted if each.name.replace("/", ".") not in safe]


def unenforced(pod: NodePod, *, root: bool) -> tuple[str, ...]:
    """Fields of a pod that this node does not enforce; `root` says whether the agent is root."""
    return tuple(dict.fromkeys(_unenforced(pod, root)))


def unenforced_by_runtime(pod: NodePod) -> tuple[str, ...]:
    """Fields of a pod that a container runtime is not asked for."""
    contexts = [pod.spec.security_context, *(each.security_context for each in pod.spec.containers or ())]
    windows = any(each is not None and each.windows_options for each in contexts)
    return ("spec.securityContext.windowsOptions",) if windows else ()


def _unenforced(pod: NodePod, root: bool) -> Iterator[str]:
    whole = pod.spec.security_context or PodSecurityContext()
    if pod.spec.host_users is False:
        yield "spec.hostUsers"
    if pod.spec.share_process_namespace:
        yield "spec.shareProcessNamespace"
    if not root and (whole.run_as_group is not None or whole.fs_group is not None or whole.supplemental_groups):
        yield "spec.securityContext.runAsGroup, fsGroup, supplementalGroups"
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers or ()),
        ("ephemeralContainers", pod.spec.ephemeral_containers),
    ):
        for number, container in enumerate(containers):
            own = container.security_context or SecurityContext()
            place = f"spec.{field}[{number}].securityContext"
            user = whole.run_as_user if own.run_as_user is None else own.run_as_user
            if not root and user is not None and user != os.geteuid():
                yield f"{place}.runAsUser" if own.run_as_user is not None else "spec.securityContext.runAsUser"
            if not root and own.capabilities is not None and own.capabilities.add:
                yield f"{place}.capabilities.add"
            for context, at in ((own, place), (whole, "spec.securityContext")):
                if context.se_linux_options:
                    yield f"{at}.seLinuxOptions"
                if context.app_armor_profile is not None and context.app_armor_profile.type != "Unconfined":
                    yield f"{at}.appArmorProfile"
                if context.windows_options:
                    yield f"{at}.windowsOptions"


def _refuse_root(pod: NodePod, container: NodeContainer, user: int | None, image: Image) -> None:
    of = pod.metadata
    whose = f'(pod: "{of.name}_{of.namespace}({of.uid})", container: {container.name})'
    named = image.config.user.partition(":")[0]
    if named and not named.isdecimal():
        message = f"container has runAsNonRoot and image has non-numeric user ({named}), cannot verify user is non-root"
        raise ConfigProblem(f"{message} {whose}")
    if user == 0 and not named:
        raise ConfigProblem(f"container's runAsUser breaks non-root policy {whose}")
    if user == 0 or (user is None and os.geteuid() == 0):
        raise ConfigProblem(f"container has runAsNonRoot and image will run as root {whose}")


def _image_user(image: Image) -> tuple[int | None, int | None]:
    """User and group that an image names, by name or number. Raises ConfigProblem."""
    user, _, group = image.config.user.partition(":")
    if not user:
        return None, None
    person = next((each for each in _passwd_entries(image.passwd) if user in (each.name, str(each.uid))), None)
    uid = (
        person.uid
        if person is not None
        else _number(user, f"unable to find user {user}: no matching entries in passwd file")
    )
    if not group:
        return uid, None
    named = next((number for name, number, _ in _group_lines(image.group) if name == group), None)
    problem = f"unable to find group {group}: no matching entries in group file"
    return uid, named if named is not None else _number(group, problem)


def _number(text: str, problem: str) -> int:
    if not text.isdecimal():
        raise ConfigProblem(problem)
    return int(text)


def _primary_group(image: Image, uid: int | None) -> int | None:
    if uid is None:
        return None
    found = next((each.gid for each in _passwd_entries(image.passwd) if each.uid == uid), None)
    return found if found is not None else 0 if image.root else uid


def _groups(whole: PodSecurityContext, image: Image, uid: int | None) -> tuple[int, ...]:
    found = [*whole.supplemental_groups, *(() if whole.fs_group is None else (whole.fs_group,))]
    if whole.supplemental_groups_policy != "Strict" and uid:
        names = {each.name for each in _passwd_entries(image.passwd) if each.uid == uid}
        found += [number for _, number, members in _group_lines(image.group) if names & members]
    return tuple(dict.fromkeys(found))


def _passwd_entries(passwd: str) -> Iterator[_PasswdEntry]:
    for line in passwd.splitlines():
        parts = line.split(":")
        if len(parts) >= 4 and parts[2].isdecimal() and parts[3].isdecimal():
            yield _PasswdEntry(parts[0], int(parts[2]), int(parts[3]))


def _group_lines(group: str) -> Iterator[tuple[str, int, set[str]]]:
    for line in group.splitlines():
        parts = line.split(":")
        if len(parts) >= 4 and parts[2].isdecimal():
            yield parts[0], int(parts[2]), {name.strip() for name in parts[3].split(",") if name.strip()}


def _filter(profile: SeccompProfile | None, own: SecurityContext, granted: frozenset[str]) -> bytes:
    if profile is None or own.privileged or profile.type in ("", "Unconfined"):
        return b""
    if profile.type != "RuntimeDefault":
        raise ConfigProblem(
            f"securityContext.seccompProfile.type: {profile.type} is not supported by this node, which has no profile "
            "files; use RuntimeDefault or Unconfined"
        )
    try:
        return seccomp.program_for(granted)
    except OSError as problem:
        raise ConfigProblem(f"securityContext.seccompProfile: {problem}") from problem
