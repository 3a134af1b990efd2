"""Whether a node has what a pod asks for."""

from collections.abc import Iterable, Mapping

from kohort.cluster.simulation.resizing import Refusal
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.resources import effective
from kohort.resources.amounts import CPU, MEMORY, amounts_of, summed

WATCHED = (CPU, MEMORY)


def refusal(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, str | int | float]) -> Refusal | None:
    """Why a resize cannot be granted: more than the node has at all, or more than others leave."""
    wanted = effective.requests(pod)
    capacity = amounts_of(allocatable)
    for name in WATCHED:
        if name in wanted and name in capacity and wanted[name] > capacity[name]:
            message = f"Node didn't have enough capacity: {name}, {_figures(name, wanted[name], None, capacity[name])}"
            return Refusal("Infeasible", message)
    used = summed(effective.requests(other, effective.ACCOUNTING) for other in others)
    for name in WATCHED:
        if name in wanted and name in capacity and used.get(name, Quantity.of(0)) + wanted[name] > capacity[name]:
            figures = _figures(name, wanted[name], used.get(name), capacity[name])
            return Refusal("Deferred", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _figures(name: str, wanted: Quantity, used: Quantity | None, capacity: Quantity) -> str:
    def shown(amount: Quantity) -> int:
        return amount.milli if name == CPU else amount.value

    taken = f", used: {shown(used)}" if used is not None else ""
    return f"requested: {shown(wanted)}{taken}, capacity: {shown(capacity)}"
