"""Which unused images go when the disk fills up.

| the file system of images   | what happens                                                                         |
|-----------------------------|--------------------------------------------------------------------------------------|
| less than 85 % full         | nothing                                                                              |
| 85 % or more                | unused images are removed, least recently used first, until it would be 80 % full    |

An image is kept while a container refers to it, running or ended, while the runtime has pinned it or needs it for every
sandbox, and for two minutes after it was first seen. Images are removed by their id, because with one name a runtime
removes all of them.
"""

import asyncio
import contextlib
import os
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.discovery import sandbox_image

PERIOD_SECONDS: Final = 300.0
HIGH, LOW = 0.85, 0.80
LEAST_AGE: Final = 120.0
_log = Log(part="node")


class KnownImage(msgspec.Struct, frozen=True):
    id: str
    size: int
    first_seen: float
    last_used: float
    """When a container was last seen that was made of it; the time of its discovery before that."""
    used: bool = False
    pinned: bool = False


def chosen_for_removal(images: Iterable[KnownImage], excess: int, now: float) -> list[KnownImage]:
    """The images to remove so that `excess` bytes become free, or all that may be removed.

    >>> old, new = KnownImage("old", 5, 0, 0), KnownImage("new", 5, 0, 900)
    >>> [each.id for each in chosen_for_removal([new, old], 3, 1000)]
    ['old']
    """
    removable = [each for each in images if not each.used and not each.pinned and now - each.first_seen >= LEAST_AGE]
    found: list[KnownImage] = []
    for image in sorted(removable, key=lambda each: (each.last_used, each.first_seen, each.id)):
        if excess <= 0:
            break
        found.append(image)
        excess -= image.size
    return found


def excess_bytes(capacity: int, available: int) -> int:
    """How much must go, 0 while there is room."""
    used = capacity - available
    return max(used - int(capacity * LOW), 0) if capacity and used >= capacity * HIGH else 0


def updated(
    known: dict[str, KnownImage], images: Iterable[cri.Image], used: Collection[str], now: float
) -> dict[str, KnownImage]:
    """What is known of the images that are there now."""
    found = {}
    for image in images:
        before = known.get(image.id)
        in_use = image.id in used
        found[image.id] = KnownImage(
            image.id,
            image.size,
            before.first_seen if before is not None else now,
            now if in_use or before is None else before.last_used,
            in_use,
            image.pinned,
        )
    return found


class ImageRemoval:
    def __init__(self, client: CriClient) -> None:
        self._client = client
        self._known: dict[str, KnownImage] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.remove_unused()
            except RpcError as problem:
                _log.warning("unused images could not be removed", problem=str(problem))
            await asyncio.sleep(PERIOD_SECONDS)

    async def remove_unused(self) -> list[str]:
        """Look at the images, and remove some if the disk is full; their ids. Raises RpcError."""
        containers = (await self._client.call(cri.LIST_CONTAINERS, cri.ListContainersRequest())).containers
        images = (await self._client.call(cri.LIST_IMAGES, cri.ListImagesRequest())).images
        status = await self._client.call(cri.STATUS, cri.StatusRequest(True))
        used = _ids_in_use(images, containers, sandbox_image(status.info))
        self._known = updated(self._known, images, used, clock.seconds())
        capacity, available = await self._room()
        going = chosen_for_removal(self._known.values(), excess_bytes(capacity, available), clock.seconds())
        return [each.id for each in going if await self._removed(each.id)]

    async def _removed(self, id: str) -> bool:
        """An image that cannot be removed does not keep the others; a runtime that is away does: RpcError."""
        try:
            await self._client.call(cri.REMOVE_IMAGE, cri.RemoveImageRequest(cri.ImageSpec(image=id)))
        except RpcError as problem:
            if problem.code == Code.UNAVAILABLE:
                raise
            _log.warning("an unused image could not be removed", image=id, problem=str(problem))
            return False
        self._known.pop(id, None)
        return True

    async def _room(self) -> tuple[int, int]:
        """Size and free bytes of the file system of images; both 0 if the runtime does not say where it is."""
        answer = await self._client.call(cri.IMAGE_FS_INFO, cri.Empty())
        for each in answer.image_filesystems:
            with contextlib.suppress(OSError):
                found = os.statvfs(each.fs_id.mountpoint if each.fs_id is not None else "")
                return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        return 0, 0


def _ids_in_use(images: Iterable[cri.Image], containers: Iterable[cri.Container], sandboxes: str) -> set[str]:
    """Containers name their image by id, by digest or by a name; `sandboxes` is the image that every pod needs."""
    named = {sandboxes} | {each.image.image for each in containers if each.image is not None}
    named |= {each.image_ref for each in containers} | {each.image_id for each in containers}
    return {each.id for each in images if named & {each.id, *each.repo_tags, *each.repo_digests}}
