"""Images are directories of this machine: no registry is asked.

| image                     | root file system                                       |
|---------------------------|--------------------------------------------------------|
| `host`                    | the machine's own                                      |
| an absolute path          | that directory                                         |
| anything else             | `IMAGES/<name>` or `IMAGES/<name>/<tag>` if it exists  |
"""

from pathlib import Path

HOST = "host"


class NoImage(Exception):
    """There is no such image here."""


def root_of(image: str, images: Path) -> str:
    """The root directory for an image, empty for the machine's own. Raises NoImage."""
    last = image.rpartition("/")[2]
    name = image.rpartition(":")[0] if ":" in last else image
    tag = last.partition(":")[2]
    if name == HOST:
        return ""
    candidates = [Path(image)] if image.startswith("/") else [images / name / tag, images / name]
    for candidate in candidates:
        if candidate.is_dir():
            return str(candidate)
    raise NoImage(
        f'failed to find image "{image}": this node runs local root directories only; '
        f"use the image {HOST!r} or put a root file system into {images / name}"
    )
