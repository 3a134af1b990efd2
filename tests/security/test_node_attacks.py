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
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod as build
from tests.node.agent.node_bench import node

from kohort.kube.client import PatchType
from kohort.kube.errors import Forbidden, Status
from kohort.kube.private_files import NotPrivate, open_private, private_directory, write_private
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kohort.node.api.authorization import Authorizer, CannotAuthorize, ClientUser, user_of
from kohort.node.checkpoint import Checkpoint
from kohort.node.container_environment import ConfigProblem
from kohort.node.directory_images import directory_of
from kohort.node.image_config import Image
from kohort.node.probes import ProbeFailed, _path, request_head, run_probe
from kohort.node.runtimes.interface import CannotStart, Launch, NoImage
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.runtimes.process.supervisor_protocol import connect
from kohort.node.security_context import container_security
from kohort.node.termination_message import read_termination_message
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import GrpcCheck, HttpGet, NodeContainer, NodePod, Probe
from kohort.rules.client_certificate import PeerCertificate

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
    assert found(stamp + b"y" * 100_000 + b"\n") == "y" * 2047 + "\n"
    assert (
        found(b"".join(stamp + b"%03d" % n + b"z" * 97 + b"\n" for n in range(500)))[-102:] == "\n499" + "z" * 97 + "\n"
    )
    assert found(stamp + b"y" * 20_000 + b"\n" + stamp + b"end\n") == "y" * 2043 + "\nend\n"
    assert found(stamp + b"short\n") == "short\n"


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


def certificate(name: str, *groups: str) -> PeerCertificate:
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


# Volumes of others


def stored_volume(volume: str, path: Path, claim: dict[str, str]) -> JsonObject:
    spec: JsonObject = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": str(path)},
        **({"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", **claim}} if claim else {}),
    }
    return {"metadata": {"name": volume}, "spec": spec}


@pytest.mark.parametrize("phase", ["Pending", "Bound"])
@pytest.mark.parametrize("owner", [{}, {"name": "theirs", "uid": "another"}, {"name": "mine", "uid": "an-earlier-one"}])
async def test_a_claim_that_names_the_volume_of_another_is_of_no_use(
    tmp_path: Path, phase: str, owner: dict[str, str]
) -> None:
    """A pod that names its node passes no scheduler, which would wait until claim and volume are bound."""
    async with node(tmp_path / "node") as bench:
        client = bench.cluster.client
        await client.create(PERSISTENT_VOLUMES, stored_volume("theirs", tmp_path / "secrets", owner))
        claim: JsonObject = {
            "metadata": {"name": "mine", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
                "volumeName": "theirs",
            },
        }
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")
        status = {"status": {"phase": phase}}
        await client.patch(PERSISTENT_VOLUME_CLAIMS, "mine", "default", status, PatchType.MERGE, "status")
        await bench.create(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}])
        await bench.until(lambda: any("bound" in each for each in bench.said()))
        assert bench.running() == [] and not (tmp_path / "secrets").exists()


async def test_an_ephemeral_volume_is_not_the_claim_of_another(tmp_path: Path) -> None:
    async with node(tmp_path / "node") as bench:
        client = bench.cluster.client
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
        claim: JsonObject = {"metadata": {"name": "p-v", "namespace": "default"}, "spec": spec}
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")
        await bench.create(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])
        await bench.until(lambda: any("was not created for this pod" in each for each in bench.said()))
        assert bench.running() == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.json", "a/../../x.json", ""])
def test_a_seccomp_profile_is_a_file_of_the_node_for_that(path: str) -> None:
    profile = {"type": "Localhost", "localhostProfile": path}
    pod = build("p").containers({"name": "c", "securityContext": {"seccompProfile": profile}}).as_view(NodePod)
    with pytest.raises(ConfigProblem, match="is not a file name"):
        container_security(pod, (pod.spec.containers or ())[0], Image())


# Probes: the node sends them, to addresses that a pod may not reach


HOSTILE_PATHS = ["/ HTTP/1.1\r\nHost: evil", "/\n\nPUT /latest/api/token HTTP/1.1", "/\x00", "/\x0b \x7f", "/é\ud800"]


@given(
    path=st.text() | st.sampled_from(HOSTILE_PATHS), value=st.text(), name=st.text() | st.sampled_from(["host", "A"])
)
def test_a_probe_is_one_request_whatever_its_author_writes(path: str, name: str, value: str) -> None:
    escaped = _path(HttpGet(path=path))
    try:
        head = request_head("192.0.2.1", 80, escaped, {name: value})
    except ProbeFailed:
        head = request_head("192.0.2.1", 80, escaped, {})
    first, *headers, empty, rest = head.split(b"\r\n")
    method, target, version = first.split(b" ")
    assert (method, version, empty, rest) == (b"GET", b"HTTP/1.1", b"", b"") and target.isascii()
    assert not any((byte < 0x20 and byte != 9) or byte == 0x7F for line in (first, *headers) for byte in line)
    names = [line.partition(b":")[0].lower() for line in headers]
    assert len(set(names)) == len(names) and b"content-length" not in names


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 " + b"2" * 5000 + b"\r\n\r\n",
        b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000,
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:99999999/\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[127.0.0.1/\r\n\r\n",
        b"",
    ],
)
async def test_an_answer_that_is_no_http_fails_a_probe_and_nothing_else(answer: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProbeFailed):
            await run_probe(
                Probe(http_get=HttpGet(port=port), timeout_seconds=30), NodeContainer(), "127.0.0.1", no_exec
            )


async def no_exec(command: tuple[str, ...]) -> tuple[int, bytes]:
    raise AssertionError(command)


@pytest.mark.parametrize("message", [b"\x00\x00\x00\x00\x01\x08", b"\x00" * 5, b"\x00\x00\x00\x00\x02\x08\xff"])
async def test_a_short_answer_to_a_grpc_probe_fails_it(message: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(len(message).to_bytes(3, "big") + b"\x00\x01\x00\x00\x00\x01" + message)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port, name = server.sockets[0].getsockname()[1], "ä" * 300
        with pytest.raises(ProbeFailed, match="unhealthy"):
            await run_probe(
                Probe(grpc=GrpcCheck(port, name), timeout_seconds=30), NodeContainer(), "127.0.0.1", no_exec
            )
