"""The images that Kubernetes' end-to-end specs run, made here: nothing is pulled from a registry.

| image                  | what is in it                                                                          |
|------------------------|----------------------------------------------------------------------------------------|
| agnhost                | the program of Kubernetes' sources, Debian's curl, nc, ip, ipcs and dig, and a busybox  |
| glibc-dns-testing      | the same files                                                                         |
| nautilus, kitten       | agnhost, serving files of Kubernetes' sources                                           |
| busybox, nonroot       | Debian's static busybox, with a bash as shell; nonroot runs as user 1234                |
| nonewprivs             | busybox, and the setuid program of Kubernetes' sources                                  |
| pause                  | `pause/main.go` beside this module                                                     |
| nginx                  | Debian's nginx                                                                         |

Programs that busybox lacks are those of Debian's coreutils. The shell is Debian's static bash, because the shell of
Debian's busybox drops variables whose names are no identifiers (`data-1`), and specs print such variables with
`sh -c env`.

Not made, because no spec of the areas of `suite.py` needs them: images of storage drivers, of the sample API server,
of load generators, and perl.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.image import debian
from tools.image.files import Files, Layer, digest_of
from tools.image.oci import INDEX, MANIFEST, Image, Settings, make_image
from tools.kubernetes.build import HERE, cache_folder

MODULE: Final = "k8s.io/kubernetes"
PROGRAMS: Final = {
    "agnhost": f"{MODULE}/test/images/agnhost",
    "nnp": f"{MODULE}/test/images/nonewprivs",
    "pause": "./pause",
}
TOOLS: Final = ("curl", "netcat-openbsd", "iproute2", "util-linux", "bind9-dnsutils")
USERS: Final = (
    b"root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n"
)
GROUPS: Final = b"root:x:0:\nwww-data:x:33:\nusers:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NGINX: Final = ("nginx", "-g", "daemon off;")
HIDDEN_TAG: Final = "testing"
"""Under which the registry inside agnhost offers its only image."""


@dataclass(frozen=True)
class Recipe:
    """An image: its layers, and how its containers run."""

    tags: tuple[str, ...]
    layers: tuple[Layer, ...]
    entry_point: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    user: str = ""
    ports: tuple[str, ...] = field(default=())


def image_archives() -> dict[str, Path]:
    """Names with tags, such as agnhost:2.63.0, and archives of images, made where they are not in the cache."""
    folder = _folder()
    names = folder / "names.json"
    if not images_are_there():
        for old in (cache_folder() / "e2e").glob("images-*"):
            shutil.rmtree(old)
        folder.mkdir(parents=True)
        print("building the images of the specs (once)", file=sys.stderr, flush=True)
        found = {name: archive.name for name, archive in _write_archives(folder)}
        names.write_text(json.dumps(found))
    return {name: folder / archive for name, archive in json.loads(names.read_text()).items()}


def images_are_there() -> bool:
    return (_folder() / "names.json").is_file()


def _folder() -> Path:
    return cache_folder() / "e2e" / f"images-{_sources_digest()}"


def _sources_digest() -> str:
    sources = [Path(__file__), HERE / "pause" / "main.go", HERE / "go.sum"]
    return hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]


def _write_archives(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, recipe in _recipes(folder).items():
        archive = folder / f"{name}.tar"
        archive.write_bytes(_image(name, recipe).archive())
        for tag in recipe.tags:
            yield f"{name}:{tag}", archive


def _recipes(folder: Path) -> dict[str, Recipe]:
    programs = _build_programs(folder)
    busybox = _busybox()
    pause = Files()
    pause.add("pause", programs["pause"], 0o755)
    pausing = Recipe(("3.10.2",), (pause.layer(),), ("/pause",))
    agnhost = _over(_debian_files(TOOLS), busybox)
    agnhost.add("agnhost", programs["agnhost"], 0o755)
    agnhost.links |= {"agnhost-2": "agnhost", "usr/bin/nc": "nc.openbsd"}
    agnhost.folders["uploads"] = 0o777
    for name in ("localhost.crt", "localhost.key"):
        agnhost.add(name, (_module() / "test/images/agnhost/porter" / name).read_bytes())
    agnhost.update(_registry_files(_image("pause", pausing)))
    nonewprivs = _over(busybox, Files())
    nonewprivs.add("usr/local/bin/nnp", programs["nnp"], 0o4755)
    nginx = _over(_debian_files(("nginx",)), busybox)
    nginx.folders |= {"var/log/nginx": 0o755, "var/lib/nginx": 0o755, "run": 0o755}
    nginx.links["etc/nginx/sites-enabled/default"] = "../sites-available/default"
    serving = ("test-webserver",)
    small, tools = busybox.layer(), agnhost.layer()
    return {
        "agnhost": Recipe(("2.63.0", "2.55"), (tools,), ("/agnhost",), ("pause",)),
        "glibc-dns-testing": Recipe(("2.0.0",), (tools,), arguments=("sh",)),
        "nautilus": Recipe(("1.8",), (tools, _pages("nautilus").layer()), ("/agnhost",), serving),
        "kitten": Recipe(("1.8",), (tools, _pages("kitten").layer()), ("/agnhost",), serving),
        "busybox": Recipe(("1.37.0-1", "1.36.1-1"), (small,), arguments=("sh",)),
        "nonroot": Recipe(("1.5",), (small,), arguments=("sh",), user="1234"),
        "nonewprivs": Recipe(("1.4",), (nonewprivs.layer(),), arguments=("nnp",)),
        "nginx": Recipe(("1.15-4", "1.27-0"), (nginx.layer(),), arguments=NGINX, ports=("80/tcp",)),
        "pause": pausing,
    }


def _image(name: str, recipe: Recipe) -> Image:
    settings = Settings(
        name=f"specs.test/{name}:{recipe.tags[0]}",
        architecture="amd64",
        created="2024-01-01T00:00:00Z",
        entry_point=recipe.entry_point,
        arguments=recipe.arguments,
        environment={"PATH": PATH},
        user=recipe.user,
        ports=recipe.ports,
        labels={},
    )
    return make_image(settings, {f"{name} {place}": layer for place, layer in enumerate(recipe.layers)})


def _build_programs(folder: Path) -> dict[str, bytes]:
    found = {}
    for name, package in PROGRAMS.items():
        target = folder / name
        command = ["go", "build", "-ldflags", "-s -w", "-o", str(target), package]
        subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
        found[name] = target.read_bytes()
        target.unlink()
    return found


def _module() -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    return Path(subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True).stdout.strip())


def _pages(name: str) -> Files:
    found = Files()
    for path in sorted((_module() / "test/images" / name / "html").iterdir()):
        found.add(path.name, path.read_bytes())
    return found


def _busybox() -> Files:
    program = shutil.which("busybox")
    if program is None:
        raise RuntimeError("no busybox here: apt-get install busybox-static")
    found = Files()
    for link in debian.MERGED:
        found.links[link] = f"usr/{link}"
    found.add("usr/bin/busybox", Path(program).read_bytes(), 0o755)
    names = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    found.links |= {f"usr/bin/{name}": "busybox" for name in names if name != "busybox"}
    found.links |= {"usr/bin/sh": "bash-static", "usr/bin/bash": "bash-static"}
    found.folders |= {"tmp": 0o1777, "root": 0o700, "usr/lib": 0o755, "usr/lib64": 0o755, "usr/sbin": 0o755}
    found.folders |= {"home": 0o755, "var/www": 0o755, "etc": 0o755}
    found.add("etc/passwd", USERS)
    found.add("etc/group", GROUPS)
    found.add("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    return _over(found, _debian_files(("bash-static", "coreutils")))


def _debian_files(packages: tuple[str, ...]) -> Files:
    """What is in these packages and in all that they need, as it is: no script of a package is run."""
    found = Files()
    for package in debian.closure(packages, debian.show):
        for path, member, content in debian.members(debian.fetch(package)):
            if not path or path == "." or path.startswith(("usr/share/doc/", "usr/share/man/", "usr/share/locale/")):
                continue
            if member.isdir():
                found.folders[path] = member.mode & 0o7777
            elif member.issym():
                found.links[path] = member.linkname
            else:
                found.add(path, content, member.mode & 0o7777)
    return found


def _over(upper: Files, lower: Files) -> Files:
    """Both; where both have a path, that of `upper`."""
    found = Files()
    found.update(lower)
    for path in (*upper.regular, *upper.links, *upper.folders):
        for kind in (found.regular, found.links, found.folders):
            kind.pop(path, None)
    found.update(upper)
    for link in debian.MERGED:
        found.folders.pop(link, None)
    return found


def _registry_files(image: Image) -> Files:
    """What `agnhost fake-registry-server` serves: one image as an index with one manifest."""
    found = Files()
    blobs = {f"sha256:{Path(path).name}": content for path, content in image.files.items() if path.startswith("blobs/")}
    manifest = blobs.pop(image.digest)
    described = {
        "mediaType": MANIFEST,
        "digest": image.digest,
        "size": len(manifest),
        "platform": {"architecture": "amd64", "os": "linux"},
    }
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]}).encode()
    root = "var/registry/pause"
    for digest, content in ((image.digest, manifest), (digest_of(index), index)):
        found.add(f"{root}/manifests/{_place(digest)}", content)
    for digest, content in blobs.items():
        found.add(f"{root}/blobs/{_place(digest)}", content)
    found.add(f"{root}/manifests/{HIDDEN_TAG}", digest_of(index).encode())
    return found


def _place(digest: str) -> str:
    algorithm, _, name = digest.partition(":")
    return f"{algorithm}/{name[:2]}/{name}/data"


if __name__ == "__main__":
    for name, archive in image_archives().items():
        print(name, archive)
