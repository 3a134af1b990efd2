"""Room on the disk that is kept for the moment at which the disk is full.

Deleting what fills a disk is a write, too: without room for it, a user would have to look for a file to delete by hand.
So a file of a few megabytes lies beside the database. When a write finds no room, the file is deleted and the WAL of
the database takes its place at once, before other programs do. That is enough for some hundred writes. When there is
room again, so is the file.
"""

import contextlib
import ctypes
import os
import shutil
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 8 << 20
LEAST_FREE: Final = 4 * RESERVE_BYTES
"""On a disk with less, nothing is reserved."""
_KEEP_SIZE: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class DiskReserve:
    def __init__(self, path: Path) -> None:
        self._path = path

    def renew(self) -> None:
        """Take the room, unless it is taken or there is little."""
        with contextlib.suppress(OSError):
            if self._path.exists() or shutil.disk_usage(self._path.parent).free < LEAST_FREE:
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)

    def release_for(self, file: Path) -> bool:
        """Give the room to the end of a file, whose size stays. False if there is none."""
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            self._path.unlink()
            size = os.fstat(descriptor).st_size
            # Where this is not possible, the room is free for all, and the next write may well get it.
            _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_long(size), ctypes.c_long(RESERVE_BYTES - (64 << 10)))
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True
