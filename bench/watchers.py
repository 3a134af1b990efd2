"""Events per second that reach many watchers over HTTPS, and whether each of them got all of them.

    python bench/watchers.py [--watchers 200] [--events 4000] [--writers 32]

One process serves, this one writes small config maps and watches them over its own connections. Frames are counted by
their revisions, not decoded: the server is what is measured.
"""

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.http import Request
from kohort.kube.resources import CONFIG_MAPS

OBJECTS = 500
_CHANGE = re.compile(rb'"type":"(?:ADDED|MODIFIED)"')


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(client: Client, start: str, wanted: int, ready: asyncio.Semaphore) -> int:
    """How many changes arrived, once all have or nothing comes any more."""
    query = (("watch", "true"), ("resourceVersion", start))
    seen = 0
    async with client.transport.stream(Request("GET", CONFIG_MAPS.path("default"), query)) as stream:
        ready.release()
        chunks = aiter(stream)
        while seen < wanted:
            try:
                async with asyncio.timeout(30):
                    chunk = await anext(chunks)
            except (TimeoutError, StopAsyncIteration):
                break
            # The mark of a frame is near its beginning: one that is cut in two is rare, and is missing then.
            seen += len(_CHANGE.findall(chunk))
    return seen


async def write_all(client: Client, events: int, writers: int) -> None:
    numbers = iter(range(events))

    async def write_next() -> None:
        for number in numbers:
            name = f"map-{number}"
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}, "data": {"k": "v"}})

    await asyncio.gather(*(write_next() for _ in range(writers)))


async def measure(directory: Path, pid: int, options: argparse.Namespace) -> None:
    client = Client(kubeconfig.load(directory / "kubeconfig"))
    start = (await client.list(CONFIG_MAPS, "default")).resource_version
    ready = asyncio.Semaphore(0)
    watching = [asyncio.create_task(watch(client, start, options.events, ready)) for _ in range(options.watchers)]
    for _ in watching:
        await ready.acquire()
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    await write_all(client, options.events, options.writers)
    counts = await asyncio.gather(*watching)
    elapsed, cpu = time.perf_counter() - begun, cpu_seconds(pid) - cpu
    await client.close()
    events, delivered = options.events, sum(counts)
    print(f"{options.watchers} watchers, {events:,} events: {events / elapsed:,.0f} events/s, each to all watchers")
    print(f"  {events * options.watchers - delivered} of {events * options.watchers:,} deliveries missing")
    print(f"  {cpu / events * 1e6:.0f} µs of the server's processor time per event, written and delivered,")
    print(f"  {cpu / delivered * 1e6:.1f} µs per delivery")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--writers", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        command = ["up", "--data-dir", directory, "--port", "0", "--parts", "apiserver"]
        server = subprocess.Popen([sys.executable, "-m", "kohort", *command], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            if not server.stdout.readline().startswith("ready"):
                raise RuntimeError("kohort up did not become ready")
            asyncio.run(measure(Path(directory), server.pid, options))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


if __name__ == "__main__":
    main()
