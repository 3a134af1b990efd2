"""Groups on the embedded cluster: created, rolled, scaled to nothing, deleted, all in the one process of `kohort up`.

    python -m bench.embedded_groups [--groups 100] [--size 8] [--sets 10]

1,000 groups of 8 pods are the size that the goal is stated in. Time is what a user waits, processor time and memory are
those of the whole control plane, nodes included.
"""

import argparse
import asyncio

from bench import servers
from bench.group_lifecycle import PHASES, Figures, Shape, run_lifecycle

from kohort.kube import kubeconfig
from kohort.kube.client import Client

PODS_PER_NODE = 100


async def measure(server: servers.Server, shape: Shape) -> Figures:
    client = Client(kubeconfig.load(server.kubeconfig))
    try:
        return await run_lifecycle(client, "bench", shape, server.pids[0])
    finally:
        await client.close()


def run(groups: int, size: int, sets: int) -> Figures:
    shape = Shape(sets, groups // sets, size, 0)
    nodes = max(10, groups * size // PODS_PER_NODE)
    with servers.kohort("--simulated-nodes", str(nodes)) as server:
        return asyncio.run(measure(server, shape))


def lines(figures: Figures, groups: int, size: int) -> list[str]:
    shown = [f"{groups:,} groups of {size} pods, peak memory {figures.memory:.0f} MB"]
    for phase in PHASES:
        per_pod = figures.cpu[phase] / (groups * size) * 1000
        shown.append(
            f"  {phase}: {figures.seconds[phase]:.1f} s, {figures.cpu[phase]:.1f} s of processor time "
            f"({per_pod:.2f} ms per pod), {figures.writes[phase]:.1f} writes per group"
        )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--sets", type=int, default=10)
    options = parser.parse_args()
    print("\n".join(lines(run(options.groups, options.size, options.sets), options.groups, options.size)))


if __name__ == "__main__":
    main()
