"""Simulated nodes: they take part in the cluster like real ones, but their containers are not run.

Everything that a controller can see of a node and its pods is there (node objects, leases, phases, conditions,
container statuses, addresses, restarts, in-place resizes). Annotations define what happens: see `annotations`. A
simulated node is a client of the API like a real node agent, so this works on any Kubernetes cluster.
"""
