"""Whom the kernel kills first when memory runs out: `oom_score_adj` of a container.

The more of the node's memory a container asked for, the later it dies: 1000 less its share in thousandths, between 3
and 999. What a pod requested beyond its containers' own requests is shared out evenly among all of them. A sidecar
never dies before the container that it serves: it gets the score of the least demanding one if that is lower than its
own.

| node  | pod request | containers                    | scores        |
|-------|-------------|-------------------------------|---------------|
| 16 Gi | -           | 1 Gi                          | 938           |
| 16 Gi | 4 Gi        | 1 Gi, 1 Gi                    | 875, 875      |
| 4 GB  | 2 GB        | 1 GB, 500 MB, sidecar 200 MB  | 725, 850, 850 |
"""

from typing import Final

from kohort.objects.pods import Container, Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import MEMORY
from kohort.resources.effective import aggregate, pod_level_requests_set, requests_of
from kohort.resources.qos import BEST_EFFORT, GUARANTEED, stored_qos_class

PROTECTED: Final = -997
FIRST_TO_GO: Final = 1000
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
NODE_CRITICAL_CLASS: Final = "system-node-critical"


def oom_score_adj(pod: Pod, container: Container, node_memory: int) -> int:
    """The score for a container of an *allocated* pod on a node with this many bytes; it is applied at its start."""
    if node_critical(pod):
        return PROTECTED
    quality = stored_qos_class(pod)
    if quality == GUARANTEED:
        return PROTECTED
    if quality == BEST_EFFORT:
        return FIRST_TO_GO
    spare = _spare_per_container(pod.spec)
    score = _score(_memory_request(container) + spare, node_memory)
    if container.sidecar and container in pod.spec.init_containers and pod.spec.main_containers:
        least = min(map(_memory_request, pod.spec.main_containers))
        score = min(score, _score(least + spare, node_memory))
    return min(max(score, 3), 999)


def node_critical(pod: Pod) -> bool:
    critical = pod.spec.priority is not None and pod.spec.priority >= SYSTEM_CRITICAL_PRIORITY
    return critical and pod.spec.priority_class_name == NODE_CRITICAL_CLASS


def _score(share: int, node_memory: int) -> int:
    return 1000 - 1000 * share // node_memory


def _spare_per_container(spec: PodSpec) -> int:
    if spec.resources is None or not pod_level_requests_set(spec):
        return 0
    of_pod = Quantity.parse(spec.resources.requests.get(MEMORY, 0)).value
    of_containers = aggregate(spec, requests_of).get(MEMORY)
    taken = 0 if of_containers is None else of_containers.value
    return max(0, of_pod - taken) // len(spec.all_containers)


def _memory_request(container: Container) -> int:
    return Quantity.parse(container.resources.requests.get(MEMORY, 0)).value
