"""The parts of the image builder. The whole image is built and run in tests/image."""

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from tools.image import build, debian, wheels
from tools.image.files import Files, digest_of
from tools.image.oci import Image, Settings, make_image
from tools.image.sbom import Component, render

from kohort.install.operator_deployment import deployment
from kohort.install.options import InstallOptions

ROOT = Path(__file__).parents[2]
TARGET = wheels.Target("3.11", (2, 36), "amd64")
SETTINGS = Settings(
    name="registry.example.com/kohort:1",
    architecture="amd64",
    created="2026-01-01T00:00:00Z",
    entry_point=("kohort",),
    arguments=("operator",),
    environment={"PATH": "/usr/bin"},
    user="65532:65532",
    ports=("8081/tcp",),
    labels={"org.opencontainers.image.title": "kohort"},
)


def some_files(order: int = 1) -> Files:
    files = Files()
    for path in ["usr/bin/tool", "etc/name", "usr/lib/a.py"][::order]:
        files.add(path, path.encode(), 0o755 if "bin" in path else 0o644)
    files.links["bin"] = "usr/bin"
    files.folders["tmp"] = 0o1777
    return files


def test_the_same_files_make_the_same_layer_in_whatever_order_they_came() -> None:
    assert some_files(1).layer() == some_files(-1).layer()
    other = some_files()
    other.add("etc/name", b"other")
    assert other.layer().digest != some_files().layer().digest


def test_a_layer_has_folders_before_their_files_and_nothing_of_this_machine() -> None:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(some_files().layer().compressed))) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names.index("usr/bin") < names.index("usr/bin/tool")
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", 0)}
    modes = {member.name: member.mode for member in members}
    assert (modes["tmp"], modes["usr/bin/tool"], modes["etc/name"]) == (0o1777, 0o755, 0o644)


def image() -> Image:
    return make_image(SETTINGS, {"base": some_files().layer(), "kohort": Files({"a": (0o644, b"a")}).layer()})


def test_every_blob_of_the_layout_has_the_name_of_its_digest_and_is_referred_to() -> None:
    files = image().files
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == image().digest
    manifest = json.loads(files[_place(entry["digest"])])
    referred = [entry, manifest["config"], *manifest["layers"]]
    for one in referred:
        content = files[_place(one["digest"])]
        assert (len(content), digest_of(content)) == (one["size"], one["digest"])
    assert {_place(one["digest"]) for one in referred} == {path for path in files if path.startswith("blobs/")}
    config = json.loads(files[_place(manifest["config"]["digest"])])
    contents = [gzip.decompress(files[_place(one["digest"])]) for one in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [digest_of(content) for content in contents]
    assert entry["annotations"]["io.containerd.image.name"] == SETTINGS.name
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "1"


def test_the_archive_is_the_layout(tmp_path: Path) -> None:
    image().write(tmp_path / "image")
    written = {
        str(p.relative_to(tmp_path / "image")): p.read_bytes() for p in (tmp_path / "image").rglob("*") if p.is_file()
    }
    with tarfile.open(fileobj=io.BytesIO(image().archive())) as archive:
        archived = {}
        for member in archive.getmembers():
            stream = archive.extractfile(member)
            assert stream is not None
            archived[member.name] = stream.read()
    assert archived == written == image().files


def test_the_image_runs_as_the_deployment_demands() -> None:
    (container,) = deployment(InstallOptions())["spec"]["template"]["spec"]["containers"]
    number = container["securityContext"]["runAsUser"]
    assert f"{number}:{number}" == build.USER
    assert {f"{port['containerPort']}/tcp" for port in container["ports"]} == set(build.PORTS)
    assert "/usr/local/bin" in build.ENVIRONMENT["PATH"].split(":")
    assert container["command"] == ["kohort", "operator"]


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


CONTROL = """\
Package: libexample1
Source: example
Version: 1:2.0-3
Architecture: amd64
Depends: libc6 (>= 2.34), debconf (>= 0.5) | debconf-2.0, liba | libb,
 libc (>= 1)
Pre-Depends: first:any
Description: an example
Filename: pool/main/e/example.deb
SHA256: 00ff
"""


def test_what_apt_says_of_a_package_is_read_without_the_place_it_comes_from() -> None:
    package = debian.parse(CONTROL)
    assert (package.name, package.version, package.architecture, package.sha256) == (
        "libexample1",
        "1:2.0-3",
        "amd64",
        "00ff",
    )
    assert package.needs == (("first:any",), ("libc6",), ("debconf", "debconf-2.0"), ("liba", "libb"), ("libc",))
    assert "pool/" not in package.control


def package(name: str, *needs: tuple[str, ...]) -> debian.Package:
    return debian.Package(name, "1", "amd64", "", "", needs)


def test_the_base_has_what_packages_need_once_and_not_what_only_scripts_need() -> None:
    known = {
        "python": package("python", ("libc",), ("debconf", "debconf-2.0"), ("ssl-new", "ssl-old")),
        "libc": package("libc", ("libgcc",)),
        "libgcc": package("libgcc", ("libc",)),
        "ssl-new": package("ssl-new", ("perl-base",)),
    }
    assert [one.name for one in debian.closure(["python"], lambda names: [known[name] for name in names])] == [
        "libc",
        "libgcc",
        "python",
        "ssl-new",
    ]


@pytest.mark.parametrize(
    ("path", "dropped"),
    [
        ("usr/share/doc/libc6/copyright", False),
        ("usr/share/doc/libc6/changelog.gz", True),
        ("usr/share/man/man1/x.gz", True),
        ("usr/lib/python3.11/json/__init__.py", False),
        ("usr/lib/python3.11/test/support.py", True),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", False),
    ],
)
def test_licences_stay_and_manuals_go(path: str, dropped: bool) -> None:
    assert bool(debian.DROPPED.match(path)) is dropped


LOCK = """\
# a comment
aiohttp==3.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
backport==1 ; python_full_version < '3.13' \\
    --hash=sha256:cc
winonly==1 ; sys_platform == 'win32' \\
    --hash=sha256:dd
"""


def test_the_lock_is_read_for_the_python_of_the_image_and_not_for_that_of_this_machine() -> None:
    assert wheels.locked_for(TARGET, LOCK).split() == [
        *("aiohttp==3.1", "--hash=sha256:aa", "--hash=sha256:bb"),
        *("backport==1", "--hash=sha256:cc"),
    ]
    newer = wheels.Target("3.13", (2, 41), "arm64")
    assert "backport" not in wheels.locked_for(newer, LOCK)


def test_every_package_of_the_lock_is_in_the_image_or_not_for_linux() -> None:
    text = (ROOT / "requirements" / "run.lock").read_text()
    locked = {line.partition("==")[0] for line in text.splitlines() if "==" in line and not line.startswith(" ")}
    kept = {line.partition("==")[0] for line in wheels.locked_for(TARGET, text).splitlines()}
    assert {canonicalize_name(name) for name in kept} == {canonicalize_name(name) for name in locked}


def test_wheels_that_a_newer_libc_needs_are_not_taken() -> None:
    assert TARGET.platforms()[0] == "manylinux_2_36_x86_64"
    assert "manylinux2014_x86_64" in TARGET.platforms()
    assert wheels.Target("3.12", (2, 31), "arm64").platforms()[0] == "manylinux_2_31_aarch64"


def wheel(**members: str) -> wheels.Wheel:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return wheels.Wheel("x", "1", hashlib.sha256(stream.getvalue()).hexdigest(), stream.getvalue())


def test_files_of_a_wheel_go_where_python_looks_and_commands_of_packages_do_not() -> None:
    files = wheels.unpack(
        wheel(**{"x/__init__.py": "1", "x-1.data/purelib/y.py": "2", "x-1.data/scripts/tool": "3"}), TARGET
    )
    assert sorted(files.regular) == [f"{TARGET.folder}/x/__init__.py", f"{TARGET.folder}/y.py"]
    with pytest.raises(wheels.WheelError, match=r"x 1 wants to install x-1\.data/other/z"):
        wheels.unpack(wheel(**{"x-1.data/other/z": ""}), TARGET)


def test_the_commands_of_kohort_are_made() -> None:
    declared = "[console_scripts]\nkohort = kohort.cli.main:main\n"
    made = wheels.commands(wheels.unpack(wheel(**{"x-1.dist-info/entry_points.txt": declared}), TARGET), TARGET)
    mode, content = made.regular["usr/local/bin/kohort"]
    assert mode == 0o755
    assert content.decode().splitlines()[0] == "#!/usr/bin/python3.11"
    compile(content, "kohort", "exec")


def test_names_in_the_list_of_contents_are_those_that_scanners_know() -> None:
    deb = Component("deb", "libstdc++6", "12.2.0-14+deb12u1", "00", "amd64", ("debian", "12"))
    assert deb.purl == "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12"
    assert Component("pypi", "aiohttp", "3.1", "00").purl == "pkg:pypi/aiohttp@3.1"


def test_the_distribution_is_read_from_its_own_file() -> None:
    assert debian.read_release('PRETTY_NAME="Ubuntu 24.04"\nID=ubuntu\nVERSION_ID="24.04"\n') == ("ubuntu", "24.04")


def test_the_same_contents_make_the_same_list() -> None:
    both = [Component("pypi", "b", "1", "00"), Component("pypi", "a", "2", "11")]
    assert render("kohort", "1", 0, both) == render("kohort", "1", 0, both[::-1])
    assert render("kohort", "1", 0, both) != render("kohort", "1", 0, both[:1])
