"""The seccomp profile `RuntimeDefault`: calls to the kernel that containers have no use for fail.

The filter is a program for the kernel's packet filter machine. It refuses calls that change the machine (modules,
clocks, swap, kexec), that reach out of a container (mounts, namespaces, handles, keys of the kernel) or that have a
long history of faults (io_uring, userfaultfd, bpf). A capability that a container was given allows the calls that need
it. Calls newer than this table, and calls in the form of another architecture, do not exist for the process.

| call                      | answer                                        |
|---------------------------|-----------------------------------------------|
| refused                   | EPERM                                         |
| `clone` for a namespace   | EPERM, unless SYS_ADMIN                       |
| `clone3`                  | ENOSYS, so that programs fall back to `clone` |
| `personality`             | EPERM, except for the usual ones              |
| `socket(AF_VSOCK)`        | EPERM                                         |
| newer, other architecture | ENOSYS                                        |
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Collection
from typing import Final

import msgspec

from kohort.node.syscalls import SyscallFailed, checked, libc

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LAST_KNOWN: Final = 462
"""mseal, of Linux 6.10: numbers above are calls that came later."""
_X32_BIT: Final = 0x40000000
_NAMESPACE_FLAGS: Final = 0x7E020000
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_AF_VSOCK: Final = 40

REFUSED: Final = {
    # name: (x86_64, aarch64, capabilities of which one allows it); None where the architecture has no such call
    "acct": (163, 89, ("SYS_PACCT",)),
    "add_key": (248, 217, ()),
    "bpf": (321, 280, ("SYS_ADMIN", "BPF")),
    "clock_settime": (227, 112, ("SYS_TIME",)),
    "create_module": (174, None, ()),
    "delete_module": (176, 106, ("SYS_MODULE",)),
    "fanotify_init": (300, 262, ("SYS_ADMIN",)),
    "finit_module": (313, 273, ("SYS_MODULE",)),
    "fsconfig": (431, 431, ("SYS_ADMIN",)),
    "fsmount": (432, 432, ("SYS_ADMIN",)),
    "fsopen": (430, 430, ("SYS_ADMIN",)),
    "fspick": (433, 433, ("SYS_ADMIN",)),
    "get_kernel_syms": (177, None, ()),
    "get_mempolicy": (239, 236, ("SYS_NICE",)),
    "init_module": (175, 105, ("SYS_MODULE",)),
    "io_uring_enter": (426, 426, ()),
    "io_uring_register": (427, 427, ()),
    "io_uring_setup": (425, 425, ()),
    "ioperm": (173, None, ("SYS_RAWIO",)),
    "iopl": (172, None, ("SYS_RAWIO",)),
    "kcmp": (312, 272, ("SYS_PTRACE",)),
    "kexec_file_load": (320, 294, ("SYS_BOOT",)),
    "kexec_load": (246, 104, ("SYS_BOOT",)),
    "keyctl": (250, 219, ()),
    "lookup_dcookie": (212, 18, ("SYS_ADMIN",)),
    "mbind": (237, 235, ("SYS_NICE",)),
    "mount": (165, 40, ("SYS_ADMIN",)),
    "mount_setattr": (442, 442, ("SYS_ADMIN",)),
    "move_mount": (429, 429, ("SYS_ADMIN",)),
    "move_pages": (279, 239, ("SYS_NICE",)),
    "nfsservctl": (180, 42, ()),
    "open_by_handle_at": (304, 265, ("DAC_READ_SEARCH",)),
    "open_tree": (428, 428, ("SYS_ADMIN",)),
    "perf_event_open": (298, 241, ("SYS_ADMIN", "PERFMON")),
    "pidfd_getfd": (438, 438, ("SYS_PTRACE",)),
    "pivot_root": (155, 41, ("SYS_ADMIN",)),
    "query_module": (178, None, ()),
    "quotactl": (179, 60, ("SYS_ADMIN",)),
    "quotactl_fd": (443, 443, ("SYS_ADMIN",)),
    "reboot": (169, 142, ("SYS_BOOT",)),
    "request_key": (249, 218, ()),
    "set_mempolicy": (238, 237, ("SYS_NICE",)),
    "set_mempolicy_home_node": (450, 450, ("SYS_NICE",)),
    "setns": (308, 268, ("SYS_ADMIN",)),
    "settimeofday": (164, 170, ("SYS_TIME",)),
    "swapoff": (168, 225, ()),
    "swapon": (167, 224, ()),
    "_sysctl": (156, None, ()),
    "sysfs": (139, None, ()),
    "syslog": (103, 116, ("SYS_ADMIN", "SYSLOG")),
    "umount2": (166, 39, ("SYS_ADMIN",)),
    "unshare": (272, 97, ("SYS_ADMIN",)),
    "uselib": (134, None, ()),
    "userfaultfd": (323, 282, ()),
    "ustat": (136, None, ()),
    "vhangup": (153, 58, ("SYS_TTY_CONFIG",)),
}
CLONE: Final = (56, 220)
CLONE3: Final = 435
PERSONALITY: Final = (135, 92)
SOCKET: Final = (41, 198)

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_ERROR: Final = 0x00050000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


class Instruction(msgspec.Struct, frozen=True):
    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def runtime_default(machine: str, capabilities: Collection[str]) -> list[Instruction]:
    """The filter for a container with these capabilities. Raises SyscallFailed for an architecture without a table."""
    if machine not in ARCHITECTURES:
        raise SyscallFailed(f"seccomp profile RuntimeDefault is not available for the architecture {machine}")
    column = list(ARCHITECTURES).index(machine)
    found = [
        Instruction(_LOAD, _ARCHITECTURE_OFFSET),
        Instruction(_EQUAL, ARCHITECTURES[machine], 1, 0),
        _fails(errno.ENOSYS),
        Instruction(_LOAD, _NUMBER_OFFSET),
        Instruction(_GREATER, LAST_KNOWN, 0, 1),  # calls of the x32 form have a high bit set
        _fails(errno.ENOSYS),
        Instruction(_EQUAL, CLONE3, 0, 1),
        _fails(errno.ENOSYS),
    ]
    for numbers in REFUSED.values():
        number, permitting = numbers[column], numbers[2]
        if isinstance(number, int) and not {*permitting} & {*capabilities}:
            found += [Instruction(_EQUAL, number, 0, 1), _fails(errno.EPERM)]
    if "SYS_ADMIN" not in capabilities:
        found += _on_argument(CLONE[column], [Instruction(_ANY_BIT, _NAMESPACE_FLAGS, 0, 1), _fails(errno.EPERM)])
    usual = [Instruction(_EQUAL, value, len(_PERSONALITIES) - place, 0) for place, value in enumerate(_PERSONALITIES)]
    found += _on_argument(PERSONALITY[column], [*usual, _fails(errno.EPERM)])
    found += _on_argument(SOCKET[column], [Instruction(_EQUAL, _AF_VSOCK, 0, 1), _fails(errno.EPERM)])
    return [*found, Instruction(_RETURN, _ALLOW)]


def encoded(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("HBBI", each.code, each.if_true, each.if_false, each.value) for each in program)


def apply(program: bytes) -> None:
    """From here on, this process and all that it starts are filtered. Needs no_new_privs or CAP_SYS_ADMIN. Raises
    SyscallFailed."""
    structure = _Program(len(program) // 8, program)
    checked(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(structure), 0, 0), "seccomp profile RuntimeDefault")


def program_for(capabilities: Collection[str]) -> bytes:
    return encoded(runtime_default(platform.machine(), capabilities))


def _fails(number: int) -> Instruction:
    return Instruction(_RETURN, _ERROR | number)


def _on_argument(call: int, checks: list[Instruction]) -> list[Instruction]:
    """If it is this call, look at its first argument; what passes all checks is allowed."""
    body = [Instruction(_LOAD, _FIRST_ARGUMENT_OFFSET), *checks, Instruction(_RETURN, _ALLOW)]
    return [Instruction(_EQUAL, call, 0, len(body)), *body]
