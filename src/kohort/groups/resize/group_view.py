"""What a resize depends on, of one group and of each of its pods.

The operator makes these views of its caches, and `kohort plan` of a snapshot; `plan` decides by them.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.groups.resize.pod_progress import PodProgress, pod_progress
from kohort.groups.resize.record import ResizeRecord
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.container_reasons import CRASH_LOOP_BACK_OFF
from kohort.objects.pods import Pod
from kohort.rules.group_state import GroupState, RestartState, group_size
from kohort.rules.pod_scheduling import unschedulable
from kohort.rules.resize_restart import containers_restarted_by
from kohort.rules.resource_edit import AmountChange, InPlaceEdit, RecreateEdit, change_of_pod


class PodView(msgspec.Struct, frozen=True):
    name: str
    leader: bool
    shrinks: bool
    """No request grows from the old amounts to the new ones."""
    forward: PodProgress
    """Towards the amounts of the revision that is recorded, else of the wanted one."""
    backward: PodProgress
    """Back to the amounts of the revision that the group carries."""
    node: str = ""
    restarts: bool = False
    """A container of it restarts on the way."""


class GroupView(msgspec.Struct, frozen=True):
    index: int
    revision: str
    """The revision that the group carries, by the label of its leader."""
    edit: InPlaceEdit | RecreateEdit | None
    """What leads from that revision to the wanted one; None if it is the same."""
    pods: Sequence[PodView]
    whole: bool
    """All its pods exist and none is being deleted."""
    ready: bool
    broken: bool = False
    """It is not ready and will not become ready by waiting, or it has failed."""
    unplaced: bool = False
    """No pod of it has a node, and the scheduler found none for its leader."""
    record: ResizeRecord | None = None
    restart: RestartState | None = None
    """It has failed, and is held or waits to be recreated: then it is not ready."""


def members_of_group(leader: Pod, workers: GroupStatefulSet | None, pods: Iterable[Pod]) -> list[Pod]:
    """The leader first. Workers of an earlier leader of the same index are not members.

    `workers` is the StatefulSet of the leader's name, `pods` are all that carry the index of the group."""
    uid = workers.metadata.uid if workers is not None else ""
    owned = [pod for pod in pods if pod.metadata.is_controlled_by(uid)]
    return [leader, *sorted(owned, key=lambda pod: pod.metadata.name)]


def view_of_group(
    index: int,
    members: Sequence[Pod],
    pods: Sequence[PodView],
    state: GroupState | None,
    edit: InPlaceEdit | RecreateEdit | None,
    *,
    revision: str,
    default_size: int,
    record: ResizeRecord | None = None,
) -> GroupView:
    """`pods` are the views of `members`; `default_size` holds where the leader does not say the size of its group."""
    leader = members[0]
    restart = state.restart if state is not None else None
    ready = state is not None and state.ready
    complete = len(members) == group_size(leader, default_size)
    return GroupView(
        index=index,
        revision=revision,
        edit=edit,
        pods=pods,
        whole=complete and all(pod.active and pod.status.phase == "Running" for pod in members),
        ready=ready,
        broken=not ready and (restart is not None or any(map(is_broken, members))),
        restart=restart,
        unplaced=is_broken(leader) and not any(pod.spec.node_name for pod in members),
        record=record,
    )


def view_of_pod(pod: Pod, stated: AmountChange, *, is_leader: bool) -> PodView:
    """`stated` is what the templates say about pods of this kind."""
    change = change_of_pod(pod.spec, stated)
    return PodView(
        name=pod.metadata.name,
        leader=is_leader,
        shrinks=_shrinks(change),
        forward=pod_progress(pod, change),
        backward=pod_progress(pod, change.reversed),
        node=pod.spec.node_name,
        restarts=bool(containers_restarted_by(pod, change.after)) if change.changed_fields else False,
    )


def _shrinks(change: AmountChange) -> bool:
    """Something gets less, and nothing gets more."""
    fields = change.changed_fields
    return bool(fields) and all(
        field in change.before and change.after[field] < change.before[field] for field in fields
    )


def is_broken(pod: Pod) -> bool:
    """The pod will not become ready by waiting: it crashes again and again, or no node has room for it."""
    return _crash_loops(pod) or unschedulable(pod) is not None


def _crash_loops(pod: Pod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(one.state.waiting is not None and one.state.waiting.reason == CRASH_LOOP_BACK_OFF for one in statuses)
