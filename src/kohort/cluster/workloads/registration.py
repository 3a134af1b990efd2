"""Which workload controllers run."""

from pathlib import Path

from kohort.cluster.workloads import (
    clusterrole_aggregation,
    csr_signer,
    namespace_defaults,
    namespaces,
    quota,
    serviceaccount_tokens,
)
from kohort.cluster.workloads.autoscaling import controller as autoscaling
from kohort.cluster.workloads.cronjob import controller as cronjob
from kohort.cluster.workloads.daemonset import controller as daemonset
from kohort.cluster.workloads.deployment import controller as deployment
from kohort.cluster.workloads.disruption import controller as disruption
from kohort.cluster.workloads.endpoints import controller as endpoints
from kohort.cluster.workloads.endpoints import mirroring
from kohort.cluster.workloads.garbage import controller as garbage
from kohort.cluster.workloads.job import controller as job
from kohort.cluster.workloads.nodes import eviction, lifecycle
from kohort.cluster.workloads.replicaset import controller as replicaset
from kohort.cluster.workloads.statefulset import controller as statefulset
from kohort.cluster.workloads.volumes import controller as volumes
from kohort.kube.manager import Manager

_PARTS = (
    autoscaling,
    cronjob,
    daemonset,
    deployment,
    disruption,
    endpoints,
    eviction,
    garbage,
    job,
    lifecycle,
    mirroring,
    namespaces,
    quota,
    replicaset,
    clusterrole_aggregation,
    statefulset,
)


def register(
    manager: Manager,
    *,
    root_certificate: str,
    volume_directory: Path,
    authority: csr_signer.AuthorityFiles | None = None,
) -> None:
    """Add all workload controllers to `manager`.

    `root_certificate` is the PEM of the cluster's CA, `volume_directory` where provisioned volumes live. Certificates
    are signed only where the `authority` is at hand.
    """
    if authority is not None:
        csr_signer.register(manager, authority)
    namespace_defaults.register(manager, root_certificate)
    serviceaccount_tokens.register(manager, root_certificate)
    volumes.register(manager, volume_directory)
    for part in _PARTS:
        part.register(manager)
