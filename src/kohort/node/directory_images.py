"""Finds images, which are directories of this machine: this runtime pulls from no registry.

| image                     | root file system                                       |
|---------------------------|--------------------------------------------------------|
| `host`                    | the machine's own                                      |
| an absolute path          | that directory                                         |
| anything else             | `IMAGES/<name>` or `IMAGES/<name>/<tag>` if it exists  |

`image_config` reads the configuration of an image.
"""

import asyncio
from pathlib import Path

from kohort.node.image_config import Image, read_image
from kohort.node.runtimes.interface import ImageRequest, NoImage
from kohort.rules.host_images import HOST_IMAGE, image_name, is_machine_root, leaves_images


def directory_of(image: str, images: Path) -> Path | None:
    """The directory of an image, None for the machine's own root. Raises NoImage."""
    if is_machine_root(image):
        return None
    name, tag = image_name(image)
    if image.startswith("/"):
        candidates = [Path(image)]
    elif leaves_images(image):
        raise NoImage(f'"{image}" is not the name of an image: it has an empty part, or a part "." or ".."')
    else:
        candidates = [*([images / name / tag] if tag else []), images / name]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise NoImage(
        f'failed to find image "{image}": this node runs local root directories only; '
        f"use the image {HOST_IMAGE!r} or put a root file system into {images / name}"
    )


class DirectoryImages:
    """The images of a node as the runtimes without images of their own get them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def ensure(self, request: ImageRequest) -> Image:
        name = request.container.image
        return await asyncio.to_thread(lambda: read_image(directory_of(name, self._directory)))
