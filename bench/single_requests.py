"""What single requests cost inside the API server: no socket, no disk, processor time alone.

    python -m bench.single_requests [--batches 40] [--profile FILE]

Every request that a pod needs from its creation to Ready, in batches. The fastest batch counts: it is the one that
others on the machine disturbed least.
"""

import argparse
import asyncio
import cProfile
import time
from collections.abc import Callable
from functools import partial

from bench.pods import pod

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

BATCH = 20
STRATEGIC = "application/strategic-merge-patch+json"
POD_PATH = "/api/v1/namespaces/default/pods"
STAMP = "2026-01-01T00:00:00Z"


def encoded(document: Json) -> bytes:
    import msgspec

    return msgspec.json.encode(document)


def request(method: str, path: str, body: JsonObject, media: str = "application/json") -> Request:
    headers = {"accept": "application/json", "content-type": media, "user-agent": "kohort-bench"}
    return Request(method, path, (("fieldManager", "kohort"),), headers, encoded(body))


def create(number: int) -> Request:
    return request("POST", POD_PATH, {"apiVersion": "v1", "kind": "Pod", **pod(number)})


def bind(number: int) -> Request:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "target": {"kind": "Node", "name": f"node-{number % 50}"},
    }
    return request("POST", f"{POD_PATH}/pod-{number}/binding", body)


def report(number: int) -> Request:
    """What a node agent says of a pod that runs and is ready."""
    condition = {"status": "True", "lastProbeTime": None, "lastTransitionTime": STAMP, "observedGeneration": 1}
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    container = {
        "name": "main",
        "state": {"running": {"startedAt": STAMP}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "started": True,
        "image": "host",
        "imageID": "",
        "containerID": f"simulated://{number:064x}",
        "allocatedResources": {"cpu": "100m", "memory": "64Mi"},
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    status: JsonObject = {
        "phase": "Running",
        "observedGeneration": 1,
        "startTime": STAMP,
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": f"10.1.{number // 250 % 250}.{number % 250 + 1}",
        "podIPs": [{"ip": f"10.1.{number // 250 % 250}.{number % 250 + 1}"}],
        "conditions": [{"type": each, **condition} for each in types],
        "containerStatuses": [container],
    }
    return request("PATCH", f"{POD_PATH}/pod-{number}/status", {"status": status}, STRATEGIC)


def note(number: int) -> Request:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"pod-{number}.18a0", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": f"pod-{number}", "apiVersion": "v1"},
        "type": "Normal",
        "reason": "Scheduled",
        "message": f"Successfully assigned default/pod-{number} to node-{number % 50}",
        "source": {"component": "default-scheduler"},
        "reportingComponent": "default-scheduler",
        "reportingInstance": "",
        "firstTimestamp": STAMP,
        "lastTimestamp": STAMP,
        "count": 1,
    }
    return request("POST", "/api/v1/namespaces/default/events", body)


REQUESTS: dict[str, Callable[[int], Request]] = {
    "create a pod": create,
    "bind it": bind,
    "patch its status": report,
    "create an event": note,
}


async def send_all(server: ApiServer, requests: list[Request]) -> None:
    for one in requests:
        response = await server.handle(one, ADMIN)
        if response.status >= 300:
            raise RuntimeError(f"{one.method} {one.path}: {response.status} {response.body!r}")


async def measure(batches: int, profile: cProfile.Profile | None) -> dict[str, float]:
    """Seconds per request."""
    server, _ = await assemble(open_store())
    await send_all(server, [request("POST", "/api/v1/nodes", node(number)) for number in range(50)])
    best: dict[str, float] = {}
    for batch in range(batches + 1):
        for name, make in REQUESTS.items():
            requests = [make(number) for number in range(batch * BATCH, (batch + 1) * BATCH)]
            work = partial(send_all, server, requests)
            if batch and profile is not None:
                profile.enable()
            begun = time.process_time()
            await work()
            spent = (time.process_time() - begun) / BATCH
            if profile is not None:
                profile.disable()
            if batch:
                best[name] = min(spent, best.get(name, spent))
    await server.close()
    return best


def node(number: int) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--profile", help="write a profile of all requests to this file")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    best = asyncio.run(measure(options.batches, profile))
    for name, seconds in best.items():
        print(f"{name}: {seconds * 1e6:.0f} µs")
    print(f"together: {sum(best.values()) * 1e6:.0f} µs")
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
