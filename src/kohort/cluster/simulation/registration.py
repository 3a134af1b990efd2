"""Adds simulated nodes to a manager."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from kohort.cluster.simulation import node_controller, pod_controller
from kohort.cluster.simulation.node_controller import HEARTBEAT_SECONDS, SimulatedNodes
from kohort.cluster.simulation.node_template import DEFAULT_TOPOLOGY, Fleet
from kohort.cluster.simulation.pod_controller import BY_NODE, SimulatedPods
from kohort.kube.manager import Manager
from kohort.kube.object_identity import key_of
from kohort.kube.resources import NODES, PODS, Key
from kohort.objects.core import Node
from kohort.objects.pods import Pod

WORKERS = 32
"""Pods whose status is written at the same time: these writes share commits."""


def register(
    manager: Manager,
    *,
    nodes: int = 0,
    prefix: str = "sim",
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    topology: Mapping[str, int] = DEFAULT_TOPOLOGY,
    start_latency: float = 0.0,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> Callable[[], Awaitable[None]]:
    """Simulate `nodes` nodes, and every node that others create with the label `simulation.kohort.dev/node: "true"`.

    `capacity` adds to or replaces the default amounts; `topology` divides the nodes into so many equal blocks by a
    label; pods run `start_latency` seconds after they were bound, unless their annotations say otherwise.
    Await the returned function to wait until all nodes are registered.
    """
    fleet = Fleet(nodes, prefix, capacity or {}, labels or {}, topology, start_latency)
    node_cache = manager.informer(NODES, Node)
    # All pods, not only those with a node: other parts of the process keep them too, and share this cache.
    pod_cache = manager.informer(PODS, Pod, indexes={BY_NODE: _node_of})
    recorder = manager.recorder("simulated-node")
    simulated_nodes = SimulatedNodes(manager.client, node_cache, fleet, heartbeat, recorder)
    simulated_pods = SimulatedPods(manager.client, pod_cache, simulated_nodes, recorder, start_latency)

    def pods_of(node: Node) -> Iterable[Key]:
        return [key_of(pod) for pod in pod_cache.by_index(BY_NODE, node.metadata.name)]

    manager.controller("simulated-nodes", simulated_nodes.reconcile, workers=WORKERS).watches(
        node_cache, when=node_controller.matters
    )
    pods = manager.controller("simulated-pods", simulated_pods.reconcile, workers=WORKERS)
    simulated_pods.enqueue = pods.enqueue
    pods.watches(pod_cache, when=pod_controller.matters)
    pods.watches(node_cache, pods_of, when=node_controller.matters_to_pods)
    manager.background("simulated-fleet", simulated_nodes.create_fleet)
    return simulated_nodes.registered


def _node_of(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
