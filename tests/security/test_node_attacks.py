"""What a pod, or another user of the machine, may try against a node; each attack must fail."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kohort.kube.errors import Forbidden, Status
from kohort.kube.private_files import NotPrivate, open_private, private_directory, write_private
from kohort.node.api.authorization import Authorizer, CannotAuthorize, Certificate, ClientUser, user_of
from kohort.node.checkpoint import Checkpoint
from kohort.node.images import NoImage, directory_of
from kohort.node.runtimes.interface import CannotStart, Launch
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.runtimes.process.supervisor_protocol import connect
from kohort.node.termination_message import read_termination_message
from kohort.objects.json_types import JsonObject

ENV = {"PATH": os.environ["PATH"]}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
OTHER = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    found = ProcessRuntime(tmp_path / "runtime")
    yield found
    await found.close(stop=True)


# Other users of the machine


def test_a_new_directory_and_its_files_are_for_one_user(tmp_path: Path) -> None:
    place = tmp_path / "a" / "node"
    private_directory(place)
    assert mode(place) == 0o700
    (place / "record").touch(mode=0o666)
    (place / "record").chmod(0o666)
    os.close(open_private(place / "record"))
    write_private(place / "other", b"x")
    checkpoint = Checkpoint(place / "records" / "pods", str)
    checkpoint.put("u1", "secret")
    checkpoint.put("u2", "secret")
    assert mode(place / "records") == 0o700
    files = [place / "record", place / "other", *(place / "records").iterdir()]
    assert {mode(each) for each in files} == {0o600}


def test_a_wider_directory_is_tightened_only_if_it_is_ours(tmp_path: Path) -> None:
    empty, ours, theirs = tmp_path / "empty", tmp_path / "ours", tmp_path / "theirs"
    for place in (empty, ours, theirs):
        place.mkdir()
        place.chmod(0o755)
    (ours / "records").mkdir()
    (theirs / "letters").touch()
    private_directory(empty)
    private_directory(ours, ("records",))
    with pytest.raises(NotPrivate, match=r"theirs has mode 0755.*chmod 700"):
        private_directory(theirs, ("records",))
    assert [mode(place) for place in (empty, ours, theirs)] == [0o700, 0o700, 0o755]


@needs_root
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "node"
    place.mkdir(mode=0o700)
    os.chown(place, OTHER, OTHER)
    with pytest.raises(NotPrivate, match=f"belongs to uid {OTHER}"):
        private_directory(place)


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "log").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "log")
    assert (tmp_path / "target").read_text() == "precious"


async def test_the_environment_of_a_container_is_not_readable_by_others(
    runtime: ProcessRuntime, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        launch = Launch("u_c_0", ("sleep", "60"), {**ENV, "TOKEN": "s3cret"}, log=str(tmp_path / "logs" / "0.log"))
        await runtime.start(launch)
    finally:
        os.umask(before)
    state = tmp_path / "runtime"
    assert [mode(place) for place in (state, state / "instances", tmp_path / "logs")] == [0o700] * 3
    files = [each for each in (*state.rglob("*"), tmp_path / "logs" / "0.log") if not each.is_dir()]
    assert len(files) >= 5 and {mode(each) for each in files} == {0o600}, files


@needs_root
async def test_volumes_below_a_private_directory_reach_containers_of_other_users(tmp_path: Path) -> None:
    from kohort.node.runtimes.interface import ERROR, STDOUT, Mount

    state = tmp_path / "node" / "runtime"
    runtime = ProcessRuntime(state)
    volume = tmp_path / "node" / "pods" / "u" / "volumes" / "v"
    volume.mkdir(parents=True)
    (volume / "key").write_text("mine")
    private_directory(tmp_path / "node", ("pods",))
    mounts = (Mount(str(volume), "/run/kohort-test-volume"),)
    log = str(tmp_path / "node" / "logs" / "log")
    try:
        await runtime.start(Launch("u_c_0", ("sleep", "60"), ENV, log=log, mounts=mounts, uid=OTHER, gid=OTHER))
        script = f"cat /run/kohort-test-volume/key; ls {volume} 2>/dev/null || echo ' closed'"
        session = await runtime.execute(
            "u_c_0", Launch("x", ("sh", "-c", script), ENV, mounts=mounts, uid=OTHER, gid=OTHER)
        )
        said = b""
        async with asyncio.timeout(20):
            while (message := await session.read()) is not None and message[0] != ERROR:
                assert message[0] == STDOUT
                said += message[1]
        assert said == b"mine closed\n"
    finally:
        await runtime.close(stop=True)


# The supervisor's socket


async def test_the_socket_stays_in_its_directory_however_long_the_path_is(tmp_path: Path) -> None:
    state = tmp_path / ("d" * 100) / ("e" * 100) / "runtime"
    runtime = ProcessRuntime(state)
    try:
        await runtime.start(Launch("u_c_0", ("sleep", "60"), ENV, log=str(tmp_path / "log")))
        assert stat.S_ISSOCK((state / "supervisor.sock").stat().st_mode)
    finally:
        await runtime.close(stop=True)


LISTEN = """
import os, socket, sys
os.chdir(sys.argv[1])
listening = socket.socket(socket.AF_UNIX)
listening.bind("supervisor.sock")
os.setuid(int(sys.argv[2]))
listening.listen()  # the kernel names the user at this moment
print("listening", flush=True)
other, _ = listening.accept()
print(len(other.recv(10)), flush=True)
"""


@needs_root
async def test_a_supervisor_of_another_user_is_given_no_command(tmp_path: Path) -> None:
    state = tmp_path / "runtime"
    (state / "instances").mkdir(parents=True)
    command = (sys.executable, "-c", LISTEN, str(state), str(OTHER))
    attacker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert attacker.stdout is not None and await attacker.stdout.readline() == b"listening\n"
    with pytest.raises(CannotStart, match=f"served by uid {OTHER}"):
        await ProcessRuntime(state).instances()
    assert await attacker.stdout.readline() == b"0\n", "not one byte was sent"
    await attacker.wait()


@needs_root
async def test_a_client_of_another_user_is_not_served(runtime: ProcessRuntime, tmp_path: Path) -> None:
    await runtime.start(Launch("u_c_0", ("sleep", "60"), ENV, log=str(tmp_path / "log")))
    state = tmp_path / "runtime"
    _, writer = await connect(state)
    writer.close()
    directory = os.open(state, os.O_PATH)
    (state / "supervisor.sock").chmod(0o777)
    script = f"""
import os, socket
os.setuid({OTHER})
asking = socket.socket(socket.AF_UNIX)
asking.connect("/proc/self/fd/{directory}/supervisor.sock")
print(asking.recv(10))
"""
    state.chmod(0o711)
    try:
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stdout=subprocess.PIPE, pass_fds=(directory,)
        )
        assert (await asyncio.wait_for(asked.communicate(), 20))[0] == b"b''\n"
    finally:
        os.close(directory)


# Termination messages


def test_a_message_of_any_size_is_read_up_to_its_limit(tmp_path: Path) -> None:
    with (tmp_path / "message").open("wb") as file:
        file.write(b"x" * 5000)
        file.truncate(3 << 40)
    assert read_termination_message(tmp_path / "message", None) == "x" * 4096


@pytest.mark.parametrize("kind", ["pipe", "link", "device", "socket", "directory"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "message"
    (tmp_path / "secret").write_text("secret")
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to(tmp_path / "secret")
        case "device":
            place.symlink_to("/dev/zero")
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(place))
        case _:
            place.mkdir()
    assert read_termination_message(place, None) == ""


def test_the_end_of_a_log_is_read_up_to_its_limits(tmp_path: Path) -> None:
    log, stamp = tmp_path / "log", b"2026-01-01T00:00:00.000000000Z stdout F "

    def found(content: bytes) -> str:
        log.write_bytes(content)
        return read_termination_message(tmp_path / "none", log)

    assert found(b"".join(stamp + b"%d\n" % number for number in range(100_000))).split() == [
        str(number) for number in range(99_920, 100_000)
    ]
    assert found(stamp + b"y" * 100_000 + b"\n") == "y" * 2048
    assert found(b"".join(stamp + b"%03d" % n + b"z" * 97 + b"\n" for n in range(500)))[-101:] == "\n499" + "z" * 97
    assert found(stamp + b"y" * 20_000 + b"\n" + stamp + b"end\n") == "y" * 2044 + "\nend"
    assert found(stamp + b"short\n") == "short"


# Images


@pytest.mark.parametrize("image", ["..", "../outside", "a/../../outside", "a:..", "a/..:../outside", "", "a/"])
def test_the_name_of_an_image_does_not_lead_out_of_the_images(tmp_path: Path, image: str) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    with pytest.raises(NoImage):
        directory_of(image, tmp_path / "images")
    assert directory_of("a", tmp_path / "images") == tmp_path / "images" / "a"
    assert directory_of("a:unknown", tmp_path / "images") == tmp_path / "images" / "a"


# The node's API


def certificate(name: str, *groups: str) -> Certificate:
    subject = (*((("organizationName", group),) for group in groups), (("commonName", name),))
    return {"subject": subject}


class Reviews:
    """An API server that allows what it is told to, and remembers what it was asked."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self._allowed = allowed

    async def __call__(self, review: JsonObject) -> JsonObject:
        spec = review["spec"]
        attributes = spec["resourceAttributes"]
        assert (attributes["resource"], attributes["name"]) == ("nodes", "n1")
        self.asked.append((spec["user"], attributes["verb"], attributes["subresource"]))
        return {"status": {"allowed": self.asked[-1] in self._allowed}}


@pytest.mark.parametrize(
    "name", ["kube-apiserver", "kube-apiserver-kubelet-client", "system:kube-apiserver", "mallory"]
)
async def test_no_name_in_a_certificate_opens_the_api_of_a_node(name: str) -> None:
    reviews = Reviews()
    user = user_of(certificate(name, "some:group"))
    assert user is not None and user.groups == ("some:group",)
    for path in ("/exec/default/web/c", "/attach/default/web/c", "/portForward/default/web", "/containerLogs/a/b/c"):
        assert not await Authorizer(reviews, "n1").allows(user, path)
    assert [verb for _, verb, _ in reviews.asked] == ["create", "create", "create", "get"]


async def test_the_cluster_says_who_may_use_the_api_of_a_node() -> None:
    reviews = Reviews(("scraper", "get", "metrics"), ("reader", "get", "proxy"))
    authorizer = Authorizer(reviews, "n1")
    scraper, reader = user_of(certificate("scraper")), user_of(certificate("reader"))
    assert scraper is not None and reader is not None
    assert await authorizer.allows(scraper, "/metrics") and not await authorizer.allows(scraper, "/containerLogs/a/b/c")
    assert await authorizer.allows(reader, "/containerLogs/a/b/c")
    assert not await authorizer.allows(reader, "/exec/a/b/c"), "to read logs is not to run commands"
    asked = len(reviews.asked)
    assert await authorizer.allows(scraper, "/metrics") and len(reviews.asked) == asked, "an answer is remembered"
    masters = user_of(certificate("admin", "system:masters"))
    assert masters is not None and await authorizer.allows(masters, "/exec/a/b/c") and len(reviews.asked) == asked


async def test_without_an_answer_nothing_is_allowed() -> None:
    async def broken(review: JsonObject) -> JsonObject:
        raise Forbidden(Status(code=403, message="subjectaccessreviews is forbidden"))

    with pytest.raises(CannotAuthorize, match="subjectaccessreviews is forbidden"):
        await Authorizer(broken, "n1").allows(ClientUser("kube-apiserver"), "/exec/a/b/c")
    assert user_of(None) is None and user_of(certificate("")) is None
