"""`CriRuntime` with a runtime in the test process, on virtual time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest
from tests.node.runtimes.cri.fake_runtime import FakeRuntime, beside_http

from kohort.kube.errors import ApiError
from kohort.node.grpc.http2 import LARGEST
from kohort.node.grpc.status import Code, RpcError
from kohort.node.runtimes.cri import image_pulls
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient, Unsupported
from kohort.node.runtimes.cri.cni import CniServer
from kohort.node.runtimes.cri.cni_installation import CniAgent
from kohort.node.runtimes.cri.discovery import (
    CannotUseRuntime,
    RuntimeFacts,
    Wanted,
    choose,
    examine,
    parse_endpoint,
    record,
)
from kohort.node.runtimes.cri.image_pulls import RegistryImages
from kohort.node.runtimes.cri.leftover_sandboxes import NoNetworks, end_sandboxes
from kohort.node.runtimes.cri.runtime import CriRuntime
from kohort.node.runtimes.interface import (
    CannotCreate,
    CannotStart,
    ImageBeingPulled,
    ImageRequest,
    Instance,
    Launch,
    NoImage,
    PodSandboxSpec,
)
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.objects.core import Secret
from kohort.objects.meta import ObjectMeta
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import CgroupValues
from kohort.testing import virtual_time

Program = Callable[[FakeRuntime, CriRuntime], Awaitable[None]]


async def no_secrets(namespace: str, name: str) -> Secret | None:
    return None


def connected(socket: Path, node: str = "node-1") -> CriRuntime:
    client = CriClient(socket)
    return CriRuntime(client, node, "fake", "1.0", RegistryImages(client, no_secrets))


@contextlib.asynccontextmanager
async def pair(tmp_path: Path, *, events: bool = False) -> AsyncIterator[tuple[FakeRuntime, CriRuntime]]:
    fake = FakeRuntime(tmp_path / "s", events=events)
    await fake.start()
    runtime = connected(fake.socket)
    await runtime.instances()
    try:
        yield fake, runtime
    finally:
        await runtime.close(stop=False)
        await fake.stop()


def run(program: Program, tmp_path: Path, *, events: bool = False) -> None:
    async def main() -> None:
        async with pair(tmp_path, events=events) as (fake, runtime):
            await program(fake, runtime)

    virtual_time.run(main())


def spec(tmp_path: Path, uid: str = "u1") -> PodSandboxSpec:
    return PodSandboxSpec(uid, "web", "default", log_directory=str(tmp_path / "logs" / uid))


def launch(tmp_path: Path, id: str = "u1_c_0", program: str = "serve") -> Launch:
    uid, name, attempt = id.split("_")
    return Launch(id, (program,), log=str(tmp_path / "logs" / uid / name / f"{attempt}.log"), image="sha256:1")


def ends(runtime: CriRuntime) -> list[Instance]:
    found: list[Instance] = []
    runtime.on_exit(found.append)
    return found


def test_a_pod_from_its_sandbox_to_its_removal(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.prepare_pod(spec(tmp_path))
        assert fake.calls.count("RunPodSandbox") == 1, "a sandbox that is ready is kept"
        instance = await runtime.start(launch(tmp_path))
        assert instance.running and fake.running() == ["c/0"]
        assert await runtime.instances() == {"u1_c_0": instance}
        assert runtime.cgroup_name("u1", "c") == instance.runtime_id
        await runtime.stop("u1_c_0", grace=30.0)
        assert (await runtime.instances())["u1_c_0"].exit_code == 143
        await runtime.stop_pod("u1")
        await runtime.remove_pod("u1")
        assert (fake.sandboxes, fake.containers, await runtime.instances()) == ({}, {}, {})

    run(program, tmp_path)


@pytest.mark.parametrize(("ready_after", "waits"), [(0.0, 0.0), (1.0, 1.0), (100.0, 5.0)])
def test_an_agent_waits_until_the_runtime_has_noticed_its_network(
    tmp_path: Path, ready_after: float, waits: float
) -> None:
    async def main() -> None:
        fake, loop = FakeRuntime(tmp_path / "s"), asyncio.get_running_loop()
        await fake.start()
        ready = fake.conditions
        if ready_after:
            fake.conditions = (ready[0], cri.RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady"))
            loop.call_later(ready_after, lambda: setattr(fake, "conditions", ready))
        of_agent = CniAgent(str(tmp_path), str(fake.socket), str(tmp_path / "bin"), str(tmp_path / "conf"))
        client = CriClient(fake.socket)
        networks = CniServer(of_agent, NoNetworks(), tmp_path / "agents")
        runtime = CriRuntime(client, "node-1", "fake", "1.0", RegistryImages(client, no_secrets), networks)
        begun = loop.time()
        await runtime.instances()
        assert waits - 0.1 < loop.time() - begun < waits + 0.5
        await runtime.close(stop=False)
        await fake.stop()

    virtual_time.run(main())


def test_a_pod_that_asks_for_a_user_namespace_is_refused(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        with pytest.raises(CannotStart, match="user namespaces"):
            await runtime.prepare_pod(msgspec.structs.replace(spec(tmp_path), own_users=True))
        assert "RunPodSandbox" not in fake.calls

    run(program, tmp_path)


def test_a_container_with_a_huge_environment_disturbs_no_other(tmp_path: Path) -> None:
    """Its verbose status does not fit into a message."""

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        seen = ends(runtime)
        await runtime.prepare_pod(spec(tmp_path))
        fake.container_info = json.dumps({"pid": 7, "config": {"envs": "<" * LARGEST}})
        huge = await runtime.start(launch(tmp_path, "u1_huge_0"))
        assert huge.running and runtime.cgroup_name("u1", "huge") == huge.runtime_id
        fake.container_info = '{"pid": 7}'
        await runtime.start(launch(tmp_path, "u1_other_0"))
        fake.container_info = json.dumps({"pid": 7, "config": {"envs": "<" * LARGEST}})
        fake.end("huge", 3)
        fake.end("other", 4)
        await asyncio.sleep(5)
        assert {each.id: each.exit_code for each in seen} == {"u1_huge_0": 3, "u1_other_0": 4}

    run(program, tmp_path)


def test_a_container_whose_status_cannot_be_read_disturbs_no_other(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        seen = ends(runtime)
        await runtime.prepare_pod(spec(tmp_path))
        for name in ("bad", "other"):
            await runtime.start(launch(tmp_path, f"u1_{name}_0"))
        fake.failing["ContainerStatus"] = [RpcError(Code.UNKNOWN, "the metadata is damaged")]
        fake.end("bad", 3)
        fake.end("other", 4)
        while not seen:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert [each.id for each in seen] == ["u1_other_0"], "in the same list"
        await asyncio.sleep(5)
        assert [each.exit_code for each in seen] == [4, 3]

    run(program, tmp_path)


@pytest.mark.parametrize("events", [False, True])
def test_ends_are_reported_once_with_or_without_events(tmp_path: Path, events: bool) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        seen = ends(runtime)
        await runtime.prepare_pod(spec(tmp_path))
        for name, code, reason in (("a", 0, ""), ("b", 7, ""), ("c", 3, "OOMKilled")):
            await runtime.start(launch(tmp_path, f"u1_{name}_0"))
            begun = asyncio.get_running_loop().time()
            fake.end(name, code, reason)
            while not seen or seen[-1].id != f"u1_{name}_0":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert asyncio.get_running_loop().time() - begun < (0.1 if events else 1.5)
        await asyncio.sleep(60)
        assert [(each.exit_code, each.oom_killed) for each in seen] == [(0, False), (7, False), (3, True)]

    run(program, tmp_path, events=events)


def test_a_runtime_whose_events_are_turned_off_is_asked_every_second(tmp_path: Path) -> None:
    """CRI-O ends the stream at once, without an error."""

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.events_are_off = True
        await fake.stop()
        await fake.start()
        await asyncio.sleep(60)
        seen = ends(runtime)
        await runtime.prepare_pod(spec(tmp_path))
        fake.event_streams = 0
        for number in range(20):
            await runtime.start(launch(tmp_path, f"u1_c{number}_0"))
            await asyncio.sleep(1.7)
            begun = asyncio.get_running_loop().time()
            fake.end(f"c{number}", 7)
            while len(seen) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert asyncio.get_running_loop().time() - begun < 1.5
        assert fake.event_streams <= 6, "it is tried again every ten seconds"
        fake.events_are_off = False
        await asyncio.sleep(15)
        streams = fake.event_streams
        await asyncio.sleep(60)
        assert fake.event_streams == streams, "events are turned on: the stream stays open"

    run(program, tmp_path, events=True)


def test_a_container_as_crio_describes_it(tmp_path: Path) -> None:
    """The id of its image is not what a registry knows, and its cgroup is not named by its id alone."""

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.image_id = "1f0c"
        cgroup = '{"cgroupsPath": "/kohort/podu1/crio-container2"}'
        fake.container_info = f'{{"pid": 7, "runtimeSpec": {{"linux": {cgroup}}}}}'
        await runtime.prepare_pod(spec(tmp_path))
        instance = await runtime.start(launch(tmp_path))
        assert instance.image_id == "registry/image@sha256:1"
        assert runtime.cgroup_name("u1", "c") == "crio-container2"

    run(program, tmp_path)


def test_files_that_the_runtime_leaves_out_of_an_update_are_written(tmp_path: Path) -> None:
    """As CRI-O does: it converts the shares to a weight by a formula of its own."""

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.container_info = '{"runtimeSpec": {"linux": {"cgroupsPath": "/podu1/crio-container2"}}}'
        cgroup = tmp_path / "podu1" / "crio-container2"
        cgroup.mkdir(parents=True)
        (cgroup / "cpu.weight").write_text("8\n")
        await runtime.prepare_pod(msgspec.structs.replace(spec(tmp_path), cgroup=str(tmp_path / "podu1")))
        await runtime.start(launch(tmp_path))
        await runtime.resize("u1", "c", CgroupValues(29))
        assert (cgroup / "cpu.weight").read_text() == "29"
        assert [path.name for path in cgroup.iterdir()] == ["cpu.weight"], "the kernel has no file memory.high"

    run(program, tmp_path)


def test_a_name_that_crio_holds_is_taken_over(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        detail = "error reserving ctr name k8s_c_web_default_u1_0 for id 1f0c: name is reserved"
        fake.broken["CreateContainer"] = RpcError(Code.UNKNOWN, detail)
        assert (await runtime.start(launch(tmp_path))).running

    run(program, tmp_path)


def test_a_container_that_is_gone_is_lost(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        seen = ends(runtime)
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        fake.containers.clear()
        await asyncio.sleep(5)
        assert [(each.exit_code, each.lost) for each in seen] == [(137, True)]
        assert seen[0].lost_reason == "the container runtime does not have the container any more"

    run(program, tmp_path)


def test_a_program_that_cannot_be_run_has_ended(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.cannot_run["nothing"] = "executable file not found"
        await runtime.prepare_pod(spec(tmp_path))
        found = await runtime.start(launch(tmp_path, program="nothing"))
        assert (found.exit_code, found.running) == (128, False) and found.problem

    run(program, tmp_path)


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
def test_a_lost_answer_makes_no_second_container(tmp_path: Path, method: str) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.lost_answers.add(method)
        await runtime.prepare_pod(spec(tmp_path))
        instance = await runtime.start(launch(tmp_path))
        assert instance.running and fake.running() == ["c/0"] and len(fake.containers) == len(fake.sandboxes) == 1

    run(program, tmp_path)


@pytest.mark.parametrize("method", ["CreateContainer", "StartContainer", "ContainerStatus"])
def test_an_agent_that_dies_during_a_start_leaves_a_start_to_the_next_one(tmp_path: Path, method: str) -> None:
    """Before the call has an effect, and after it."""

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        fake.broken[method] = RpcError(Code.ABORTED, "killed")
        with contextlib.suppress(CannotStart, RpcError):
            await runtime.start(launch(tmp_path))
        successor = connected(fake.socket)
        known = await successor.instances()
        await successor.prepare_pod(spec(tmp_path))
        if not known:
            await successor.start(launch(tmp_path))
        assert fake.running() == ["c/0"] and len(fake.containers) == len(fake.sandboxes) == 1
        assert list(await successor.instances()) == ["u1_c_0"]
        await successor.close(stop=False)

    run(program, tmp_path)


def test_a_container_that_cannot_be_made(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        fake.broken["CreateContainer"] = RpcError(Code.UNKNOWN, "no such device")
        with pytest.raises(CannotCreate, match="no such device"):
            await runtime.start(launch(tmp_path))
        fake.broken["RunPodSandbox"] = RpcError(Code.UNKNOWN, "no network")
        with pytest.raises(CannotStart, match="failed to create pod sandbox: no network"):
            await runtime.prepare_pod(spec(tmp_path, "u2"))

    run(program, tmp_path)


def test_a_sandbox_that_ends_is_reported_and_made_anew(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        lost: list[str] = []
        runtime.on_sandbox_lost(lost.append)
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        next(iter(fake.sandboxes.values())).state = cri.PodSandboxState.NOT_READY
        await asyncio.sleep(5)
        assert lost == ["u1"] and fake.running() == ["c/0"], "containers run on without it"
        await runtime.stop_pod("u1")
        await runtime.prepare_pod(spec(tmp_path))
        attempts = [each.config.metadata.attempt for each in fake.sandboxes.values() if each.config.metadata]
        assert attempts == [0, 1] and fake.running() == []
        await runtime.start(launch(tmp_path, "u1_c_1"))
        await runtime.clear_up()
        assert len(fake.sandboxes) == 2, "an ended container is kept in it"
        await runtime.remove("u1_c_0")
        await runtime.clear_up()
        assert len(fake.sandboxes) == 1

    run(program, tmp_path)


def test_what_belongs_to_others_is_not_touched(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        other = connected(fake.socket, "node-2")
        await other.instances()
        await other.prepare_pod(spec(tmp_path, "u2"))
        await other.start(launch(tmp_path, "u2_c_0"))
        assert await runtime.instances() == {} and await runtime.pods() == set()
        await runtime.remove_pod("u2")
        await runtime.clear_up()
        assert fake.running() == ["c/0"]
        await other.close(stop=True)
        assert fake.running() == []

    run(program, tmp_path)


def test_a_runtime_that_is_away_for_a_while(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        seen, problems = ends(runtime), []
        runtime.on_change(lambda: problems.append(runtime.problem))
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        await runtime.start(launch(tmp_path, "u1_d_0"))
        await fake.stop()
        await asyncio.sleep(30)
        assert "container runtime is down" in runtime.problem and seen == []
        fake.end("d", 9)
        await fake.start()
        await asyncio.sleep(30)
        assert runtime.problem == "" and [each.exit_code for each in seen] == [9]
        assert fake.running() == ["c/0"] and len(problems) == 2

    run(program, tmp_path)


def test_an_update_of_the_runtime_brings_events_and_a_return_takes_them_away(tmp_path: Path) -> None:
    """The runtime comes back before its health is checked."""

    async def restart(fake: FakeRuntime, version: str, *, newer: bool) -> None:
        await fake.stop()
        fake.version, fake.has_events = version, newer
        fake.features = cri.RuntimeFeatures(supplemental_groups_policy=newer)
        await fake.start()
        await asyncio.sleep(12)

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        changes: list[str] = []
        runtime.on_change(lambda: changes.append(runtime.version))
        await asyncio.sleep(1)
        assert (fake.event_streams, runtime.gives_exact_groups, changes) == (0, False, [])
        await restart(fake, "2.0", newer=True)
        assert (fake.event_streams, runtime.gives_exact_groups, changes) == (1, True, ["2.0"])
        await asyncio.sleep(1)
        lists = fake.calls.count("ListContainers")
        await asyncio.sleep(5)
        assert fake.calls.count("ListContainers") - lists <= 1, "the lists are only a safeguard beside events"
        await restart(fake, "1.0", newer=False)
        assert (fake.event_streams, runtime.gives_exact_groups, changes) == (1, False, ["2.0", "1.0"])
        lists = fake.calls.count("ListContainers")
        await asyncio.sleep(5)
        assert fake.calls.count("ListContainers") - lists >= 3, "without events the lists are read every second"

    run(program, tmp_path)


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ((), "RuntimeReady is not reported"),
        ((cri.RuntimeCondition("RuntimeReady", False, "Broken", "no shim"),), "reason:Broken message:no shim"),
        ((cri.RuntimeCondition("RuntimeReady", True), cri.RuntimeCondition("Strange", False)), ""),
    ],
)
def test_conditions_of_the_runtime(tmp_path: Path, conditions: tuple[cri.RuntimeCondition, ...], problem: str) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.conditions = conditions
        await asyncio.sleep(20)
        assert problem in runtime.problem and bool(problem) == bool(runtime.problem)

    run(program, tmp_path)


def test_a_container_that_ignores_signals_is_killed_and_sooner_if_asked(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.ignores_signals.add("c")
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        first = asyncio.create_task(runtime.stop("u1_c_0", grace=1000.0))
        await asyncio.sleep(1)
        await runtime.stop("u1_c_0", grace=0.0)
        await first
        assert (await runtime.instances())["u1_c_0"].exit_code == 137
        assert asyncio.get_running_loop().time() < 10

    run(program, tmp_path)


def test_a_stop_outlasts_a_restart_of_the_runtime(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        await fake.stop()
        stopping = asyncio.create_task(runtime.stop("u1_c_0", grace=30.0))
        await asyncio.sleep(10)
        assert not stopping.done()
        await fake.start()
        await stopping
        assert fake.running() == []

    run(program, tmp_path)


def test_commands_and_resizes(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        await runtime.start(launch(tmp_path))
        assert await runtime.run_command("u1_c_0", Launch("x", ("fail",))) == (3, b"outerr")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.run_command("u1_c_0", Launch("x", ("wait",))), 5)
        await runtime.resize("u1", "c", CgroupValues(17, 20000, 100000, 64 << 20))
        sent = fake.updates[0].linux
        assert sent is not None and (sent.cpu_quota, sent.memory_limit_in_bytes) == (20000, 64 << 20)
        await runtime.resize_pod("u1", CgroupValues(17))  # this runtime does not have the method
        with pytest.raises(OSError, match='container "d" does not run'):
            await runtime.resize("u1", "d", CgroupValues())
        fake.broken["UpdateContainerResources"] = RpcError(Code.UNKNOWN, "write memory.max: busy")
        with pytest.raises(OSError, match="busy"):
            await runtime.resize("u1", "c", CgroupValues())

    run(program, tmp_path)


def test_a_method_that_is_missing_is_asked_for_once_per_connection(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        client = CriClient(fake.socket)
        for _ in range(3):
            with pytest.raises(Unsupported):
                await client.call(cri.REOPEN_CONTAINER_LOG, cri.ReopenContainerLogRequest("x"))
        fake.broken["ExecSync"] = RpcError(Code.UNKNOWN, "ExecSync: not implemented")
        before = fake.calls.count("ExecSync")
        for _ in range(3):
            with pytest.raises(Unsupported):
                await client.call(cri.EXEC_SYNC, cri.ExecSyncRequest("x", ("true",)))
        assert fake.calls.count("ExecSync") == before + 1
        await fake.stop()
        await fake.start()
        await asyncio.sleep(0.1)  # the end of the connection is noticed
        with pytest.raises(RpcError) as failed:
            await client.call(cri.EXEC_SYNC, cri.ExecSyncRequest("x", ("true",)))
        assert failed.value.code == Code.NOT_FOUND, "a runtime that was restarted may have the method"
        await client.close()

    run(program, tmp_path)


# Images


class Puller:
    """Containers that want images, and what they were told."""

    def __init__(self, images: RegistryImages) -> None:
        self.images = images
        self.events: list[tuple[str, str]] = []
        self.woken = asyncio.Event()

    def request(
        self, image: str, policy: str = "", attempt: int = 0, uid: str = "u1", namespace: str = "default"
    ) -> ImageRequest:
        pod = NodePod(metadata=ObjectMeta(name="web", namespace=namespace, uid=uid))
        container = NodeContainer(name="c", image=image, image_pull_policy=policy)
        return ImageRequest(
            pod, container, attempt, lambda kind, reason, text: self.events.append((reason, text)), self.woken.set
        )

    async def ensure(self, request: ImageRequest) -> str:
        """As a pod worker does: again whenever it is woken."""
        while True:
            self.woken.clear()
            try:
                return (await self.images.ensure(request)).reference
            except ImageBeingPulled:
                await self.woken.wait()


def with_images(program: Callable[[FakeRuntime, Puller], Awaitable[None]], tmp_path: Path) -> None:
    async def main(fake: FakeRuntime, runtime: CriRuntime) -> None:
        assert isinstance(runtime.images, RegistryImages)
        await program(fake, Puller(runtime.images))

    run(main, tmp_path)


APP, OTHER = cri.Image("sha256:a", size=5), cri.Image("sha256:b")


@pytest.mark.parametrize(
    ("image", "policy", "present", "pulled", "found"),
    [
        ("app:1", "", False, 1, "sha256:a"),
        ("app:1", "", True, 0, "sha256:a"),
        ("app:1", "IfNotPresent", True, 0, "sha256:a"),
        ("app:1", "Always", True, 1, "sha256:a"),
        ("app", "", True, 1, "sha256:a"),
        ("app", "IfNotPresent", True, 0, "sha256:a"),
        ("app:1", "Never", True, 0, "sha256:a"),
        ("app:1", "Never", False, 0, "ErrImageNeverPull"),
        ("missing:1", "", False, 1, "ErrImagePull"),
        ("NO:NAME", "", False, 0, "InvalidImageName"),
        ("host", "", False, 0, "InvalidImageName"),
    ],
)
def test_policies(tmp_path: Path, image: str, policy: str, present: bool, pulled: int, found: str) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        for name in ("docker.io/library/app:1", "docker.io/library/app:latest"):
            fake.registry[name] = APP
            if present:
                fake.images[name] = APP
        try:
            outcome = await puller.ensure(puller.request(image, policy))
        except NoImage as problem:
            outcome = problem.reason
        assert (outcome, len(fake.pulls)) == (found, pulled)

    with_images(program, tmp_path)


@pytest.mark.parametrize(
    ("problem", "reason", "message"),
    [
        ("RegistryUnavailable: refused", "RegistryUnavailable", "app:1 because the registry is unavailable: refused"),
        (
            "SignatureValidationFailed: no key",
            "SignatureValidationFailed",
            "because the signature validation failed: no",
        ),
        ("a file RegistryUnavailable", "ErrImagePull", "a file RegistryUnavailable"),
        ("reading manifest: authentication required", "ErrImagePull", "add them to imagePullSecrets"),
    ],
)
def test_problems_of_pulls_as_crio_words_them(tmp_path: Path, problem: str, reason: str, message: str) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.broken["PullImage"] = RpcError(Code.UNKNOWN, problem)
        with pytest.raises(NoImage) as caught:
            await puller.ensure(puller.request("app:1"))
        assert caught.value.reason == reason and message in str(caught.value)

    with_images(program, tmp_path)


def test_pods_share_a_pull_and_three_images_come_at_once(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.pull_time = 10.0
        fake.registry = {f"r.example/{name}:1": cri.Image(f"sha256:{name}") for name in "abcd"}
        images = [*"aabcd"]
        pullers = [Puller(puller.images) for _ in images]
        wanted = [
            each.ensure(each.request(f"r.example/{name}:1", uid=f"u{number}"))
            for number, (each, name) in enumerate(zip(pullers, images, strict=True))
        ]
        assert await asyncio.gather(*wanted) == [f"sha256:{name}" for name in images]
        assert len(fake.pulls) == 4 and asyncio.get_running_loop().time() == pytest.approx(20, abs=1)
        assert [reason for reason, _ in pullers[0].events] == ["Pulling", "Pulled"]

    with_images(program, tmp_path)


def test_pulls_beyond_a_burst_of_ten_begin_five_a_second(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.registry = {f"r.example/a:{number}": cri.Image(f"sha256:{number}") for number in range(20)}
        pullers = [Puller(puller.images) for _ in range(20)]
        wanted = [
            each.ensure(each.request(f"r.example/a:{number}", uid=f"u{number}")) for number, each in enumerate(pullers)
        ]
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(*wanted)
        assert len(fake.pulls) == 20 and asyncio.get_running_loop().time() - begun == pytest.approx(2, abs=0.5)

    with_images(program, tmp_path)


def test_a_registry_that_hardly_answers_does_not_keep_other_pods_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_pulls, "SLOW_SECONDS", 1.0)

    async def program(fake: FakeRuntime, puller: Puller) -> None:
        stuck = [f"slow.example/{name}:1" for name in "abc"]
        fake.pull_times = dict.fromkeys(stuck, 20.0)
        fake.registry = {"docker.io/library/app:1": APP}
        pullers = [Puller(puller.images) for _ in stuck]
        waiting = [
            asyncio.create_task(each.ensure(each.request(name, uid=name)))
            for each, name in zip(pullers, stuck, strict=True)
        ]
        await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        assert await puller.ensure(puller.request("app:1")) == "sha256:a"
        assert 0.5 <= asyncio.get_running_loop().time() - begun <= 3
        await asyncio.sleep(9)
        said = [text for reason, text in pullers[0].events if reason == "Pulling"]
        assert said == [
            'Pulling image "slow.example/a:1"',
            *(f'Image "slow.example/a:1" is still being pulled after {after}' for after in ("1s", "3s", "7s")),
        ]
        for task in waiting:
            task.cancel()

    with_images(program, tmp_path)


def test_a_pull_that_waits_for_others_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_pulls, "SLOW_SECONDS", 2.0)

    async def program(fake: FakeRuntime, puller: Puller) -> None:
        names = [f"slow.example/{number}:1" for number in range(7)]
        fake.pull_times = dict.fromkeys(names, 20.0)
        pullers = [Puller(puller.images) for _ in names]
        waiting = [
            asyncio.create_task(each.ensure(each.request(name, uid=name)))
            for each, name in zip(pullers, names, strict=True)
        ]
        await asyncio.sleep(3)
        said = f'Image "{names[6]}" has waited 2s for 3 other pulls of this node'
        assert pullers[6].events[-1] == ("Pulling", said)
        for task in waiting:
            task.cancel()

    with_images(program, tmp_path)


@pytest.mark.parametrize("image", ["app:1", "slow.example/29:1"])
def test_namespaces_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Also for an image that another namespace waits for at the end of its queue."""
    monkeypatch.setattr(image_pulls, "SLOW_SECONDS", 2.0)

    async def program(fake: FakeRuntime, puller: Puller) -> None:
        names = [f"slow.example/{number}:1" for number in range(30)]
        fake.pull_times = dict.fromkeys(names[:-1], 1000.0)
        fake.registry = {"docker.io/library/app:1": APP, names[-1]: APP}
        pullers = [Puller(puller.images) for _ in names]
        waiting = [
            asyncio.create_task(each.ensure(each.request(name, uid=name)))
            for each, name in zip(pullers, names, strict=True)
        ]
        await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        assert await puller.ensure(puller.request(image, uid="other", namespace="other")) == "sha256:a"
        assert asyncio.get_running_loop().time() - begun < 3
        for task in waiting:
            task.cancel()

    with_images(program, tmp_path)


def test_a_refusal_names_the_registry_and_what_to_do(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.refused = {"r.example/a:1"}
        with pytest.raises(NoImage, match=r"there are no credentials for r.example: .*add them to imagePullSecrets"):
            await puller.ensure(puller.request("r.example/a:1"))
        with pytest.raises(NoImage, match=r"not found$"):
            await puller.ensure(puller.request("r.example/b:1"))

    with_images(program, tmp_path)


def test_a_refusal_names_the_secret_that_cannot_be_used(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.refused = {"r.example/a:1"}
        request = puller.request("r.example/a:1")
        pod = msgspec.convert(
            {"metadata": {"name": "web", "namespace": "default"}, "spec": {"imagePullSecrets": [{"name": "mine"}]}},
            NodePod,
        )
        said = r"; cannot use image pull secret default/mine: not found; there are no other credentials for r.example$"
        with pytest.raises(NoImage, match=said) as refusal:
            await puller.ensure(msgspec.structs.replace(request, pod=pod))
        assert "add them" not in str(refusal.value)

    with_images(program, tmp_path)


@pytest.mark.parametrize("ends_before", [5, 20])
def test_nothing_is_remembered_of_a_pod_that_was_deleted_during_its_pull(tmp_path: Path, ends_before: int) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        fake.pull_time, fake.registry = 10.0, {"docker.io/library/app:1": APP}
        assert isinstance(runtime.images, RegistryImages)
        request = Puller(runtime.images).request("app:1")
        with pytest.raises(ImageBeingPulled):
            await runtime.images.ensure(request)
        await asyncio.sleep(ends_before)
        await runtime.remove_pod("u1")
        await asyncio.sleep(20)
        fake.images.clear()
        with pytest.raises(ImageBeingPulled):
            await runtime.images.ensure(request)

    run(program, tmp_path)


def test_an_image_that_cannot_be_looked_up(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, puller: Puller) -> None:
        fake.broken["ImageStatus"] = RpcError(Code.UNKNOWN, "database is broken")
        with pytest.raises(NoImage, match="database is broken") as caught:
            await puller.ensure(puller.request("app:1"))
        assert caught.value.reason == "ImageInspectError"

    with_images(program, tmp_path)


# Discovery


def test_a_runtime_is_examined_before_it_is_used(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(CannotUseRuntime, match="cannot connect"):
            await examine(tmp_path / "s")
        fake = FakeRuntime(tmp_path / "s")
        await fake.start()
        facts = await examine(tmp_path / "s")
        assert (facts.name, facts.version) == ("fake", "1.0")
        choice = await choose("cri", f"unix://{tmp_path}/s", tmp_path / "node")
        assert choice.runtime == facts and "containers run in fake 1.0" in choice.note
        fake.broken["Version"] = RpcError(Code.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
        with pytest.raises(CannotUseRuntime, match="disabled_plugins"):
            await choose("auto", f"unix://{tmp_path}/s", tmp_path / "node")
        assert (await choose("process", "", tmp_path / "node")).runtime is None
        await fake.stop()

    virtual_time.run(main())


def test_no_pod_of_a_killed_agent_runs_a_second_time_elsewhere(tmp_path: Path) -> None:
    node = tmp_path / "node"
    here, there = f"unix://{tmp_path}/s", f"unix://{tmp_path}/other"

    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        other = FakeRuntime(tmp_path / "other")
        await other.start()
        record(node, await examine(fake.socket), "node-1")
        assert (await choose("process", "", node)).runtime is None, "it has no pods there"
        await runtime.prepare_pod(spec(tmp_path))
        for wanted, endpoint in (("process", ""), ("cri", there)):
            with pytest.raises(
                CannotUseRuntime, match=f"the pod default/web of this node; .*--runtime-endpoint {here}"
            ):
                await choose(cast(Wanted, wanted), endpoint, node, share=True)
        (tmp_path / "link").symlink_to(fake.socket)
        for endpoint in (here, f"unix://{tmp_path}/link"):
            assert (await choose("cri", endpoint, node, share=True)).runtime is not None
        await runtime.remove_pod("u1")
        assert (await choose("process", "", node)).runtime is None
        await runtime.prepare_pod(spec(tmp_path, "u2"))
        await fake.stop()
        assert (await choose("process", "", node)).runtime is None, "a runtime that is gone"
        await other.stop()

    run(program, tmp_path)


async def test_no_process_of_a_killed_agent_becomes_a_container_as_well(tmp_path: Path) -> None:
    fake, processes = FakeRuntime(tmp_path / "s"), ProcessRuntime(tmp_path / "node" / "runtime")
    await fake.start()
    await processes.instances()
    await processes.start(Launch("u1_c_0", ("sleep", "1000"), {"PATH": "/bin:/usr/bin"}, log=str(tmp_path / "log")))
    with pytest.raises(CannotUseRuntime, match="1 container of this node still runs as a process of this machine; "):
        await choose("cri", f"unix://{tmp_path}/s", tmp_path / "node")
    assert (await choose("auto", "", tmp_path / "node")).runtime is None
    await processes.close(stop=True)
    assert (await choose("cri", f"unix://{tmp_path}/s", tmp_path / "node")).runtime is not None
    await fake.stop()


@pytest.mark.parametrize(
    ("config", "binaries", "configurations"),
    [
        ("", "/opt/cni/bin", "/etc/cni/net.d"),
        ("nonsense", "/opt/cni/bin", "/etc/cni/net.d"),
        ('{"cni": {"binDir": "/b", "confDir": "/c"}}', "/b", "/c"),
        ('{"cni": {"binDir": "", "binDirs": ["/b1", "/b2"], "confDir": "/c"}}', "/b1", "/c"),
    ],
)
def test_where_the_runtime_looks_for_plugins(tmp_path: Path, config: str, binaries: str, configurations: str) -> None:
    async def main() -> None:
        fake = FakeRuntime(tmp_path / "s")
        fake.info = {"config": config} if config else {}
        await fake.start()
        facts = await examine(tmp_path / "s")
        assert (str(facts.cni_binaries), str(facts.cni_configurations)) == (binaries, configurations)
        runtimes = '{"r": {"options": {"SystemdCgroup": true}}}'
        fake.info = {"config": f'{{"containerd": {{"defaultRuntimeName": "r", "runtimes": {runtimes}}}}}'}
        with pytest.raises(CannotUseRuntime, match="SystemdCgroup = false"):
            await examine(tmp_path / "s")
        await fake.stop()

    virtual_time.run(main())


@pytest.mark.parametrize("failures", [1, 100])
def test_pods_of_a_killed_agent_are_ended_although_another_call_removes_them(tmp_path: Path, failures: int) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        await runtime.prepare_pod(spec(tmp_path))
        facts = RuntimeFacts(fake.socket, "cri-o", "1.34.0", tmp_path / "bin", tmp_path / "conf")
        record(tmp_path / "node", facts, "node-1")
        fake.failing["RemovePodSandbox"] = [RpcError(Code.UNKNOWN, "no such id: '1f0c'")] * failures
        if failures > 1:
            with pytest.raises(OSError, match="could not be ended: RemovePodSandbox"):
                await end_sandboxes(tmp_path / "node")
        else:
            assert await end_sandboxes(tmp_path / "node") == {"u1"}
            assert fake.sandboxes == {}

    run(program, tmp_path)


def test_pods_in_a_runtime_that_is_away_are_not_ended_and_it_is_said_what_to_do(tmp_path: Path) -> None:
    async def program(fake: FakeRuntime, runtime: CriRuntime) -> None:
        facts = RuntimeFacts(fake.socket, "fake", "1.0", tmp_path / "bin", tmp_path / "conf")
        record(tmp_path / "node", facts, "node-1")
        await fake.stop()
        with pytest.raises(OSError, match=r"; start the runtime and repeat the command, or .* kohort down --force$"):
            await end_sandboxes(tmp_path / "node")

    run(program, tmp_path)


CRIO = """[crio.runtime]
cgroup_manager = "{manager}"
[crio.network]
network_dir = "/c"
plugin_dirs = ["/b1", "/b2"]
"""


@pytest.mark.parametrize(
    ("answer", "binaries", "configurations"),
    [
        ("HTTP/1.0 200 OK\r\nContent-Type: application/toml\r\n\r\n" + CRIO.format(manager="cgroupfs"), "/b1", "/c"),
        ("HTTP/1.0 404 Not Found\r\n\r\nnothing here", "/opt/cni/bin", "/etc/cni/net.d"),
        ("HTTP/1.0 200 OK\r\n\r\nnot = [toml", "/opt/cni/bin", "/etc/cni/net.d"),
        ("", "/opt/cni/bin", "/etc/cni/net.d"),
    ],
)
def test_crio_is_asked_for_its_settings(tmp_path: Path, answer: str, binaries: str, configurations: str) -> None:
    async def main() -> None:
        fake = FakeRuntime(tmp_path / "grpc")
        fake.name, fake.info = "cri-o", {"config": '{"sandboxImage": "pause:1", "crio": {"CgroupManagerName": "x"}}'}
        await fake.start()
        async with beside_http(tmp_path / "s", fake.socket, answer):
            facts = await examine(tmp_path / "s")
        assert (str(facts.cni_binaries), str(facts.cni_configurations)) == (binaries, configurations)
        await fake.stop()

    virtual_time.run(main())


def test_crio_that_leaves_cgroups_to_systemd_is_refused(tmp_path: Path) -> None:
    """Versions before 1.28 do not have the call that reports it."""

    async def main() -> None:
        fake = FakeRuntime(tmp_path / "grpc")
        fake.name = "cri-o"
        await fake.start()
        answer = "HTTP/1.0 200 OK\r\n\r\n" + CRIO.format(manager="systemd")
        async with beside_http(tmp_path / "s", fake.socket, answer):
            with pytest.raises(CannotUseRuntime, match="cgroup_manager = cgroupfs"):
                await examine(tmp_path / "s")
        await fake.stop()

    virtual_time.run(main())


@pytest.mark.parametrize("text", ["", "containerd.sock", "tcp://127.0.0.1:1", "unix://relative", "http://x/y"])
def test_endpoints_that_are_not_sockets(text: str) -> None:
    with pytest.raises(CannotUseRuntime, match="write unix:///PATH"):
        parse_endpoint(text)


def test_errors_of_calls_are_errors_of_input_and_output() -> None:
    """What the agent survives when a file cannot be written, it survives when the runtime does not answer."""
    assert issubclass(RpcError, OSError) and not issubclass(RpcError, ApiError)
