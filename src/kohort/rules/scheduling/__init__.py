"""Which nodes take a pod, as the scheduler decides it: asked by the scheduler itself, and by everything that
foretells what it will do.

Read in this order: `affinity_terms`, `resource_request` and `pod_and_node_info` (a pod and a node, compiled for
decisions), `cluster_state` (all of them), `filters` (which nodes can take a pod), `rejection` and `rejection_text` (why
a node cannot), `volume_binding`; then `planned_group`, `trial_placement` and `group_capacity` (how many groups that
do not exist yet would find room).
"""
