"""The node agent: pods as containers on this machine, and their in-place resize.

`agent` puts the node together and has one `pod_worker` for each pod that is bound to it. A worker brings what runs to
what the pod's spec says, through the parts that it is given: `pod_admission`, `pod_sandbox` (network, cgroup, volumes),
`container_order` (which container starts next), `container_starter` with the node's `container_launcher`,
`container_stopper`, `probes`, `resize` (see its map) and `pod_status_reporter`; they share a `pod_record`.
`runtimes.interface` is all that the agent knows of what runs containers.
"""
