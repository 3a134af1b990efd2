"""A whole cluster inside a test: in one process, on virtual time, with injected faults.

* `virtual_time` runs asyncio programs on a clock that jumps instead of waiting.
* `faults` wraps any transport and injects faults: crash at write k, lost, repeated or late watch events, stale caches,
  errors and timeouts.
* `cluster` runs the embedded control plane and the parts that a test needs; `crashes` crashes a part at its writes.

    from kohort.testing import Cluster

    async with Cluster(parts=("workloads",)) as cluster:
        await cluster.client.create(STATEFUL_SETS, {...})
        await cluster.until(lambda: len(cluster.objects(PODS)) == 3)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> object:
    """The clock and the faults are useful without a cluster, whose import is the expensive part."""
    if name == "Cluster":
        from kohort.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
