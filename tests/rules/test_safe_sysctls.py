"""Kernel settings that a pod may change."""

import pytest

from kohort.rules.safe_sysctls import SAFE_SYSCTLS, is_of_ipc, safe_sysctls


@pytest.mark.parametrize(
    ("minor", "name", "safe"),
    [
        (25, "kernel.shm_rmid_forced", True),
        (25, "net.ipv4.ip_unprivileged_port_start", True),
        (26, "net.ipv4.ip_local_reserved_ports", False),
        (27, "net.ipv4.ip_local_reserved_ports", True),
        (28, "net.ipv4.tcp_keepalive_time", False),
        (29, "net.ipv4.tcp_keepalive_time", True),
        (31, "net.ipv4.tcp_rmem", False),
        (32, "net.ipv4.tcp_rmem", True),
        (None, "net.ipv4.tcp_wmem", True),
        (None, "kernel.msgmax", False),
        (None, "net.core.somaxconn", False),
    ],
)
def test_a_setting_is_safe_from_the_release_on_that_added_it(minor: int | None, name: str, safe: bool) -> None:
    assert (name in safe_sysctls(minor)) == safe


def test_releases_only_add_settings() -> None:
    for minor in range(20, 40):
        assert safe_sysctls(minor) <= safe_sysctls(minor + 1) <= safe_sysctls()


def test_no_setting_is_listed_twice() -> None:
    names = [name for _, added in SAFE_SYSCTLS for name in added]
    assert len(names) == len(set(names)) == len(safe_sysctls())


@pytest.mark.parametrize(
    ("name", "ipc"),
    [
        ("kernel.shmmax", True),
        ("kernel/msgmni", True),
        ("kernel.sem", True),
        ("fs.mqueue.msg_max", True),
        ("net.ipv4.tcp_syncookies", False),
        ("kernel.hostname", False),
        ("vm.swappiness", False),
    ],
)
def test_settings_of_shared_memory_belong_to_ipc(name: str, ipc: bool) -> None:
    assert is_of_ipc(name) == ipc
