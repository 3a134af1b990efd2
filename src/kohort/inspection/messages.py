"""The words for what this package decides: every sentence about a forecast or a cause is made here, from its type."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from kohort.groups.resize.preflight import Refusal
from kohort.groups.resize.record import ResizeRecord, RevertReason
from kohort.inspection.readable_amounts import amount_text
from kohort.inspection.resize_forecast import GroupReason, GroupWay, ResizeForecast, RoomShortage, Way
from kohort.inspection.template_resize import BoundByPod, NoSuchContainer, RequestProblem, SharedTemplate
from kohort.rules.resource_edit import RecreateEdit, RecreateReason
from kohort.rules.resource_update_policy import ResourceUpdatePolicy

# Counting and listing


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "group"), counted(2, "group")
    ('1 group', '2 groups')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed_groups(indexes: Sequence[int]) -> str:
    """
    >>> listed_groups((3,)), listed_groups((3, 2)), listed_groups((9, 8, 7, 6))
    ('group 3', 'groups 3, 2', 'groups 9 to 6')
    """
    if len(indexes) > 3 and len(indexes) == abs(indexes[0] - indexes[-1]) + 1:
        return f"groups {indexes[0]} to {indexes[-1]}"
    return f"group{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"


# Resources that change in place


def recreate_words(edit: RecreateEdit) -> str:
    """Why running pods cannot follow an edit."""
    field = edit.field.path if edit.field is not None else ""
    match edit.reason:
        case RecreateReason.QOS_CHANGED:
            old, new = edit.qos_classes or ("", "")
            return f"the quality of service class of {edit.role}s would change from {old} to {new}"
        case RecreateReason.AMOUNT_REMOVED:
            return f"{field} of {edit.role}s would be removed"
        case RecreateReason.INIT_CONTAINER:
            return f"{field} of {edit.role}s changes, and that init container has ended"
        case RecreateReason.OTHER_FIELDS:
            return "more than cpu and memory changes"


def way_words(one: GroupWay) -> str:
    """Why a group is recreated or refused."""
    about = f"{one.pod}: {one.detail}" if one.pod else one.detail
    match one.reason:
        case Refusal.NOT_SUPPORTED:
            return "the cluster cannot resize pods (no pods/resize, Kubernetes 1.33 or newer has it)"
        case Refusal.WOULD_RESTART:
            return f"{one.pod}: its resizePolicy restarts {one.detail}, and restarts recreate the group"
        case Refusal.QUOTA_EXCEEDED:
            return f"{one.detail}; it begins when the quota has room"
        case Refusal.INFEASIBLE:
            return f"{one.pod} can never fit its node: {one.detail}"
        case Refusal.REFUSED:
            return f"the API server refuses it for {about}"
        case GroupReason.BROKEN:
            return "it is not ready, so recreating it costs nothing"
        case GroupReason.CONFLICT:
            return f"{one.pod}: {one.detail} differs from the template: it was changed on the pod itself"
        case GroupReason.NOT_REACHED:
            return "the set stops before it"
        case RecreateReason():
            return recreate_words(RecreateEdit(one.reason)) + (f" ({one.detail})" if one.detail else "")
        case None:
            return ""


def shortage_words(one: RoomShortage) -> str:
    more, free = amount_text(one.resource, one.more), amount_text(one.resource, one.free)
    return f"{one.pod} asks for {more} more, node {one.node} has {free} free"


def resize_forecast_lines(found: ResizeForecast) -> list[str]:
    if found.policy is ResourceUpdatePolicy.RECREATE:
        return [_could_be_in_place(found)]
    lines = _grouped_lines("In place", found.by_way(Way.IN_PLACE), lambda one: "", _pace(found))
    lines += [
        f"  Group {one.group} waits for room: {'; '.join(map(shortage_words, one.waits_for))}."
        for one in found.by_way(Way.IN_PLACE)
        if one.waits_for
    ]
    lines += _grouped_lines("Recreated", found.by_way(Way.RECREATE), way_words)
    lines += _grouped_lines("Refused", found.by_way(Way.REFUSED), way_words)
    if found.policy is ResourceUpdatePolicy.IN_PLACE_ONLY and found.by_way(Way.REFUSED):
        lines.append("  Refused groups keep their resources: resourceUpdatePolicy is InPlaceOnly.")
    if found.not_asked:
        lines.append(f"  Not asked for lack of rights: {found.not_asked}.")
    return lines


def _grouped_lines(
    title: str, ways: Iterable[GroupWay], words: Callable[[GroupWay], str], ending: str = ""
) -> list[str]:
    found = []
    for reason, group in groupby(ways, key=words):
        indexes = [one.group for one in group]
        found.append(f"{title}: {listed_groups(indexes)}{ending}{f' ({reason})' if reason else ''}.")
    return found


def _pace(found: ResizeForecast) -> str:
    return f"; {found.at_a_time} at a time (maxUnavailable), {_cost(found.restarts)}"


def _cost(restarts: Sequence[str]) -> str:
    return f"restarting {', '.join(restarts)}" if restarts else "without a restart"


def _could_be_in_place(found: ResizeForecast) -> str:
    if found.obstacle is not None:
        return f"Only cpu and memory change, but not in place: {recreate_words(found.obstacle)}."
    how = found.command or "set spec.rolloutStrategy.resourceUpdatePolicy to InPlaceOrRecreate in the same edit"
    return (
        "Only cpu and memory change. Groups are recreated, because resourceUpdatePolicy is Recreate. Running pods "
        f"could have them in place, {_cost(found.restarts)}, instead: {how}"
    )


def request_words(problem: RequestProblem) -> str:
    """Why templates cannot be edited as the user asks."""
    match problem:
        case SharedTemplate(role):
            return (
                f"leaders and workers are made of one template, so --role {role} cannot be written to it; leave out "
                "--role, add a leaderTemplate, or change running pods only with --pods-only"
            )
        case NoSuchContainer(container, known):
            return f"no template has a container {container}; there are: {', '.join(known)}"
        case BoundByPod(resources):
            return f"pods have {' and '.join(resources)} as a whole (spec.resources)"


def pod_resize_words(reason: str, message: str) -> str:
    """What a node says about a resize that it does not carry out; without a reason, it tried and failed."""
    return f"resize {reason.lower()}: {message}" if reason else f"resize fails: {message}"


def after_deadline_words(policy: ResourceUpdatePolicy, deadline: float) -> str:
    then = ", and is recreated with the new ones" if policy is ResourceUpdatePolicy.IN_PLACE_OR_RECREATE else ""
    return (
        f"wait until the node has room, or make room; {deadline:g} s after its begin the group gets its former "
        f"resources back{then}"
    )


def stopped_words(record: ResizeRecord, deadline: float) -> str:
    """Why the set stopped at a group."""
    match record.reason:
        case RevertReason.DEADLINE_EXCEEDED:
            why = f"it was not resized within {deadline:g} s"
        case RevertReason.NOT_SUPPORTED:
            why = "the cluster cannot resize pods in place"
        case RevertReason.WOULD_RESTART:
            why = "a container would restart"
        case RevertReason.CONFLICT:
            why = "the resources of a pod were changed on the pod itself"
        case RevertReason.REFUSED:
            why = "the API server refused it"
        case _:
            why = "a pod can never fit its node"
    return f"keeps its former resources, and the set stops there: {why} ({record.message})"


def stopped_advice_words(reason: RevertReason | None) -> str:
    match reason:
        case RevertReason.DEADLINE_EXCEEDED:
            return "make room on the node or allow more time (resourceUpdateDeadlineSeconds)"
        case RevertReason.INFEASIBLE | RevertReason.REFUSED:
            return "ask for less"
        case RevertReason.CONFLICT:
            return "set the pod back to what its template says"
        case _:
            return ""


def quota_words() -> str:
    return "make room in the quota or ask for less; kohort retries automatically"


def conflict_words(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    return f"{fields[0]}{more} differs from the template: it was changed on the pod itself, and is not overwritten"
