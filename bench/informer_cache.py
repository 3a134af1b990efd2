"""How much a cached pod costs: CPU per list item and per watch event, memory per pod.

    python -m bench.informer_cache [--pods 10000] [--events 50000] [--socket]

A small in-process server hands out pods of about 6 KB, as real clusters store them, either by direct call or through a
socket (`--socket`, plain HTTP on loopback, the server in a process of its own). The cache holds the narrow view of
`kohort.objects.core.Pod`, with an index by node.
"""

import argparse
import asyncio
import gc
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterable

import msgspec

from kohort.kube.client import Client, Selection
from kohort.kube.http import Request, Response, Transport
from kohort.kube.informer import Informer
from kohort.kube.resources import PODS
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import Connection, HttpsTransport, InProcessTransport
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject

BATCH = 100


def pod(number: int, version: int) -> JsonObject:
    """A pod as kubelet, scheduler and a StatefulSet leave it."""
    name = f"inference-{number // 8}-{number % 8}"
    labels = {
        "apps.kubernetes.io/pod-index": str(number % 8),
        "controller-revision-hash": "inference-5f8c9d7b6",
        "leaderworkerset.sigs.k8s.io/group-index": str(number // 8),
        "leaderworkerset.sigs.k8s.io/name": "inference",
        "leaderworkerset.sigs.k8s.io/worker-index": str(number % 8),
        "statefulset.kubernetes.io/pod-name": name,
    }
    env = [{"name": f"NCCL_SETTING_{index}", "value": f"value-of-setting-{index}"} for index in range(20)]
    probe = {"httpGet": {"path": "/health", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    resources = {
        "limits": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"},
        "requests": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"},
    }
    container = {
        "name": "server",
        "image": "registry.example.com/team/inference-server:2026.01.15-cuda12.8",
        "command": ["/opt/server/bin/serve", "--model", "/models/large", "--tensor-parallel-size", "8"],
        "env": env,
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": resources,
        "readinessProbe": probe,
        "livenessProbe": probe,
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "shm", "mountPath": "/dev/shm"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    owned: JsonObject = {
        f"f:{field}": {} for container_field in container for field in (container_field, f"{container_field}-x")
    }
    managed = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-15T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {'k:{"name":"server"}': owned}, "f:status": {"f:conditions": owned}},
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-15T10:00:00Z", "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 10}",
            "uid": f"7f1c2a54-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-01-15T10:00:00Z",
            "labels": labels,
            "annotations": {"leaderworkerset.sigs.k8s.io/size": "8"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": f"inference-{number // 8}",
                    "uid": f"9e1c2a54-0000-4000-8000-{number // 8:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": managed,
        },
        "spec": {
            "containers": [container],
            "nodeName": f"node-{number % 1250}",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": f"10.1.{number // 250}.{number % 250}",
            "podIPs": [{"ip": f"10.1.{number // 250}.{number % 250}"}],
            "startTime": "2026-01-15T10:00:00Z",
            "containerStatuses": [
                {
                    "name": "server",
                    "state": {"running": {"startedAt": "2026-01-15T10:00:00Z"}},
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": container["image"],
                    "imageID": "sha256:" + "a" * 64,
                    "containerID": "containerd://" + "b" * 64,
                    "resources": resources,
                }
            ],
            "qosClass": "Guaranteed",
        },
    }


class PodServer:
    """Lists `count` pods; then sends events as fast as the reader takes them."""

    def __init__(self, count: int, events: int) -> None:
        self.first = [_frame("ADDED", pod(number, number + 1)) for number in range(count)]
        end = {"resourceVersion": str(count), "annotations": {"k8s.io/initial-events-end": "true"}}
        self.first.append(_frame("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": end}))
        self.events = [_frame("MODIFIED", pod(number % count, count + 1 + number)) for number in range(events)]
        self.go = asyncio.Event()

    async def handle(self, request: Request) -> Response:
        if request.path == "/go":
            self.go.set()
            return Response(200, {}, b"{}")
        return Response(200, {"content-type": "application/json"}, self._frames())

    async def _frames(self) -> AsyncIterator[bytes]:
        for chunk in _batches(self.first):
            yield chunk
        await self.go.wait()
        for chunk in _batches(self.events):
            yield chunk
            await asyncio.sleep(0)
        await asyncio.Event().wait()


def _frame(change: str, obj: JsonObject) -> bytes:
    return msgspec.json.encode({"type": change, "object": obj}) + b"\n"


def _batches(frames: list[bytes]) -> Iterable[bytes]:
    for start in range(0, len(frames), BATCH):
        yield b"".join(frames[start : start + BATCH])


async def serve(count: int, events: int) -> None:
    """The server side of `--socket`, in a process of its own."""
    from aiohttp import web

    server = PodServer(count, events)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = await server.handle(Request(request.method, request.path))
        if isinstance(response.body, bytes):
            return web.Response(body=response.body)
        stream = web.StreamResponse()
        await stream.prepare(request)
        async for chunk in response.body:
            await stream.write(chunk)
        return stream

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def by_node(obj: Pod) -> Iterable[str]:
    return (obj.spec.node_name,) if obj.spec.node_name else ()


async def measure(transport: Transport, count: int, events: int) -> dict[str, float]:
    client = Client(transport)
    informer = Informer.alone(client, Selection(PODS), Pod)
    informer.add_index("node", by_node)
    done = asyncio.Event()
    last = str(count + events)

    def changed(old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.metadata.resource_version == last:
            done.set()

    informer.on_change(changed)
    gc.collect()
    before, start = resident(), time.process_time()
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    listed = time.process_time()
    gc.collect()
    memory = resident() - before
    start_events = time.process_time()
    if events:
        await client.raw("GET", "/go")
        await done.wait()
    end = time.process_time()
    assert len(informer) == count
    assert len(informer.by_index("node", "node-0")) >= 1
    await cancel_all(task)
    await transport.close()
    return {
        "pods": float(count),
        "µs to list a pod": (listed - start) / count * 1e6,
        "µs per event": (end - start_events) / max(events, 1) * 1e6,
        "bytes of memory per pod": memory / count,
        "bytes on the wire per pod": len(_frame("ADDED", pod(0, 1))),
    }


async def over_socket(count: int, events: int) -> dict[str, float]:
    import aiohttp  # noqa: F401  (its import is not what is measured)

    arguments = [sys.executable, __file__, "--serve", "--pods", str(count), "--events", str(events)]
    server = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        return await measure(HttpsTransport(Connection(f"http://127.0.0.1:{port}")), count, events)
    finally:
        server.kill()
        await server.wait()


async def in_process(count: int, events: int) -> dict[str, float]:
    return await measure(InProcessTransport(PodServer(count, events).handle), count, events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--socket", action="store_true", help="through a socket instead of a direct call")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.pods, arguments.events))
        return
    run = over_socket if arguments.socket else in_process
    figures = asyncio.run(run(arguments.pods, arguments.events))
    for name, value in figures.items():
        print(f"{name}: {value:,.1f}")


if __name__ == "__main__":
    main()
