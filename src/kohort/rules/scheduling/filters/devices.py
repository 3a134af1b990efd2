"""Pods with resource claims for devices. This scheduler allocates none, so such a pod stays pending with that reason:
without its devices it would only seem to run."""

from typing import Final

from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.rejection import FilterName, PodProblem, PodProblemKind, PodRejection

NOT_ALLOCATED: Final = PodRejection(FilterName.DYNAMIC_RESOURCES, PodProblem(PodProblemKind.DEVICES_NOT_ALLOCATED))


def resource_claims(pod: PodInfo, cluster: ClusterState) -> PodRejection | None:
    return NOT_ALLOCATED if pod.pod.spec.resource_claims else None
