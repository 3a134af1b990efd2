"""Does a resize restart a container?

A container says in its `resizePolicy`, per resource, whether it must be restarted when its amounts change. The amounts
that count are those that the container feels: its request, and its limit or, without one, the limit of its pod.

| resizePolicy for memory | memory request, or limit of the container | limit of the pod | container |
|---|---|---|---|
| NotRequired, or none    | changes | any                                          | runs on   |
| RestartContainer        | changes | any                                          | restarts  |
| RestartContainer        | stays, has a limit | changes                           | runs on   |
| RestartContainer        | stays, has no limit | changes                          | restarts  |
| RestartContainer        | is spelled otherwise (`1Gi`, `1024Mi`) | stays         | runs on   |
"""

from collections.abc import Collection

from kohort.objects.pods import RESTART_CONTAINER, Container, Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, container_limit
from kohort.rules.resource_edit import StatedAmounts, with_amounts


def restarts_container(container: Container, changed: Collection[str]) -> bool:
    """Whether the container asks to be restarted when its amounts of one of these resources change."""
    return any(
        policy.resource_name in changed and policy.restart_policy == RESTART_CONTAINER
        for policy in container.resize_policy
    )


def containers_to_restart(before: PodSpec, after: PodSpec) -> list[str]:
    """The containers that a resize from one spec to the other restarts, in the order of the spec."""
    known = {container.name: container for container in before.all_containers}
    return [
        container.name
        for container in after.all_containers
        if container.name in known
        and restarts_container(container, changed_resources(before, known[container.name], after, container))
    ]


def changed_resources(before: PodSpec, old: Container, after: PodSpec, new: Container) -> set[str]:
    """Of cpu and memory, those of which the container feels other amounts after the resize."""
    return {
        name for name in (CPU, MEMORY) if _effective_amounts(before, old, name) != _effective_amounts(after, new, name)
    }


def _effective_amounts(spec: PodSpec, container: Container, name: str) -> tuple[Quantity | None, Quantity | None]:
    request = container.resources.requests.get(name)
    return None if request is None else Quantity.parse(request), container_limit(spec, container, name)


def containers_restarted_by(pod: Pod, amounts: StatedAmounts) -> tuple[str, ...]:
    """Containers that their own resize policy restarts when the pod gets these amounts."""
    return tuple(containers_to_restart(pod.spec, with_amounts(pod, amounts).spec))
