"""What containers see of the machine, and what they leave behind on it: real processes, real mounts."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.node.image_files import make_image

from kohort.node.runtimes.interface import ERROR, Instance, Launch, Mount
from kohort.node.runtimes.process import seccomp
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.security_context import CAPABILITIES, DEFAULT_CAPABILITIES

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may do all of this")
ENV = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin"}
USUAL = tuple(number for number, name in enumerate(CAPABILITIES) if name in DEFAULT_CAPABILITIES)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image(tmp_path_factory.mktemp("images") / "small")


def content(path: str) -> str:
    return Path(path).read_text()


def is_there(path: str) -> bool:
    return Path(path).exists()


def files_of(image: Path) -> list[str]:
    return sorted(str(each) for each in image.rglob("*"))


class Containers:
    def __init__(self, runtime: ProcessRuntime, place: Path) -> None:
        self.runtime = runtime
        self.place = place
        self._ends: asyncio.Queue[Instance] = asyncio.Queue()
        runtime.on_exit(self._ends.put_nowait)

    def launch(self, script: str, id: str = "c", **more: object) -> Launch:
        given = {"capabilities": USUAL, **more}
        return Launch(
            id,
            ("sh", "-c", script),
            ENV,
            log=str(self.place / "logs" / id),
            layer=str(self.place / "layers" / id),
            **given,  # type: ignore[arg-type]
        )

    async def said(self, script: str, id: str = "c", **more: object) -> list[str]:
        """What a container writes until it ends."""
        started = await self.runtime.start(self.launch(script, id, **more))
        assert not started.problem, started.problem
        assert not started.notes, started.notes
        async with asyncio.timeout(120):
            await self._ends.get()
        lines = (self.place / "logs" / id).read_text().splitlines()
        return [line.split(" ", 3)[3] for line in lines]

    async def executed(self, within: str, script: str, **more: object) -> str:
        session = await self.runtime.execute(within, self.launch(script, "x", **more))
        said = b""
        async with asyncio.timeout(120):
            while (message := await session.read()) is not None and message[0] != ERROR:
                said += message[1]
        return said.decode()


@pytest.fixture
async def containers(tmp_path: Path) -> AsyncIterator[Containers]:
    runtime = ProcessRuntime(tmp_path / "runtime")
    yield Containers(runtime, tmp_path)
    await runtime.close(stop=True)


async def test_what_a_container_writes_is_in_a_layer_of_its_own(containers: Containers, image: Path) -> None:
    before = files_of(image)
    volume = containers.place / "volume"
    volume.mkdir()
    (volume / "f").write_text("content\n")
    mounts = (Mount(str(volume), "/deep/inside/volume"), Mount(str(volume / "f"), "/etc/one"))
    script = "cat /deep/inside/volume/f /etc/one; echo changed > /etc/passwd; touch /new; ls /"
    first = await containers.said(script, "a", root=str(image), mounts=mounts)
    assert first[:2] == ["content", "content"] and "new" in first
    second = await containers.said("cat /etc/passwd; ls /", "b", root=str(image))
    assert "root:x:0:0::/root:/bin/sh" in second and "new" not in second and "deep" not in second
    assert files_of(image) == before


async def test_a_container_with_an_image_has_its_own_processes_and_kernel_files(
    containers: Containers, image: Path
) -> None:
    script = """
echo $$
ls -d /proc/[0-9]* | grep -c .
stat -f -c %T /proc /sys /dev
echo x > /dev/null && ls /dev
(echo 1 > /proc/sys/kernel/panic) 2>/dev/null || echo fixed
cat /proc/keys /proc/timer_list
touch /sys/x 2>/dev/null || echo read-only
"""
    said = await containers.said(script, root=str(image), own_processes=True)
    assert said[0] == "1" and int(said[1]) <= 4, said
    assert said[2:5] == ["proc", "sysfs", "tmpfs"]
    assert {"null", "zero", "full", "random", "urandom", "tty", "fd", "ptmx", "pts", "shm", "stdout"} <= {*said[5:]}
    assert said[-2:] == ["fixed", "read-only"]


async def test_commands_see_what_the_container_sees(containers: Containers, image: Path) -> None:
    launch = containers.launch("touch /mine; exec sleep 60", root=str(image), own_processes=True)
    await containers.runtime.start(launch)
    begun = "until [ -e /mine ] && grep -q sleep /proc/1/comm; do sleep 0.01; done"
    seen = await containers.executed("c", f"{begun}; ls /mine; cat /proc/1/comm", root=str(image), own_processes=True)
    assert seen == "/mine\nsleep\n"


async def test_links_of_an_image_do_not_lead_out_of_it(containers: Containers, tmp_path: Path) -> None:
    image = make_image(tmp_path / "image")
    (image / "var").mkdir()
    (image / "var" / "run").symlink_to("/run")
    (image / "escape").symlink_to("../../../../../../../.." + str(tmp_path / "outside"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "f").write_text("found\n")
    mounts = tuple(Mount(str(tmp_path / "volume"), target) for target in ("/var/run/kohort-test/s", "/escape/s"))
    said = await containers.said("cat /run/kohort-test/s/f /escape/s/f", root=str(image), mounts=mounts)
    assert said == ["found", "found"]
    assert not is_there("/run/kohort-test") and not list((tmp_path / "outside").iterdir())


async def test_root_in_a_container_cannot_leave_its_root(containers: Containers, image: Path) -> None:
    (containers.place / "secret").write_text("secret")
    script = (
        f"mkdir() {{ :; }}; chroot /bin/.. /bin/cat {containers.place}/secret 2>&1; ls /proc/1/root{containers.place}"
    )
    said = "\n".join(await containers.said(script, root=str(image), own_processes=True))
    assert "secret" not in said.replace(f"{containers.place}/secret", "")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "00000000a80425fb"),
        ({"capabilities": ()}, "0000000000000000"),
        ({"capabilities": (*USUAL, CAPABILITIES.index("SYS_TIME"))}, "00000000aa0425fb"),
    ],
)
async def test_root_has_the_usual_capabilities(
    containers: Containers, image: Path, more: dict[str, object], expected: str
) -> None:
    for id, root in (("image", str(image)), ("machine", "")):
        said = await containers.said("grep -E 'Cap(Eff|Bnd)' /proc/self/status", id, root=root, **more)
        assert [line.split()[1] for line in said] == [expected] * 2


async def test_the_default_seccomp_profile_is_applied(containers: Containers, image: Path) -> None:
    program = seccomp.program_for(DEFAULT_CAPABILITIES)
    script = "grep Seccomp: /proc/self/status; unshare -U true 2>&1; unshare -m true 2>&1; echo on"
    for id, more in (
        ("a", {"root": str(image)}),
        ("b", {"uid": 1000, "gid": 55}),
        ("c", {"no_new_privileges": True}),
    ):
        said = await containers.said(script, id, seccomp=program, **more)
        assert said[0].split()[1] == "2" and said[-1] == "on"
        assert [line.endswith("Operation not permitted") for line in said[1:-1]] == [True, True], said
    free = await containers.said("grep Seccomp: /proc/self/status; unshare -U echo in", "d")
    assert free[0].split()[1] == "0"


async def test_devices_in_volumes_and_layers_are_of_no_use(containers: Containers, image: Path) -> None:
    volume = containers.place / "volume"
    volume.mkdir()
    os.mknod(volume / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    os.mknod(containers.place / "probe", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    script = "cat /volume/zero 2>&1; echo end"
    said = await containers.said(script, root=str(image), mounts=(Mount(str(volume), "/volume"),))
    assert said[0].endswith("Permission denied") and said[-1] == "end"


async def test_nothing_is_made_on_the_machine_to_mount_on(containers: Containers) -> None:
    volume = containers.place / "volume"
    volume.mkdir()
    (volume / "f").write_text("found\n")
    targets = ("/kohort-test-top/a", "/etc/kohort-test/b", "/dev/kohort-test-log", "/run/kohort-test/c")
    mounts = tuple(Mount(str(volume / "f"), target) for target in targets)
    script = f"cat {' '.join(targets)}; test -c /dev/null && test -e /etc/passwd && stat -c %a /etc /run; touch /etc/x"
    said = await containers.said(script, mounts=mounts, uid=1000, gid=1000)
    modes = [f"{stat.S_IMODE(os.stat(place).st_mode):o}" for place in ("/etc", "/run")]
    assert said[:6] == ["found"] * 4 + modes and "Permission denied" in said[6]
    for place in ("/kohort-test-top", "/etc/kohort-test", "/dev/kohort-test-log", "/run/kohort-test"):
        assert not is_there(place), place


async def test_a_place_to_mount_on_in_a_volume_is_made_in_the_volume(containers: Containers) -> None:
    outer, inner = containers.place / "outer", containers.place / "inner"
    outer.mkdir()
    inner.mkdir()
    mounts = (Mount(str(outer), "/kohort-test-outer"), Mount(str(inner), "/kohort-test-outer/in/ner"))
    await containers.said("touch /kohort-test-outer/a /kohort-test-outer/in/ner/b", mounts=mounts)
    assert sorted(each.name for each in outer.iterdir()) == ["a", "in"] and (inner / "b").exists()


async def test_kernel_settings_are_the_containers_own(containers: Containers) -> None:
    path = "/proc/sys/kernel/shm_rmid_forced"
    before = content(path)
    other = "0" if before.strip() == "1" else "1"
    said = await containers.said(f"cat {path}", own_ipc=True, sysctls={"kernel.shm_rmid_forced": other})
    assert said == [other] and content(path) == before


async def test_standard_output_can_be_opened_again_by_other_users(containers: Containers, image: Path) -> None:
    said = await containers.said(
        "echo first > /dev/stdout; id -u; id -G", root=str(image), uid=1000, gid=55, groups=(77,)
    )
    assert said == ["first", "1000", "55 77"]


async def test_a_read_only_image_can_still_write_to_its_volumes(containers: Containers, image: Path) -> None:
    volume = containers.place / "volume"
    volume.mkdir()
    script = "touch /x 2>/dev/null || echo no; touch /volume/y && echo yes"
    said = await containers.said(script, root=str(image), read_only_root=True, mounts=(Mount(str(volume), "/volume"),))
    assert said == ["no", "yes"]


def test_every_path_through_the_filter_ends_with_a_return() -> None:
    for machine in seccomp.ARCHITECTURES:
        for capabilities in (frozenset[str](), DEFAULT_CAPABILITIES, frozenset(CAPABILITIES)):
            program = seccomp.runtime_default(machine, capabilities)
            assert len(program) < 4096 and program[-1].code == 0x06
            for place, each in enumerate(program):
                assert each.code == 0x06 or place + 1 + max(each.if_true, each.if_false) < len(program)
