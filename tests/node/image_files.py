"""Small images for tests, made of programs of this machine."""

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = (
    "sh",
    "cat",
    "ls",
    "id",
    "touch",
    "sleep",
    "grep",
    "stat",
    "readlink",
    "mount",
    "hostname",
    "chroot",
    "unshare",
)


def make_image(directory: Path, programs: tuple[str, ...] = PROGRAMS) -> Path:
    """A root file system with a shell and a few programs."""
    for name in programs:
        found = shutil.which(name)
        assert found, f"{name} is not on this machine"
        _copy(Path(found), directory / "bin" / name)
        linked = subprocess.run(["ldd", found], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            _copy(Path(library), directory / library.lstrip("/"))
    (directory / "etc").mkdir(exist_ok=True)
    (directory / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1000:55::/:/bin/sh\n")
    (directory / "etc" / "group").write_text("root:x:0:\napp:x:55:\nextra:x:77:app\n")
    return directory


def _copy(source: Path, target: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source.resolve(), target)
