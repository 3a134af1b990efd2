"""A whole cluster inside a test: in one process, on virtual time, with faults to order.

* `virtual_time` runs asyncio programs on a clock that jumps instead of waiting.
* `faults` wraps any transport and breaks it on purpose: crash at write k, cut, repeated or late watch events, stale
  caches, refusals and timeouts.
* `cluster` assembles the embedded control plane, and whatever parts a test wants to see at work.

    from kohort.testing import Cluster

    async with Cluster(parts=("workloads", "scheduler"), nodes=3) as cluster:
        await cluster.client.create(STATEFUL_SETS, {...})
        await cluster.until(lambda: cluster.ready_pods("default") == 3)
"""
