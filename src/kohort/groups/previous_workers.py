"""Workers of a group that is gone, whose names the next group needs.

When a leader has been replaced, its worker StatefulSet is collected, and after that the pods, which may take as long to
end as their grace period says. A new StatefulSet that is created meanwhile asks for pods of the same names, is refused,
and tries again after pauses that double each time: the refusals load the server, and the last pause is wasted. So the
new StatefulSet is created when the names are free.

A pod without an owner, which was orphaned on purpose, is not waited for: the new StatefulSet adopts it.
"""

from collections.abc import Iterable

from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.rules.group_identity import is_worker, parse_pod_name


def predecessors(members: Iterable[Pod]) -> list[Pod]:
    """Of the pods of a group that has no worker StatefulSet, those that must go before it gets one."""
    return [
        pod
        for pod in members
        if is_worker(pod.metadata.labels) and (pod.metadata.controller is not None or pod.metadata.deleting)
    ]


def leaders_behind(pod: Pod) -> Iterable[Key]:
    """The leader that may wait for a worker to be gone."""
    parsed = parse_pod_name(pod.metadata.name) if is_worker(pod.metadata.labels) else None
    return (Key(pod.metadata.namespace, parsed.parent),) if parsed is not None else ()
