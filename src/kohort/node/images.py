"""Images are directories of this machine: no registry is asked.

| image                     | root file system                                       |
|---------------------------|--------------------------------------------------------|
| `host`                    | the machine's own                                      |
| an absolute path          | that directory                                         |
| anything else             | `IMAGES/<name>` or `IMAGES/<name>/<tag>` if it exists  |

What an image says about its programs (entry point, environment, user) is read by `imageconfig`.
"""

from pathlib import Path

from kohort.rules.host_images import HOST_IMAGE, image_name, is_machine_root, leaves_images


class NoImage(Exception):
    """There is no such image here."""


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
