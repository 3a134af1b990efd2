"""Parts of volumes, while a container that may write to the volume swaps directories for links: real mounts."""

import asyncio
import contextlib
import multiprocessing
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import pod as build
from tests.node.image_files import make_image

from kohort.node.mount_table import mounts_below, remove_directory, unmount_below
from kohort.node.runtimes.interface import CannotStart, Instance, Launch, Mount
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.sub_paths import bind_sub_paths, find_sub_path, make_sub_path, open_sub_path, unbind
from kohort.node.syscalls import MS_BIND, checked, libc, mount
from kohort.node.volumes import MountProblem, mounts_of
from kohort.objects.node_pods import NodePod

needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: the subPath race, for only root may mount; run this as root"
)
RENAME_EXCHANGE = 2
SECONDS = 60.0


def swap_forever(one: str, other: str) -> None:
    while True:
        libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE)


@contextlib.contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    """Another process exchanges two names without pause."""
    checked(libc.renameat2(-100, bytes(one), -100, bytes(other), RENAME_EXCHANGE), "exchange of two names")
    swapper = multiprocessing.get_context("fork").Process(target=swap_forever, args=(str(one), str(other)), daemon=True)
    swapper.start()
    try:
        yield
    finally:
        swapper.kill()
        swapper.join()


class Race:
    """A volume whose directory `part` becomes a link to a directory of the machine and back."""

    def __init__(self, place: Path) -> None:
        self.volume, self.outside, self.pins = place / "volume", place / "outside", place / "pins"
        (self.volume / "part" / "below").mkdir(parents=True)
        (self.outside / "below").mkdir(parents=True)
        for directory, said in ((self.volume / "part", "volume"), (self.outside, "MACHINE")):
            (directory / "name").write_text(said)
            (directory / "below" / "name").write_text(said)
        (self.volume / "link").symlink_to(self.outside)

    def swapped(self) -> contextlib.AbstractContextManager[None]:
        return swapped(self.volume / "part", self.volume / "link")

    def mount(self, sub_path: str) -> Mount:
        return Mount(str(self.volume), "/data", sub_path=sub_path)


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    yield Race(tmp_path)
    unmount_below(tmp_path)


def escaped_by_path(race: Race) -> bool:
    """What an agent would mount that checks a path and then uses it."""
    try:
        base, path = find_sub_path(str(race.volume), "part")
        return os.stat(os.path.join(base, path, "name")).st_ino == (race.outside / "name").stat().st_ino
    except (ValueError, OSError):
        return False


@needs_mounts
@pytest.mark.parametrize("sub_path", ["part", "part/below", "part/name"])
def test_what_is_mounted_is_never_outside_of_the_volume(race: Race, sub_path: str) -> None:
    mounted, escapes, deadline = 0, 0, time.monotonic() + SECONDS
    with race.swapped():
        while (mounted < 50 or not escapes) and time.monotonic() < deadline:
            escapes += escaped_by_path(race)
            launch = Launch("u_c_0", ("x",), mounts=(race.mount(sub_path),))
            try:
                bound = bind_sub_paths(launch, race.pins)
            except OSError:
                continue
            place = Path(bound.mounts[0].source)
            file = place / "name" if place.is_dir() else place
            assert file.read_text() == "volume"
            mounted += 1
    assert mounted >= 50, "the swapper leaves no time to mount anything"
    assert escapes, "the swapper is too slow to show anything"
    unbind(race.pins)
    assert mounts_below(race.pins) == [] and not race.pins.exists()


@needs_mounts
def test_missing_directories_are_never_made_outside_of_the_volume(race: Race) -> None:
    made, deadline = 0, time.monotonic() + SECONDS
    with race.swapped():
        while made < 200 and time.monotonic() < deadline:
            try:
                make_sub_path(str(race.volume), f"part/new{made}/below")
            except OSError:
                continue
            made += 1
    assert made == 200
    assert sorted(os.listdir(race.outside)) == ["below", "name"]
    found = next(each for each in (race.volume / "part", race.volume / "link") if not each.is_symlink())
    assert len(os.listdir(found)) == 202


@needs_mounts
async def test_a_process_container_never_sees_a_file_outside_of_the_volume(race: Race, tmp_path: Path) -> None:
    image = make_image(tmp_path / "image")
    runtime, ends = ProcessRuntime(tmp_path / "runtime"), asyncio.Queue[Instance]()
    runtime.on_exit(ends.put_nowait)
    said: list[str] = []
    try:
        with race.swapped():
            for number in range(40):
                log = tmp_path / "logs" / str(number)
                launch = Launch(
                    f"u_c{number}_0",
                    ("sh", "-c", "cat /data/name"),
                    {"PATH": "/bin:/usr/bin"},
                    root=str(image),
                    log=str(log),
                    layer=str(tmp_path / "layers" / str(number)),
                    mounts=(race.mount("part"),),
                )
                with contextlib.suppress(CannotStart):
                    await runtime.start(launch)
                    await ends.get()
                    said.append(log.read_text())
    finally:
        await runtime.close(stop=True)
    assert said and all("volume" in each and "MACHINE" not in each for each in said)


def test_links_in_the_volume_are_not_followed_when_it_is_opened(race: Race) -> None:
    for path in ("link", "link/name"):
        with pytest.raises(OSError):
            open_sub_path(race.mount(path))
    found = open_sub_path(race.mount("part"))
    assert stat.S_ISDIR(os.fstat(found).st_mode)
    os.close(found)


@needs_mounts
def test_a_link_that_comes_after_the_check_fails_the_start(race: Race) -> None:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", "subPath": "part"}]}
    pod = build("p").containers(container).volume("v", emptyDir={}).as_view(NodePod)
    mounts = mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(race.volume)}, {})
    (race.volume / "part").rename(race.volume / "moved")
    (race.volume / "link").rename(race.volume / "part")
    with pytest.raises(OSError):
        bind_sub_paths(Launch("u_c_0", ("x",), mounts=mounts), race.pins)
    assert mounts_below(race.pins) == []
    with pytest.raises(MountProblem, match="leads out of its volume"):
        mounts_of(pod, (pod.spec.containers or ())[0], {"v": str(race.volume)}, {})


@needs_mounts
def test_a_second_start_mounts_what_is_there_now(race: Race) -> None:
    launch = Launch("u_c_0", ("x",), mounts=(Mount("/usr", "/usr"), race.mount("part/name")))
    first = bind_sub_paths(launch, race.pins)
    assert first.mounts[0] == Mount("/usr", "/usr"), "only parts of volumes are mounted"
    (race.volume / "part" / "name").unlink()
    (race.volume / "part" / "name").write_text("newer")
    second = bind_sub_paths(launch, race.pins)
    assert Path(second.mounts[1].source).read_text() == "newer" and len(mounts_below(race.pins)) == 1


@needs_mounts
def test_a_pod_that_is_removed_takes_nothing_along_that_is_mounted(tmp_path: Path) -> None:
    """Directories and files of volumes, a file system that a privileged container has mounted, names with spaces."""
    precious, pod = tmp_path / "precious", tmp_path / "pods" / "u1"
    (precious / "part").mkdir(parents=True)
    (precious / "part" / "file").write_text("kept")
    for name in ("sub-paths/c/0", "volumes/with space", "volumes/twice"):
        (pod / name).mkdir(parents=True)
        mount(str(precious), str(pod / name), "", MS_BIND)
    mount(str(precious), str(pod / "volumes" / "twice"), "", MS_BIND)
    (pod / "sub-paths" / "c" / "1").touch()
    mount(str(precious / "part" / "file"), str(pod / "sub-paths" / "c" / "1"), "", MS_BIND)
    assert len(mounts_below(tmp_path)) == 5
    assert remove_directory(pod)
    assert not pod.exists() and mounts_below(tmp_path) == []
    assert (precious / "part" / "file").read_text() == "kept"


@needs_mounts
def test_to_unmount_a_part_leaves_the_mounts_of_the_volume_alone(tmp_path: Path) -> None:
    """A volume whose mounts are shared: what is mounted in it shows up in its parts, and to unmount those must not
    unmount it in the volume."""
    volume = tmp_path / "volume"
    (volume / "part" / "disk").mkdir(parents=True)
    try:
        mount("tmpfs", str(volume), "tmpfs")
        libc.mount(None, bytes(volume), None, 1 << 20, None)  # MS_SHARED
        (volume / "part" / "disk").mkdir(parents=True)
        bound = bind_sub_paths(
            Launch("u_c_0", ("x",), mounts=(Mount(str(volume), "/d", sub_path="part"),)), tmp_path / "pins"
        )
        mount("tmpfs", str(volume / "part" / "disk"), "tmpfs")
        (volume / "part" / "disk" / "file").write_text("kept")
        assert (Path(bound.mounts[0].source) / "disk" / "file").read_text() == "kept"
        unbind(tmp_path / "pins")
        assert (volume / "part" / "disk" / "file").read_text() == "kept"
        assert len(mounts_below(volume)) == 2 and mounts_below(tmp_path / "pins") == []
    finally:
        unmount_below(tmp_path)


@needs_mounts
def test_a_directory_with_a_mount_that_cannot_be_unmounted_is_kept(tmp_path: Path) -> None:
    """As a user without the right to unmount."""
    precious, pod = tmp_path / "precious", tmp_path / "pod"
    for place in (precious, pod):
        place.mkdir()
        place.chmod(0o777)
    tmp_path.chmod(0o777)
    (precious / "file").write_text("kept")
    (precious / "file").chmod(0o666)
    mount(str(precious), str(pod), "", MS_BIND)
    try:
        child = multiprocessing.get_context("fork").Process(target=remove_as_other_user, args=(pod,))
        child.start()
        child.join(SECONDS)
        assert child.exitcode == 0 and (precious / "file").read_text() == "kept"
    finally:
        unmount_below(tmp_path)


def remove_as_other_user(pod: Path) -> None:
    os.setgroups([])
    os.setuid(65534)
    raise SystemExit(1 if remove_directory(pod) else 0)
