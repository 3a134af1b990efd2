"""The gateway of `kohort up` beside nginx with one worker, and how fast it turns away from a version.

    python -m bench.gateway [--seconds 5] [--rollbacks 3]

Both proxies lead to the same small server, and the same clients ask both in turns: wrk on kept connections, with the
same small request again and again, and with requests as a client library sends them, of which no two have the same
head, nor have two answers; then one request after the other, and streams. Processor time for a request is that of the
proxy alone, so it depends less on what else the machine does than requests per second. Then a release of one group to
another version is rolled back several times, under load and with long streams on the new version: how long requests
still reached it, and how many failed.

| figure                                                       | goal                     |
|--------------------------------------------------------------|--------------------------|
| requests per second, 16 connections (wrk)                    | 0.6 of nginx             |
| added to the median of single requests                       | 1 ms                     |
| rollback until no request reaches the new version, p99       | below 1 s                |
| failed requests and cut streams                              | 0                        |
"""

import argparse
import asyncio
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Server, compiled_once, kohort, resident_megabytes

from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import INGRESSES, LEADER_WORKER_SETS, PODS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject

BACKEND = "127.16.0.1"
"""Of a pod on a machine where kohort may not add addresses."""
SERVER = Path(__file__).with_name("gateway_server.py")
CONNECTIONS = 16
ROUNDS = 3
"""Both proxies in turn; every round is printed, and the better one of each counts in the table."""
NUMBERED = """
local head = table.concat({
  "GET /numbered HTTP/1.1", "Host: bench.example", "Accept-Encoding: gzip, deflate", "Connection: keep-alive",
  "Accept: application/json", "Content-Type: application/json", "User-Agent: AsyncOpenAI/Python 1.99.1",
  "X-Stainless-Lang: python", "X-Stainless-Package-Version: 1.99.1", "X-Stainless-OS: Linux", "X-Stainless-Arch: x64",
  "X-Stainless-Runtime: CPython", "X-Stainless-Runtime-Version: 3.12.3", "X-Stainless-Async: async:asyncio",
  "X-Stainless-Retry-Count: 0", "X-Stainless-Read-Timeout: 600", "Authorization: Bearer sk-0123456789abcdef",
  "X-Request-Id: "
}, "\\r\\n")
local number = 0
request = function()
  number = number + 1
  return head .. number .. "\\r\\n\\r\\n"
end
"""
"""For wrk: requests with the headers of a client library, each with an id of its own."""
_WRK_FAILURES = re.compile(r"(?:Non-2xx or 3xx responses:|Socket errors:).*")
NGINX = """
worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/error;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  upstream backend {{ server {backend}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; proxy_buffering off;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Real-IP $remote_addr;
      proxy_pass http://backend;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Figures:
    per_second: float
    processor: float
    """Of the proxy for a request, in microseconds."""
    numbered_per_second: float
    numbered_processor: float
    """Of requests and answers whose heads are all different."""
    median: float
    p99: float
    first_byte: float
    failed: int


# The client


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str = "/") -> str:
    """The body of the answer, which has a length; raises ConnectionError."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bench.example\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(body.decode())
    return body.decode()


async def throughput(port: int, seconds: float, script: str = "") -> tuple[int, float, int]:
    """By wrk: how many requests were answered, how many per second, and how many failed."""
    program = shutil.which("wrk")
    if program is None:
        raise RuntimeError("wrk is not installed: apt-get install wrk")
    command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{math.ceil(seconds)}s", "-H", "Host: bench.example"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            *command,
            *("-s", file.name),
            f"http://127.0.0.1:{port}/",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        text = (await process.communicate())[0].decode()
    answered = re.search(r"([0-9]+) requests in", text)
    rate = re.search(r"Requests/sec: +([0-9.]+)", text)
    if answered is None or rate is None:
        raise RuntimeError(f"wrk says: {text}")
    failed = sum(int(number) for line in _WRK_FAILURES.findall(text) for number in re.findall("[0-9]+", line))
    return int(answered[1]), float(rate[1]), failed


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def latencies(port: int, requests: int = 1000) -> list[float]:
    """Of single requests, one after the other, in milliseconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for _ in range(requests):
        begun = time.perf_counter()
        await ask(reader, writer)
        found.append(1000 * (time.perf_counter() - begun))
    writer.close()
    return sorted(found)


async def first_byte(port: int, streams: int = 20) -> float:
    """Median time to the first part of a stream, in milliseconds."""
    found = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        begun = time.perf_counter()
        writer.write(b"GET /stream HTTP/1.1\r\nHost: bench.example\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await reader.readline()
        await reader.readline()
        found.append(1000 * (time.perf_counter() - begun))
        writer.close()
    return sorted(found)[streams // 2]


async def measure(port: int, pid: int, seconds: float) -> Figures:
    await throughput(port, 1)
    per_second, processor, failed = await under_load(port, pid, seconds)
    numbered_per_second, numbered_processor, numbered_failed = await under_load(port, pid, seconds, NUMBERED)
    single = await latencies(port)
    return Figures(
        per_second,
        processor,
        numbered_per_second,
        numbered_processor,
        single[len(single) // 2],
        single[len(single) * 99 // 100],
        await first_byte(port),
        failed + numbered_failed,
    )


async def under_load(port: int, pid: int, seconds: float, script: str = "") -> tuple[float, float, int]:
    """Requests per second, processor time of the proxy for one, and how many failed."""
    before = processor_seconds(pid)
    answered, per_second, failed = await throughput(port, seconds, script)
    return per_second, 1e6 * (processor_seconds(pid) - before) / answered, failed


# What is measured


@contextmanager
def backend(port: int, name: str = "stable") -> Iterator[None]:
    command = [sys.executable, str(SERVER), BACKEND, str(port), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def nginx(port: int, backend_port: int) -> Iterator[int]:
    """Its process id; the worker is its child."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        raise RuntimeError("nginx is not installed: apt-get install nginx-light")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        text = NGINX.format(directory=directory, port=port, backend=f"{BACKEND}:{backend_port}")
        configuration = Path(directory, "nginx.conf")
        configuration.write_text(text)
        process = subprocess.Popen([program, "-e", f"{directory}/error", "-c", str(configuration)])
        try:
            _wait_for_port(port)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def _wait_for_port(port: int) -> None:
    import socket

    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"nothing listens at port {port}")


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gateway_process(server: Server) -> int:
    for pid in children(server.pids[0]):
        if b"kohort.up.gateway_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise RuntimeError("the gateway does not run")


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    transport = load(server.kubeconfig)
    try:
        yield Client(transport, user_agent="bench")
    finally:
        await transport.close()


def ingress(service: str) -> JsonObject:
    named = {"service": {"name": service, "port": {"number": 80}}}
    return {"metadata": {"name": "bench"}, "spec": {"rules": [{"http": {"paths": [_path(named)]}}]}}


def _path(named: JsonObject) -> JsonObject:
    return {"path": "/", "pathType": "Prefix", "backend": named}


def service(target: int) -> JsonObject:
    return {
        "metadata": {"name": "bench"},
        "spec": {"selector": {"app": "bench"}, "ports": [{"port": 80, "targetPort": target}]},
    }


async def gateway_port(client: Client) -> int:
    async with asyncio.timeout(60):
        while True:
            found = await client.get(INGRESSES, "bench", "default")
            served = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
            if served:
                return int(served[0]["ports"][0]["port"])
            await asyncio.sleep(0.05)


async def until_answered(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await ask(reader, writer)
            except (ConnectionError, OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def compare(seconds: float) -> None:
    port, nginx_port = _free_port(), _free_port()
    with backend(port), kohort("--parts", "apiserver,workloads,gateway") as server, nginx(nginx_port, port) as parent:
        async with connected(server) as client:
            await client.create(SERVICES, service(port), "default")
            container = {"name": "main", "image": "host"}
            pod: JsonObject = {
                "metadata": {"name": "bench", "labels": {"app": "bench"}},
                "spec": {"containers": [container]},
            }
            await client.create(PODS, pod, "default")
            status = {"podIP": BACKEND, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await client.patch(PODS, "bench", "default", {"status": status}, subresource="status")
            await client.create(INGRESSES, ingress("bench"), "default")
            own_port = await gateway_port(client)
            await until_answered(own_port)
        own = gateway_process(server)
        best: dict[str, Figures] = {}
        for number in range(ROUNDS):
            here: dict[str, Figures] = {}
            for name, each, pid in (("nginx", nginx_port, children(parent)[0]), ("kohort", own_port, own)):
                here[name] = found = await measure(each, pid, seconds)
                if name not in best or found.per_second > best[name].per_second:
                    best[name] = found
            print_round(number + 1, here["nginx"], here["kohort"])
        alone = await latencies_of_backend(port)
        memory = {
            "nginx": sum(map(resident_megabytes, children(parent))),
            "kohort": resident_megabytes(own),
        }
    print_comparison(best, alone, memory)


async def latencies_of_backend(port: int) -> float:
    reader, writer = await asyncio.open_connection(BACKEND, port)
    found = []
    for _ in range(1000):
        begun = time.perf_counter()
        await ask(reader, writer)
        found.append(1000 * (time.perf_counter() - begun))
    writer.close()
    return sorted(found)[500]


def print_round(number: int, theirs: Figures, ours: Figures) -> None:
    print(
        f"round {number}: nginx {theirs.per_second:.0f}, kohort {ours.per_second:.0f} requests/s: "
        f"{ours.per_second / theirs.per_second:.2f}; processor {theirs.processor:.1f} and {ours.processor:.1f} us; "
        f"all heads different {theirs.numbered_processor:.1f} and {ours.numbered_processor:.1f} us",
        flush=True,
    )


def print_comparison(best: dict[str, Figures], alone: float, memory: dict[str, float]) -> None:
    theirs, ours = best["nginx"], best["kohort"]
    rows = [
        ("requests/s, 16 connections", theirs.per_second, ours.per_second, "0.6 of nginx"),
        ("processor for a request, us", theirs.processor, ours.processor, ""),
        ("  all heads different, requests/s", theirs.numbered_per_second, ours.numbered_per_second, ""),
        ("  all heads different, us", theirs.numbered_processor, ours.numbered_processor, ""),
        ("median of single requests, ms", theirs.median, ours.median, ""),
        ("  added to the server's own", theirs.median - alone, ours.median - alone, "1 ms"),
        ("p99 of single requests, ms", theirs.p99, ours.p99, ""),
        ("first byte of a stream, ms", theirs.first_byte, ours.first_byte, ""),
        ("memory, MB", memory["nginx"], memory["kohort"], ""),
        ("failed requests", theirs.failed, ours.failed, "0"),
    ]
    print(f"{'':<34} {'nginx, 1 worker':>16} {'kohort':>10} {'ratio':>7}  goal")
    for what, one, other, goal in rows:
        ratio = f"{other / one:7.2f}" if one else f"{'':>7}"
        print(f"{what:<34} {one:>16.2f} {other:>10.2f} {ratio}  {goal}", flush=True)


# Rollbacks


def group_set(version: str) -> JsonObject:
    command = [sys.executable, str(SERVER.resolve()), "$(POD_IP)", "8000", version]
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    container = {"name": "main", "image": "host", "command": command, "env": [address], "readinessProbe": probe}
    template = {
        "metadata": {"labels": {"app": "bench"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    return {
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    }


ROLLOUT: JsonObject = {
    "metadata": {"name": "bench", "namespace": "default"},
    "spec": {
        "workloadRef": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "bench"},
        "strategy": {
            "canary": {
                "enableExtraWorkloadForCanary": True,
                "trafficRoutings": [
                    {
                        "service": "bench",
                        "gracePeriodSeconds": 1,
                        "drainTimeoutSeconds": 60,
                        "ingress": {"name": "bench"},
                    }
                ],
                "steps": [{"replicas": "100%", "traffic": "50%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}],
            }
        },
    },
}


class Load:
    """Asks all the time; knows when each version answered last."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.last: dict[str, float] = {}
        self.failures: list[str] = []
        self.requests = 0

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while True:
            try:
                self.last[await ask(reader, writer)] = time.perf_counter()
                self.requests += 1
            except (ConnectionError, asyncio.IncompleteReadError) as problem:
                self.failures.append(str(problem))
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.sleep(0.002)

    async def until_answered_by(self, version: str) -> None:
        async with asyncio.timeout(60):
            while True:
                await asyncio.sleep(0.02)
                if version in self.last:
                    return

    async def long_stream(self) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"GET /long HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        if not text.endswith("\r\n0\r\n\r\n"):
            self.failures.append(f"a stream was cut after {len(text)} bytes")
        return text


async def rollbacks(rounds: int) -> None:
    with kohort() as server:
        async with connected(server) as client:
            await client.create(SERVICES, service(8000), "default")
            await client.create(LEADER_WORKER_SETS, group_set("v1"))
            await client.create(INGRESSES, ingress("bench"), "default")
            await client.create(ROLLOUTS, ROLLOUT)
            port = await gateway_port(client)
            await until_answered(port)
            load = Load(port)
            running = [asyncio.ensure_future(load.run()) for _ in range(4)]
            try:
                took = []
                for number in range(rounds):
                    took.append(await rollback(client, load, f"v{number + 2}"))
                    print(f"rollback {number + 1}: {took[-1]:.2f} s, failures {len(load.failures)}", flush=True)
            finally:
                for task in running:
                    task.cancel()
            took.sort()
    print(
        "rollback until no request reaches the new version: "
        f"median {took[len(took) // 2]:.2f} s, p99 {took[99 * len(took) // 100]:.2f} s, slowest {took[-1]:.2f} s "
        f"of {rounds} (goal 1 s); "
        f"{load.requests} requests, failed requests and cut streams: {len(load.failures)} (goal 0)"
    )
    for failure in load.failures[:5]:
        print(f"  {failure}")


async def rollback(client: Client, load: Load, version: str) -> float:
    """Seconds from the edit that takes a version back until it answered for the last time."""
    await client.patch(LEADER_WORKER_SETS, "bench", "default", {"spec": group_set(version)["spec"]})
    await until_state(client, "StepPaused", "Progressing")
    await load.until_answered_by(version)
    streams = [asyncio.ensure_future(load.long_stream()) for _ in range(4)]
    await asyncio.sleep(0.5)
    begun = time.perf_counter()
    await client.patch(LEADER_WORKER_SETS, "bench", "default", {"spec": group_set("v1")["spec"]})
    await asyncio.gather(*streams)
    await until_state(client, "", "Healthy")
    return load.last[version] - begun


async def until_state(client: Client, state: str, phase: str) -> None:
    async with asyncio.timeout(180):
        while True:
            status = (await client.get(ROLLOUTS, "bench", "default")).get("status") or {}
            found = (status.get("canaryStatus") or {}).get("currentStepState", "")
            if status.get("phase") == phase and state in ("", found):
                return
            await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rollbacks", type=int, default=3)
    given = parser.parse_args()
    compiled_once()
    if given.seconds:
        asyncio.run(compare(given.seconds))
    if given.rollbacks:
        asyncio.run(rollbacks(given.rollbacks))


if __name__ == "__main__":
    main()
