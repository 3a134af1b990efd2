"""Pods that want devices by resource claims. Nobody here allocates any, so such a pod waits and says for what: without
its devices it would only seem to run."""

from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Refusal
from kohort.cluster.scheduler.pod_and_node_info import PodFacts

NOT_ALLOCATED: Final = Refusal(
    "DynamicResources", "the pod has resource claims, and this scheduler does not allocate devices"
)


def resource_claims(pod: PodFacts, cluster: ClusterState) -> Refusal | None:
    return NOT_ALLOCATED if pod.pod.spec.resource_claims else None
