"""Whole agents that are killed in the middle of a resize of containers, as `killing.py` does it with processes.

An agent may be killed before every write to a cgroup and to a record, and before and after every call to the container
runtime that changes resources. Every successor has to come to the same end, without a restarted container.
"""

import asyncio
import tempfile
from functools import wraps
from pathlib import Path

from tests.containers.cluster import ContainerCluster, is_ready, status_of
from tests.kernel.killing import FILES, PARENT, PLENTY, Left, Mortal

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.kube.client import Client, PatchType
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS
from kohort.kube.transport import Connection, HttpsTransport
from kohort.node.agent import NodeOptions
from kohort.node.registration import container_agent
from kohort.node.runtimes.cri.discovery import examine
from kohort.node.runtimes.interface import Runtime
from kohort.objects.json_types import JsonObject

NODE = "mortal"
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]
LEAST_DEATHS = 12
SECONDS = 200.0
"""For one step: an emulated kernel on a busy machine is slow."""


def block(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
    return {"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}}


SMALL = (block(("200m", "4"), ("64Mi", "400Mi")), block(("100m", "2"), ("8Mi", "80Mi")))
LARGE = (block(("300m", "6"), ("32Mi", "300Mi")), block(("50m", "1"), ("16Mi", "100Mi")))
"""Of the pod and of its container, which go opposite ways for each resource. CPU limits are above the one processor of
the emulated kernel: CRI-O starts conmon and runc inside the cgroup of the pod, which a low limit slows down."""


def live(url: str, socket: str, directory: str) -> None:
    """Be the agent, as long as steps are left."""
    left = Left(Path(directory, "left"))

    async def serve() -> None:
        manager = Manager(Client(HttpsTransport(Connection(url))), name="node")
        agent = container_agent(
            manager,
            NodeOptions(NODE, Path(directory)),
            await examine(Path(socket), Path(directory)),
            cgroup_parent=PARENT,
            observer=lambda kind, path, content: left.take(),
            own_networks=False,
        )
        _count_calls(agent.runtime, left)
        await manager.run()

    asyncio.run(serve())


def _count_calls(runtime: Runtime, left: Left) -> None:
    """Make the calls that change resources two steps each: before them, and after them."""
    for name in ("resize", "resize_pod"):
        call = getattr(runtime, name)

        @wraps(call)
        async def counted(*words: object, call: object = call) -> None:
            assert callable(call)
            left.take()
            await call(*words)
            left.take()

        setattr(runtime, name, counted)


async def whole_agents_may_be_killed_at_any_step(cluster: ContainerCluster) -> None:
    front = HttpsServer(cluster.server, lambda headers, certificate: ADMIN)
    await front.start()
    directory = Path(tempfile.mkdtemp(prefix="mortal-"))
    mortal = Mortal(directory, live, f"http://127.0.0.1:{front.port}", str(cluster.socket))
    try:
        async with asyncio.TaskGroup() as tasks:
            replacing = tasks.create_task(mortal.replace())
            await _resized_at_every_point(cluster, mortal)
            replacing.cancel()
    finally:
        mortal.end()
        await front.stop()


async def _resized_at_every_point(cluster: ContainerCluster, mortal: Mortal) -> None:
    await cluster.create("killed", {"command": SLEEP, "resources": SMALL[1]}, resources=SMALL[0], nodeName=NODE)
    pod = await cluster.until("killed", is_ready, SECONDS)
    first = status_of(pod)["containerID"]
    place = PARENT / "burstable" / f"pod{pod['metadata']['uid']}"
    id = first.partition("://")[2]
    own = next(place / name for name in (id, f"crio-{id}") if (place / name).is_dir())  # named by the runtime
    places = (place, own)
    await _resize(cluster, LARGE)
    expected, granted = _files(places), 0
    while True:
        mortal.left.set(PLENTY)
        await _resize(cluster, SMALL)
        mortal.left.set(granted)
        pod = await _resize(cluster, LARGE)
        found = (granted, _files(places), status_of(pod)["containerID"], status_of(pod)["restartCount"])
        assert found == (granted, expected, first, 0), found
        if 0 < mortal.left.get() <= granted:
            break  # and it had one more than it needed
        granted += 1
    assert mortal.deaths > LEAST_DEATHS, mortal.deaths
    print(f"INFO killed {mortal.deaths} times", flush=True)
    mortal.left.set(PLENTY)
    await cluster.client.delete(PODS, "killed", "default", grace_seconds=0)


async def _resize(cluster: ContainerCluster, sizes: tuple[JsonObject, JsonObject]) -> JsonObject:
    """Ask for other sizes, and wait until all of the status says that they are there."""
    whole, own = sizes
    patch = {"spec": {"resources": whole, "containers": [{"name": "c", "resources": own}]}}
    answer = await cluster.client.patch(PODS, "killed", "default", patch, PatchType.STRATEGIC, "resize")

    def done(pod: JsonObject) -> bool:
        status = pod["status"]
        conditions = [each["type"] for each in status.get("conditions") or []]
        return bool(
            status.get("observedGeneration", 0) >= answer["metadata"]["generation"]
            and not any(each.startswith("PodResize") for each in conditions)
            and status.get("resources") == whole
            and status_of(pod).get("resources") == own
        )

    return await cluster.until("killed", done, SECONDS)


def _files(places: tuple[Path, ...]) -> list[str]:
    return [f"{file} {(place / file).read_text().strip()}" for place in places for file in FILES]
