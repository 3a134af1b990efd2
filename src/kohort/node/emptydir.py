"""emptyDir volumes: directories that exist as long as their pod, on the disk or in memory.

`medium: Memory` is a file system in memory, mounted on the volume's directory where that is permitted; what is written
there counts as memory of the container that wrote it. It is as large as `sizeLimit` says, but not larger than the pod's
memory limit or the node. Where nothing may be mounted it is a directory on the disk. Mounts outlive the agent; they are
unmounted when their pod is removed (`mount_table`).
"""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kohort.kube.log import Log
from kohort.node.container_environment import ConfigProblem
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.objects.volumes import EmptyDir
from kohort.resources import MEMORY, SPEC, limit_declared, limits

MS_NOSUID_NODEV: Final = 2 | 4
_libc = ctypes.CDLL(None, use_errno=True)
_log = Log(part="node")


def provide(source: EmptyDir, place: Path, size: int, group: int | None = None) -> None:
    """Make the directory of a volume if it is not there; `size` is for one in memory. What is made in it belongs to
    `group`. Raises ConfigProblem."""
    if source.medium not in ("", "Memory"):
        raise ConfigProblem(f"emptyDir of medium {source.medium} is not supported by this node")
    place.mkdir(parents=True, exist_ok=True)
    if source.medium == "Memory" and not os.path.ismount(place):
        _mount(place, size)
    mode = 0o1777 if source.medium == "Memory" else 0o777  # that of a tmpfs is sticky, as with kubelet
    if group is not None and os.geteuid() == 0:
        os.chown(place, -1, group)
        mode |= 0o2000
    place.chmod(mode)


def mount_unless_used(place: Path) -> None:
    """Make a volume that only the agent writes to a file system in memory. One that has content stays where it is:
    running containers would not see what is written over it."""
    place.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 and not os.path.ismount(place) and not any(place.iterdir()):
        _mount(place, 0)


def memory_size(pod: Pod, source: EmptyDir, allocatable: Mapping[str, Quantity]) -> int:
    """How large a volume in memory is, in bytes. `pod` is the allocated one.

    >>> memory_size(Pod(), EmptyDir("Memory", "10Mi"), {"memory": Quantity.parse("1Gi")})
    10485760
    """
    bounds = [allocatable[MEMORY].value] if MEMORY in allocatable else []
    if limit_declared(pod.spec, MEMORY):
        bounds.append(limits(pod, SPEC)[MEMORY].value)
    if source.size_limit is not None and (wanted := Quantity.parse(source.size_limit).value) > 0:
        bounds.append(wanted)
    return min(bounds, default=0)


def _mount(place: Path, size: int) -> None:
    options = f"mode=1777,size={size}" if size else "mode=1777"
    if _libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", MS_NOSUID_NODEV, options.encode()) != 0:
        problem = os.strerror(ctypes.get_errno())
        _log.info(
            "failed to mount a volume in memory; it is a directory on the disk", place=str(place), problem=problem
        )
