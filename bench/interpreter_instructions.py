"""Number of interpreter instructions: a figure that does not depend on the load of the machine.

    python -m bench.interpreter_instructions [--pods 100] [--top 0]

Counted are those that single requests take inside the API server, and those that a pod takes from create to Ready on
simulated nodes, with scheduler and workload controllers in one process on virtual time. What C code does is not in
them, and they are not equally long; but two runs of the same code give the same figure within a percent, and less of
them is less work. `--top` shows where most of them are.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from bench.pods import pod
from bench.single_requests import REQUESTS, node, request, send_all

from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.kube.resources import PODS
from kohort.testing import Cluster
from kohort.testing.virtual_time import run

BATCH = 20
NODES = 50


class Instructions:
    def __init__(self) -> None:
        self.by_code: Counter[CodeType] = Counter()

    @property
    def total(self) -> int:
        return sum(self.by_code.values())

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self.by_code[frame.f_code] += 1
        else:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace

    def lines(self, name: str, count: int, top: int) -> list[str]:
        shown = [f"{name}: {self.total / count:,.0f}"]
        for code, number in self.by_code.most_common(top):
            place = code.co_filename.rpartition("kohort/")[2]
            shown.append(f"  {number / count:8,.0f} {place}:{code.co_firstlineno} {code.co_name}")
        return shown


def config_map(number: int) -> Request:
    metadata = {"name": f"map-{number}", "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "x" * 200}}
    return request("POST", "/api/v1/namespaces/default/configmaps", body)


async def single_requests(top: int) -> list[str]:
    server, _ = await assemble(open_store())
    await send_all(server, [request("POST", "/api/v1/nodes", node(number)) for number in range(NODES)])
    shown: list[str] = []
    for name, make in {**REQUESTS, "create a config map": config_map}.items():
        await send_all(server, [make(number) for number in range(BATCH)])
        requests = [make(number) for number in range(BATCH, 2 * BATCH)]
        counted = Instructions()
        with counted.counting():
            await send_all(server, requests)
        shown += counted.lines(name, BATCH, top)
    await server.close()
    return shown


async def pods(count: int, top: int) -> list[str]:
    async with Cluster(parts=("workloads", "scheduler"), nodes=NODES) as cluster:
        await asyncio.gather(*(cluster.client.create(PODS, pod(number)) for number in range(count)))
        await cluster.settle()
        counted = Instructions()
        with counted.counting():
            await asyncio.gather(*(cluster.client.create(PODS, pod(count + number)) for number in range(count)))
            await cluster.settle(quiet=1.0)
        assert all(one["status"].get("phase") == "Running" for one in cluster.objects(PODS))
        return counted.lines("a pod from create to Ready", count, top)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--top", type=int, default=0, help="functions to show")
    options = parser.parse_args()
    print("\n".join(asyncio.run(single_requests(options.top))))
    print("\n".join(run(pods(options.pods, options.top))))


if __name__ == "__main__":
    main()
