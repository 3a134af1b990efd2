"""The scheduler of the embedded control plane: which node a pod runs on.

Read in this order: `affinity_terms` and `pod_and_node_info` (a pod and a node, compiled for decisions), `cluster_state`
(all of them, kept current), `filters` and `scores` (which nodes can take a pod, and which is best), `rejection` (why a
node cannot), `decision` (one pod), `preemption` (which pods are evicted for it), `messages` (results in words), `queue`
and `requeue_hints` (which pod is next, and when it is tried again), `scheduler` (the loop), `registration`.
"""
