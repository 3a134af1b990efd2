"""Reads the configuration of an image (entry point, environment, user, stop signal) and its users.

An image directory is a root file system, or it holds one as `rootfs` with a `config.json` beside it: the configuration
of an OCI image, or that of an OCI bundle, as tools that unpack images write them.

| `config.json`           | command             | environment | directory    | user                   | stop signal  |
|-------------------------|---------------------|-------------|--------------|------------------------|--------------|
| of an image (`config`)  | `Entrypoint`, `Cmd` | `Env`       | `WorkingDir` | `User`: name or number | `StopSignal` |
| of a bundle (`process`) | `args`              | `env`       | `cwd`        | `user.uid`, `user.gid` | annotation   |

The annotation is `org.opencontainers.image.stopSignal`, into which the OCI converts the field.

A pod's `command` replaces both entry point and command of the image; its `args` replace the command only.
"""

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from kohort.node.container_environment import ConfigProblem
from kohort.node.syscalls import open_in_root

LARGEST_FILE: Final = 1 << 20
STOP_SIGNAL: Final = "org.opencontainers.image.stopSignal"
"""The annotation of a bundle."""


class ImageConfig(msgspec.Struct, frozen=True):
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    directory: str = ""
    user: str = ""
    stop_signal: str = ""


class Image(msgspec.Struct, frozen=True):
    """A root directory (empty for the machine's own), its configuration and its users. An image of a runtime that has
    images of its own has a `reference` instead, and of its configuration only the user is known."""

    root: str = ""
    config: ImageConfig = ImageConfig()
    passwd: str = ""
    group: str = ""
    reference: str = ""


class _ImagePart(msgspec.Struct, rename="pascal"):
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


class _ProcessUser(msgspec.Struct):
    uid: int = 0
    gid: int = 0


class _ProcessPart(msgspec.Struct):
    args: list[str] | None = None
    env: list[str] | None = None
    cwd: str = ""
    user: _ProcessUser = msgspec.field(default_factory=_ProcessUser)


class _Document(msgspec.Struct):
    config: _ImagePart | None = None
    process: _ProcessPart | None = None
    annotations: dict[str, str] | None = None


def read_image(directory: Path | None) -> Image:
    """From the directory of an image, None for the machine's own root. Raises ConfigProblem for a configuration that
    cannot be read."""
    if directory is None:
        return Image(passwd=_text("/", "etc/passwd"), group=_text("/", "etc/group"))
    root, config = directory, ImageConfig()
    if (directory / "rootfs").is_dir() and (directory / "config.json").is_file():
        root, config = directory / "rootfs", _read_config(directory / "config.json")
    elif directory.name == "rootfs" and (directory.parent / "config.json").is_file():
        config = _read_config(directory.parent / "config.json")
    return Image(str(root), config, _text(str(root), "etc/passwd"), _text(str(root), "etc/group"))


def decode_config(content: bytes) -> ImageConfig:
    """Raises msgspec.MsgspecError."""
    document = msgspec.json.decode(content, type=_Document)
    if document.config is not None:
        found = document.config
        return ImageConfig(
            tuple(found.entrypoint or ()),
            tuple(found.cmd or ()),
            _variables(found.env),
            found.working_dir,
            found.user,
            found.stop_signal,
        )
    if document.process is not None:
        process = document.process
        user = f"{process.user.uid}:{process.user.gid}"
        stop_signal = (document.annotations or {}).get(STOP_SIGNAL, "")
        return ImageConfig(tuple(process.args or ()), (), _variables(process.env), process.cwd, user, stop_signal)
    return ImageConfig()


def _read_config(path: Path) -> ImageConfig:
    try:
        return decode_config(path.read_bytes())
    except (OSError, msgspec.MsgspecError) as problem:
        raise ConfigProblem(f"the configuration of the image cannot be read: {path}: {problem}") from problem


def _variables(lines: list[str] | None) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines or () if "=" in line)


def _text(root: str, path: str) -> str:
    """A file of an image, empty if there is none: links lead to files of the image only, and nothing but a regular file
    of a sensible size is read."""
    with contextlib.suppress(OSError):
        directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            opened = open_in_root(directory, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        finally:
            os.close(directory)
        with open(opened, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(LARGEST_FILE).decode(errors="replace")
    return ""
