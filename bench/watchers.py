"""Events per second that reach many watchers over HTTPS, and whether each of them got all of them.

    python -m bench.watchers [--watchers 200] [--events 4000] [--writers 32] [--real]

One process serves, one watches on many connections, this one writes config maps. `--real` drives etcd and
kube-apiserver with the same program, for comparison.
"""

import argparse
import time
from dataclasses import dataclass

import msgspec
from bench import raw_client, servers, watch_readers

PATH = "/api/v1/namespaces/default/configmaps"


@dataclass(frozen=True, slots=True)
class Delivered:
    watchers: int
    events: int
    seconds: float
    missing: int
    same: bool
    """All watchers got the same bytes."""
    cpu: float
    """Processor time of the server."""
    reading: float
    writing: float
    """Processor time of the two processes that are its clients."""

    @property
    def rate(self) -> float:
        """Events per second that came to each watcher, in the mean. A server may end the watch of a reader that it
        finds too slow; what that one misses does not count."""
        return (self.events - self.missing / self.watchers) / self.seconds

    def lines(self) -> list[str]:
        deliveries = self.watchers * self.events
        return [
            f"{self.watchers} watchers, {self.events:,} events: {self.rate:,.0f} events/s, each to all watchers",
            f"  {self.missing} of {deliveries:,} deliveries missing, "
            f"{'all watchers got the same bytes' if self.same else 'WATCHERS GOT DIFFERENT BYTES'}",
            f"  {self.cpu / self.events * 1e6:.0f} µs of the server's processor time per event, written and delivered, "
            f"{self.cpu / deliveries * 1e6:.2f} µs per delivery",
            f"  the clients: {self.reading / self.events * 1e6:.0f} µs per event to read all of the watches, "
            f"{self.writing / self.events * 1e6:.0f} µs to write it",
        ]


def config_map(number: int) -> bytes:
    metadata = {"name": f"map-{number}", "namespace": "default"}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})


def measure(server: servers.Server, watchers: int, events: int, writers: int) -> Delivered:
    target = raw_client.Target.of(server.kubeconfig)
    requests = [target.request("POST", PATH, config_map(number)) for number in range(events + writers)]
    warm, measured = requests[:writers], requests[writers:]
    raw_client.send_all(target, warm, 1)
    path = f"{PATH}?watch=true&resourceVersion={newest(server)}"
    with (
        raw_client.connected(target, writers) as exchanges,
        watch_readers.reading(target, path, watchers, events) as group,
    ):
        cpu, writing, begun = server.cpu_seconds(), time.process_time(), time.monotonic()
        raw_client.send_over(exchanges, measured)
        writing = time.process_time() - writing
        seen = group.result()
        cpu = server.cpu_seconds() - cpu
    missing = watchers * events - sum(seen.counts)
    return Delivered(watchers, events, seen.last - begun, missing, seen.same, cpu, seen.cpu, writing)


def newest(server: servers.Server) -> str:
    """The version that the collection has now."""
    import asyncio

    from kohort.kube import kubeconfig
    from kohort.kube.client import Client
    from kohort.kube.resources import CONFIG_MAPS

    async def ask() -> str:
        client = Client(kubeconfig.load(server.kubeconfig))
        try:
            return (await client.list(CONFIG_MAPS, "default")).resource_version
        finally:
            await client.close()

    return asyncio.run(ask())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--events", type=int, default=4000)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    with servers.api_server(real=options.real) as server:
        print("\n".join(measure(server, options.watchers, options.events, options.writers).lines()))


if __name__ == "__main__":
    main()
