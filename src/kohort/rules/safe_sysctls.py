"""Kernel settings that a pod may change: those that are the pod's own, and cannot harm its neighbours.

A node takes these; Pod Security allows them from the release on that added them. A node refuses all others.
"""

from typing import Final

SAFE_SYSCTLS: Final = (
    (
        0,
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ),
    ),
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (
        29,
        (
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ),
    ),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)
"""The minor release of Kubernetes that added them, and their names."""


def safe_sysctls(minor: int | None = None) -> frozenset[str]:
    """Of a release, or of the newest one."""
    return frozenset(name for since, names in SAFE_SYSCTLS if minor is None or since <= minor for name in names)


def is_of_ipc(name: str) -> bool:
    """Whether a setting belongs to shared memory, semaphores and queues, and not to the network.

    >>> is_of_ipc("kernel.shm_rmid_forced"), is_of_ipc("net.ipv4.tcp_syncookies")
    (True, False)
    """
    return name.replace("/", ".").startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."))
