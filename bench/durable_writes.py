"""Acknowledged, durable writes per second, with the 6 KB pod that all figures here use.

    python -m bench.durable_writes [--writers 32] [--seconds 5] [--watchers 0] [--directory D]

Each writer creates an object, then updates it again and again, waiting for every acknowledgement. Watchers read every
change, as informers do.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import JsonObject

OBJECTS_PER_WRITER = 100


def pod(name: str) -> JsonObject:
    """About 6 KB of JSON, the size of a pod with managed fields."""
    env = [{"name": f"VARIABLE_{number}", "value": "v" * 40} for number in range(30)]
    container = {"name": "main", "image": "host", "env": env, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    annotations = {f"example.com/annotation-{number}": "a" * 60 for number in range(25)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench"}, "annotations": annotations},
        "spec": {"containers": [container], "nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}] * 4},
    }


async def writer(store: Store, number: int, documents: list[JsonObject], deadline: float) -> tuple[int, float]:
    done, slowest = 0, 0.0
    revisions = [0] * OBJECTS_PER_WRITER
    while (begun := time.perf_counter()) < deadline:
        index = done % OBJECTS_PER_WRITER
        name = f"pod-{number}-{index}"
        stored = await store.write("pods", "default", name, documents[index], expected=revisions[index])
        revisions[index] = stored.revision
        slowest = max(slowest, time.perf_counter() - begun)
        done += 1
    return done, slowest


async def watcher(store: Store, seen: list[int]) -> None:
    async for batch in store.watch("pods", store.revision):
        seen[0] += len(batch)


async def measure(path: Path, writers: int, watchers: int, seconds: float) -> None:
    store = open_store(path)
    seen = [0]
    readers = [asyncio.create_task(watcher(store, seen)) for _ in range(watchers)]
    await asyncio.sleep(0)
    documents = [[pod(f"pod-{number}-{index}") for index in range(OBJECTS_PER_WRITER)] for number in range(writers)]
    cpu = time.process_time()
    begun = time.perf_counter()
    end = begun + seconds
    results = await asyncio.gather(*(writer(store, number, documents[number], end) for number in range(writers)))
    elapsed = time.perf_counter() - begun
    cpu = time.process_time() - cpu
    total = sum(done for done, _ in results)
    await store.close()
    await asyncio.gather(*readers)
    files = sum(file.stat().st_size for file in path.parent.iterdir())
    print(
        f"{writers} writers: {total / elapsed:,.0f} acknowledged writes/s, slowest {max(s for _, s in results):.3f} s"
    )
    print(f"  {cpu / total * 1e6:.0f} µs CPU per write, {total:,} written, {seen[0]:,} seen by {watchers} watchers")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  files {files / 1e6:.0f} MB for {writers * OBJECTS_PER_WRITER:,} objects, peak memory {peak:.0f} MB")
    begun = time.perf_counter()
    store = open_store(path)
    print(f"  reopened with {len(store.list('pods')):,} objects in {time.perf_counter() - begun:.3f} s")
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--watchers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        asyncio.run(measure(Path(directory) / "state.db", options.writers, options.watchers, options.seconds))


if __name__ == "__main__":
    main()
