"""Loads a module into the kernel that this program runs on: machines need no `insmod` for that.

python tests/kernel/load_module.py FILE
"""

import ctypes
import os
import sys

FINIT_MODULE = 313
"""The number of the system call on x86-64, the only processor that user-mode-linux is for."""


def load(file: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    if libc.syscall(FINIT_MODULE, descriptor, b"", 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), file)


if __name__ == "__main__":
    load(sys.argv[1])
