"""kohort's image, from its parts: Debian's Python, the locked packages, and kohort of this checkout."""

import contextlib
import dataclasses
import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.image import debian, wheels
from tools.image.bytecode import compile_modules
from tools.image.files import Files
from tools.image.oci import Image, Settings, make_image
from tools.image.sbom import image_components, render

from kohort import __doc__ as described
from kohort import __version__
from kohort.install.options import TAGGED

USER: Final = "65532:65532"
ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/kohort",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "SSL_CERT_FILE": f"/{debian.BUNDLE}",
}
MODEL_SERVER: Final = f"registry.example.com/kohort-model-server:{__version__}"
PORTS: Final = ("8081/tcp", "8443/tcp", "9443/tcp")


class ImageError(Exception):
    """The image cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class Origin:
    """What the image is built from."""

    revision: str
    """The commit; empty where there is no git."""
    time: int


@dataclass(frozen=True)
class Built:
    title: str
    image: Image
    base: debian.Base
    wheels: tuple[wheels.Wheel, ...]
    """Those of the operator; kohort's own last."""
    created: int


@dataclass(frozen=True)
class Part:
    """What an image holds on top of Python."""

    layers: dict[str, Files]
    wheels: tuple[wheels.Wheel, ...]


def build(root: Path, *, name: str = "", base: Path | None = None, origin: Origin | None = None) -> Built:
    """The operator's image, from the checkout at root, with the Debian packages that the file pins, or the newest."""
    origin = origin or read_origin(root)
    with _explained():
        made = debian.make_base(_pinned(base))
        part = _operator(root, _target(made), origin)
        return _assemble("kohort", _operator_settings(name or TAGGED, made, origin), made, part, origin)


def build_model_server(root: Path, *, name: str = "", base: Path | None = None) -> Built:
    """The model server of the demo. It needs nothing but Python, so its base layer is that of the operator's image."""
    origin = read_origin(root)
    program = Files()
    program.add("app/server.py", (root / "src" / "kohort" / "demo" / "model_server.py").read_bytes())
    with _explained():
        made = debian.make_base(_pinned(base))
        settings = dataclasses.replace(
            _operator_settings(name or MODEL_SERVER, made, origin),
            entry_point=("python3", "/app/server.py"),
            arguments=(),
            ports=("8080/tcp", "9000/tcp"),
        )
        return _assemble("kohort-model-server", settings, made, Part({"the model server": program}, ()), origin)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (debian.BaseError, wheels.WheelError) as problem:
        raise ImageError(str(problem)) from problem
    except subprocess.CalledProcessError as problem:
        command = " ".join(map(str, problem.cmd))
        raise ImageError(f"{command} failed with exit code {problem.returncode}. {problem.stderr or ''}") from problem


def _target(base: debian.Base) -> wheels.Target:
    return wheels.Target(base.python, base.libc, base.architecture)


def _operator(root: Path, target: wheels.Target, origin: Origin) -> Part:
    with tempfile.TemporaryDirectory(prefix="kohort-wheels-") as directory:
        own = wheels.read_wheel(build_wheel(root, Path(directory) / "own", origin.time))
        needed = wheels.download(target, root / "requirements" / "run.lock", Path(directory))
    packages, program = Files(), wheels.unpack(own, target)
    for one in needed:
        packages.update(wheels.unpack(one, target))
    program.update(wheels.commands(program, target))
    layers = {"Python packages of requirements/run.lock": packages, f"kohort {own.version}": program}
    return Part(layers, (*needed, own))


def _assemble(title: str, settings: Settings, base: debian.Base, part: Part, origin: Origin) -> Built:
    compile_modules(base.files, [*part.layers.values()], _target(base))
    files = {f"Debian packages for Python {base.python}": base.files, **part.layers}
    image = make_image(settings, {text: one.layer() for text, one in files.items()})
    return Built(title, image, base, part.wheels, origin.time)


def _operator_settings(name: str, base: debian.Base, origin: Origin) -> Settings:
    moment = datetime.datetime.fromtimestamp(origin.time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Settings(
        name=name,
        architecture=base.architecture,
        created=moment,
        entry_point=("kohort",),
        arguments=("operator",),
        environment=ENVIRONMENT,
        user=USER,
        ports=PORTS,
        labels=_labels(origin, moment),
    )


def write(built: Built, folder: Path) -> list[str]:
    """All results, and a line about each."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / archive_name(built)
    built.image.write(folder / "image")
    archive.write_bytes(built.image.archive())
    (folder / "image.digest").write_text(f"{built.image.digest}\n")
    (folder / "base.lock").write_text("".join(f"{one.name}={one.version}\n" for one in built.base.packages))
    (folder / "image.cdx.json").write_text(
        render(built.image.name, __version__, built.created, image_components(built))
    )
    return [
        f"image    {built.image.name}@{built.image.digest}",
        f"size     {built.image.size / 1e6:.1f} MB compressed, {built.base.architecture}, {USER}",
        f"layout   {folder / 'image'}",
        f"archive  {archive}",
        f"digest   {folder / 'image.digest'}",
        f"base     {folder / 'base.lock'}: {len(built.base.packages)} Debian packages",
        f"content  {folder / 'image.cdx.json'}",
    ]


def archive_name(built: Built) -> str:
    return f"{built.title}-{__version__}-image-{built.base.architecture}.tar"


def build_wheel(root: Path, folder: Path, created: int) -> Path:
    """kohort's own. The same source and time make the same bytes."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(created)}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True)
    (found,) = folder.glob("*.whl")
    return found


def read_origin(root: Path) -> Origin:
    """The commit, and SOURCE_DATE_EPOCH, else the time of the commit, else the beginning of time."""
    time = os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct") or "0"
    revision = _git(root, "rev-parse", "HEAD")
    changed = "-changed" if revision and _git(root, "status", "--porcelain") else ""
    return Origin(revision + changed, int(time))


def _labels(origin: Origin, created: str) -> dict[str, str]:
    found = {
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.description": (described or "").strip(),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.title": "kohort",
        "org.opencontainers.image.version": __version__,
    }
    if origin.revision:
        found["org.opencontainers.image.revision"] = origin.revision
    return found


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _pinned(base: Path | None) -> dict[str, str] | None:
    if base is None:
        return None
    lines = (line.partition("=") for line in base.read_text().splitlines() if line)
    return {name: version for name, _, version in lines}
