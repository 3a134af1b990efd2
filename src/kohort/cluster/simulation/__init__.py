"""Simulated nodes: they take part in the cluster like real ones, but their pods only pretend to run.

Everything that a controller can see of a node and its pods is there (node objects, leases, phases, conditions,
container statuses, addresses, restarts, in-place resizes), and annotations order what shall happen: see `orders`. A
simulated node is a client of the API like a real node agent, so this works on any Kubernetes cluster.
"""
