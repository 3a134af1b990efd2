"""Which workload controllers run."""

from kohort.cluster.workloads import accounts, namespaces
from kohort.cluster.workloads.deployment import controller as deployment
from kohort.cluster.workloads.endpoints import controller as endpoints
from kohort.cluster.workloads.garbage import controller as garbage
from kohort.cluster.workloads.replicaset import controller as replicaset
from kohort.cluster.workloads.statefulset import controller as statefulset
from kohort.kube.manager import Manager


def register(manager: Manager, *, root_certificate: str) -> None:
    """Add all workload controllers to `manager`. `root_certificate` is the PEM of the cluster's CA."""
    accounts.register(manager, root_certificate)
    for part in (deployment, endpoints, garbage, namespaces, replicaset, statefulset):
        part.register(manager)
