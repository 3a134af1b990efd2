"""Whom a container runs as, and what that one may do: its `securityContext`, and the pod's where it says nothing. Pure.

| field                             | what follows                                                                  |
|-----------------------------------|-------------------------------------------------------------------------------|
| `runAsUser`, `runAsGroup`         | user and group                                                                |
| `runAsNonRoot`                    | a container that would run as root does not start                             |
| `supplementalGroups`, `fsGroup`   | further groups; volumes belong to the latter                                  |
| `readOnlyRootFilesystem`          | the root is read-only, volumes are not                                        |
| `allowPrivilegeEscalation: false` | programs gain no rights when they start others                                |
| `capabilities`                    | those that are dropped, and not added again, are out of reach even for root   |

An agent that is not root can give nobody other rights than its own.
"""

import os
from typing import Final

import msgspec

from kohort.node.environment import ConfigProblem
from kohort.objects.nodepods import NodeContainer, NodePod, PodSecurityContext, SecurityContext

CAPABILITIES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""In the order of their numbers."""


class Rights(msgspec.Struct, frozen=True):
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    dropped_capabilities: tuple[int, ...] = ()


def rights_of(pod: NodePod, container: NodeContainer) -> Rights:
    """Raises ConfigProblem when it must not run as root and would."""
    whole = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    user = whole.run_as_user if own.run_as_user is None else own.run_as_user
    non_root = whole.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if non_root:
        _refuse_root(pod, container, user)
    groups = (*whole.supplemental_groups, *(() if whole.fs_group is None else (whole.fs_group,)))
    return Rights(
        uid=user,
        gid=whole.run_as_group if own.run_as_group is None else own.run_as_group,
        groups=groups,
        read_only_root=bool(own.read_only_root_filesystem),
        no_new_privileges=own.allow_privilege_escalation is False,
        dropped_capabilities=() if own.privileged or own.capabilities is None else _dropped(own),
    )


def _refuse_root(pod: NodePod, container: NodeContainer, user: int | None) -> None:
    of = pod.metadata
    whose = f'(pod: "{of.name}_{of.namespace}({of.uid})", container: {container.name})'
    if user == 0:
        raise ConfigProblem(f"container's runAsUser breaks non-root policy {whose}")
    if user is None and os.geteuid() == 0:
        raise ConfigProblem(f"container has runAsNonRoot and image will run as root {whose}")


def _dropped(own: SecurityContext) -> tuple[int, ...]:
    assert own.capabilities is not None
    added = {name.removeprefix("CAP_") for name in own.capabilities.add}
    dropped = {name.removeprefix("CAP_") for name in own.capabilities.drop}
    if "ALL" in added:
        return ()
    return tuple(
        number
        for number, name in enumerate(CAPABILITIES)
        if name not in added and (name in dropped or "ALL" in dropped)
    )
