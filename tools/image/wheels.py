"""Python packages as files of a layer: the locked ones, checked by hash, and kohort itself.

Wheels are chosen for the Python and the libc of the image, not for those of this machine, and are unpacked as they are:
installing a wheel is copying its files.
"""

import configparser
import hashlib
import io
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename
from tools.image.files import Files

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's names of architectures, which are also Go's and so those of images, and Python's."""
_OLDER: Final = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}


class WheelError(Exception):
    """A wheel cannot be put into the image."""


@dataclass(frozen=True)
class Target:
    """The Python of the image."""

    python: str
    libc: tuple[int, int]
    architecture: str

    @property
    def folder(self) -> str:
        """Where Debian's Python looks for packages that are not Debian's."""
        return f"usr/local/lib/python{self.python}/dist-packages"

    def environment(self) -> dict[str, str]:
        """What markers of requirements are compared with."""
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": MACHINES[self.architecture],
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }

    def platforms(self) -> list[str]:
        """Tags of wheels that its libc can load, the newest first."""
        found = []
        machine = MACHINES[self.architecture]
        for minor in range(self.libc[1], 4, -1):
            found.append(f"manylinux_{self.libc[0]}_{minor}_{machine}")
            if (self.libc[0], minor) in _OLDER:
                found.append(f"{_OLDER[self.libc[0], minor]}_{machine}")
        return found


@dataclass(frozen=True)
class Wheel:
    name: str
    version: str
    sha256: str
    content: bytes


def read_wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    content = path.read_bytes()
    return Wheel(name, str(version), hashlib.sha256(content).hexdigest(), content)


def locked_for(target: Target, lock: str) -> str:
    """The requirements of the lock file that hold for the image. pip would ask the Python that runs pip."""
    kept = []
    for block in lock.replace("\\\n", " ").splitlines():
        text, _, hashes = block.partition("--hash=")
        if not text.strip() or text.startswith("#"):
            continue
        requirement = Requirement(text.strip())
        if requirement.marker is None or requirement.marker.evaluate(target.environment()):
            kept.append(f"{requirement.name}{requirement.specifier} --hash={hashes}")
    return "\n".join(kept) + "\n"


def download(target: Target, lock: Path, folder: Path) -> list[Wheel]:
    wanted = folder / "requirements.txt"
    wanted.write_text(locked_for(target, lock.read_text()))
    short = f"cp{target.python.replace('.', '')}"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={target.python}"),
            *(f"--abi={abi}" for abi in (short, "abi3", "none")),
            *(f"--platform={platform}" for platform in (*target.platforms(), "any")),
            *("--dest", str(folder), "--requirement", str(wanted)),
        ],
        check=True,
    )
    return [read_wheel(path) for path in sorted(folder.glob("*.whl"))]


def unpack(wheel: Wheel, target: Target) -> Files:
    files = Files()
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            place = _place(wheel, entry.filename, target)
            if place:
                runs = bool(entry.external_attr >> 16 & 0o100)
                files.add(place, archive.read(entry), 0o755 if runs else 0o644)
    return files


def _place(wheel: Wheel, name: str, target: Target) -> str:
    first, _, rest = name.partition("/")
    if not first.endswith(".data"):
        return f"{target.folder}/{name}"
    scheme, _, rest = rest.partition("/")
    if scheme in ("purelib", "platlib"):
        return f"{target.folder}/{rest}"
    if scheme in ("scripts", "data", "headers"):  # commands and manuals of packages; the image has one command
        return ""
    raise WheelError(f"wheel {wheel.name} {wheel.version} wants to install {name}; the image has no place for {scheme}")


def commands(files: Files, target: Target) -> Files:
    """The commands that kohort's wheel declares."""
    found = Files()
    (declared,) = (
        content for path, (_, content) in files.regular.items() if path.endswith(".dist-info/entry_points.txt")
    )
    points = configparser.ConfigParser(delimiters=("=",))
    points.read_string(declared.decode())
    for name, place in points["console_scripts"].items():
        module, _, function = place.partition(":")
        text = (
            f"#!/usr/bin/python{target.python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        found.add(f"usr/local/bin/{name}", text.encode(), 0o755)
    return found
