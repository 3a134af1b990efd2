"""The base of the image: files of the Debian packages that Python needs, and nothing that only installs packages.

Packages come from wherever apt of this machine takes them, so the release of Debian or Ubuntu is that of the machine,
and no address of a mirror is in this repository. apt checks signatures; the hash of every file is checked again here.
"""

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.image.files import Files

SKIPPED: Final = {
    "awk": "for scripts of base-files",
    "debconf": "asks questions when packages are installed",
    "dpkg": "installs packages",
    "install-info": "installs manuals",
    "libnsl2": "only for the module nis, which Python 3.13 removed",
    "libtirpc3": "only for the module nis, which Python 3.13 removed",
    "openssl": "the program, for scripts of ca-certificates; the library is there",
    "perl-base": "for scripts that install packages",
    "perl:any": "for scripts that install packages",
}
"""Dependencies that only scripts of packages need. No script runs here, so there is no shell either."""
MORE: Final = ("base-files", "ca-certificates", "libstdc++6", "netbase")
"""Besides Python: the name of the system, certificates, what the extension of google-re2 links to, names of ports."""
DROPPED: Final = re.compile(
    r"usr/share/(man|locale|lintian|info|bug|doc-base|ca-certificates|pixmaps|applications|python3)/"
    r"|usr/share/doc/(?!.*/copyright$)"
    r"|usr/share/base-files/|etc/(update-motd\.d|default|skel|ca-certificates)/|usr/sbin/|sbin/"
    r"|usr/lib/python3[.\d]*/(ensurepip|idlelib|lib2to3|test|tkinter|turtledemo|pydoc_data|distutils/tests)/"
    r"|usr/lib/x86_64-linux-gnu/gconv/|usr/lib/aarch64-linux-gnu/gconv/"
)
MERGED: Final = ("bin", "lib", "lib64", "sbin")
"""Folders that are links into usr; packages still name files by both paths."""
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"
MOZILLA: Final = "usr/share/ca-certificates/mozilla/"


class BaseError(Exception):
    """The base cannot be made; the message says why and what to do."""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    architecture: str
    sha256: str
    control: str
    needs: tuple[tuple[str, ...], ...]
    """Each with the alternatives, the preferred one first."""


@dataclass(frozen=True)
class Base:
    files: Files
    packages: tuple[Package, ...]
    python: str
    """As in python3.11."""
    libc: tuple[int, int]

    @property
    def distribution(self) -> tuple[str, str]:
        """Its name and version, such as debian and 12."""
        return read_release(self.files.regular["usr/lib/os-release"][1].decode())

    @property
    def architecture(self) -> str:
        return next(one.architecture for one in self.packages if one.name == "libc6")


def make_base(pinned: dict[str, str] | None = None) -> Base:
    """From the newest packages that apt knows, or from exactly those versions that are pinned."""
    python = python_version()
    found = closure([f"python{python}-minimal", f"libpython{python}-stdlib", *MORE], lambda names: show(names, pinned))
    files, certificates = Files(), []
    for link in MERGED:
        files.links[link] = f"usr/{link}"
    for package in found:
        for path, member, content in members(fetch(package)):
            if path.startswith(MOZILLA) and path.endswith(".crt"):
                certificates.append((path, content))
            _take(files, path, member, content)
        files.add(f"var/lib/dpkg/status.d/{package.name}", package.control.encode())
    files.add(BUNDLE, b"".join(content for _, content in sorted(certificates)))
    _add_system_files(files, python)
    (libc,) = (one.version for one in found if one.name == "libc6")
    major, minor = libc.partition("-")[0].split(".")[:2]
    return Base(files, tuple(found), python, (int(major), int(minor)))


def read_release(text: str) -> tuple[str, str]:
    """From the file os-release."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return fields.get("ID", "debian").strip('"'), fields.get("VERSION_ID", "").strip('"')


def python_version() -> str:
    """The version that the package python3 of this release means, such as 3.11."""
    (package,) = show(["python3-minimal"])
    for alternatives in package.needs:
        if found := re.fullmatch(r"python(3\.\d+)-minimal", alternatives[0]):
            return found[1]
    raise BaseError("the package python3-minimal does not depend on a Python that this tool knows")


def closure(names: Iterable[str], look_up: Callable[[list[str]], list[Package]]) -> list[Package]:
    """The packages and all that they need, by name. Asked in waves, because apt takes a second to start."""
    found: dict[str, Package] = {}
    wave = sorted(names)
    while wave:
        found |= {one.name: one for one in look_up(wave)}
        needs = {one for name in wave for one in found[name].needs}
        unmet = (one for one in needs if not any(name in found or name in SKIPPED for name in one))
        wave = sorted({alternatives[0] for alternatives in unmet})
    return [found[name] for name in sorted(found)]


def show(names: list[str], pinned: dict[str, str] | None = None) -> list[Package]:
    """What apt knows of these packages, of the newest version or the pinned one."""
    if pinned is not None and (other := [name for name in names if name not in pinned]):
        raise BaseError(f"packages {', '.join(other)} are needed and not pinned; build without --base")
    asked = [f"{name}={pinned[name]}" if pinned else name for name in names]
    text = _apt("apt-cache", "show", "--no-all-versions", *asked)
    found = {one.name: one for one in map(parse, filter(None, text.strip().split("\n\n")))}
    if unknown := [one for one, name in zip(asked, names, strict=True) if name not in found]:
        advice = "run apt-get update, or pin no versions (--base)"
        raise BaseError(f"apt does not know {', '.join(unknown)}: {advice}")
    return [found[name] for name in names]


def parse(control: str) -> Package:
    """A paragraph of apt-cache show. Where the file lies on the mirror is not kept."""
    unfolded = re.sub(r"\n[ \t]+", " ", control)
    fields = dict(line.split(": ", 1) for line in unfolded.splitlines() if ": " in line)
    relations = ", ".join(filter(None, (fields.get("Pre-Depends"), fields.get("Depends"))))
    needs = tuple(
        tuple(re.sub(r"\s*[(\[<].*", "", one.strip()) for one in group.split("|"))
        for group in relations.split(",")
        if group.strip()
    )
    kept = ("Package", "Source", "Version", "Architecture", "Maintainer", "Homepage")
    status = "".join(f"{key}: {fields[key]}\n" for key in kept if key in fields)
    return Package(
        fields["Package"], fields["Version"], fields["Architecture"], fields.get("SHA256", ""), status, needs
    )


def fetch(package: Package) -> Path:
    """The package's file, from the cache folder or from apt."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort" / "debian"
    target = cache / f"{package.sha256}.deb"
    if target.is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as directory:
        _apt("apt-get", "download", "-qq", f"{package.name}={package.version}", cwd=directory)
        (arrived,) = Path(directory).iterdir()
        digest = hashlib.sha256(arrived.read_bytes()).hexdigest()
        if digest != package.sha256:
            raise BaseError(f"package {package.name} {package.version} has sha256 {digest}, not {package.sha256}")
        arrived.rename(target)
    return target


def _apt(*command: str, cwd: str | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BaseError(f"no {command[0]} here: build deploy/Containerfile with an image builder instead") from None
    if done.returncode and command[0] == "apt-get":
        raise BaseError(f"{' '.join(command)} failed; if lists are old, run apt-get update: {done.stderr.strip()}")
    return done.stdout


def members(package: Path) -> Iterator[tuple[str, tarfile.TarInfo, bytes]]:
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            if path.partition("/")[0] in MERGED:
                path = f"usr/{path}"
            stream = archive.extractfile(member) if member.isreg() or member.islnk() else None
            yield path, member, stream.read() if stream else b""


def _take(files: Files, path: str, member: tarfile.TarInfo, content: bytes) -> None:
    mode = member.mode & 0o1777
    if path in ("", ".") or DROPPED.match(f"{path}/" if member.isdir() else path):
        return
    if member.isdir():
        files.folders[path] = mode
    elif member.issym():
        files.links[path] = member.linkname
    else:
        files.add(path, content, mode)


def _add_system_files(files: Files, python: str) -> None:
    """What scripts of packages would have made."""
    files.add(
        "etc/passwd", b"root:x:0:0:root:/root:/nonexistent\nkohort:x:65532:65532:kohort:/home/kohort:/nonexistent\n"
    )
    files.add("etc/group", b"root:x:0:\nkohort:x:65532:\n")
    files.add("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    files.links["usr/bin/python3"] = f"python{python}"
    files.folders |= {"tmp": 0o1777, "home/kohort": 0o755, "root": 0o700}
