"""Quality of service: how a pod ranks when the node runs out.

| cpu                 | memory              | class of the block |
|---------------------|---------------------|--------------------|
| no figure (or zero) | no figure (or zero) | BestEffort         |
| request = limit > 0 | request = limit > 0 | Guaranteed         |
| anything else       | anything else       | Burstable          |

A pod with figures of its own has the class of that block, whatever its containers say. Otherwise all containers and
init containers must agree on Guaranteed or BestEffort; a mixture is Burstable. The class decides the parent cgroup,
so it never changes once a pod is stored.
"""

from typing import Final, Literal

from kohort.objects.pods import Pod, PodSpec, ResourceRequirements
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources.amounts import CPU, MEMORY
from kohort.resources.effective import pod_level_set

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]
GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"
_CLASSES: Final[dict[str, QosClass]] = {"Guaranteed": GUARANTEED, "Burstable": BURSTABLE, "BestEffort": BEST_EFFORT}


def qos_class(spec: PodSpec) -> QosClass:
    """The class that this spec amounts to."""
    if spec.resources is not None and pod_level_set(spec):
        return block_class(spec.resources)
    classes = {block_class(container.resources) for container in spec.all_containers}
    if classes == {GUARANTEED}:
        return GUARANTEED
    return BEST_EFFORT if classes <= {BEST_EFFORT} else BURSTABLE


def stored_qos_class(pod: Pod) -> QosClass:
    """The class that the pod was stored with, else the one that its spec amounts to."""
    return _CLASSES.get(pod.status.qos_class) or qos_class(pod.spec)


def block_class(resources: ResourceRequirements) -> QosClass:
    shapes = {_shape(resources, CPU), _shape(resources, MEMORY)}
    return shapes.pop() if len(shapes) == 1 else BURSTABLE


def _shape(resources: ResourceRequirements, name: str) -> QosClass:
    request, limit = _amount(resources.requests.get(name)), _amount(resources.limits.get(name))
    if request != limit:
        return BURSTABLE
    return GUARANTEED if request.nano > 0 else BEST_EFFORT


def _amount(written: str | int | float | None) -> Quantity:
    return ZERO if written is None else Quantity.parse(written)
