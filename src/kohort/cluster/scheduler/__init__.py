"""The scheduler of the embedded control plane: which node a pod runs on.

Which nodes can take a pod is decided in `rules.scheduling`. Read here in this order: `scores` (which of them is best),
`decision` (one pod), `preemption` (which pods are evicted for it), `messages` (results in words), `queue` and
`requeue_hints` (which pod is next, and when it is tried again), `scheduler` (the loop), `registration`.
"""
