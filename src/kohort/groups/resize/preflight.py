"""May the pods of a group be resized at all? Asked before the first write; a group that may not is not touched.

| asked | if not |
|---|---|
| the quotas of the namespace have room for what the whole group asks for more | QUOTA_EXCEEDED |
| the cluster serves `pods/resize` | NOT_SUPPORTED |
| no container is restarted by it, unless the group tolerates that or the policy is InPlaceOnly | WOULD_RESTART |
| every pod fits its node, other pods or not, and the node runs Linux | INFEASIBLE |
| the API server accepts every patch as a dry run | by the answer |

What happens then:

| failure | InPlaceOrRecreate | InPlaceOnly |
|---|---|---|
| none | Resizing | Resizing |
| QUOTA_EXCEEDED | asked again later | asked again later |
| NOT_ADMITTED: the namespace would refuse new pods too | Reverted: the set stops here | Reverted |
| any other | Recreate | Reverted |

Quotas come first, because a group that its quota has no room for must not be recreated either: its pods would be gone.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from kohort.groups.resize.plan import phase_after_failure
from kohort.groups.resize.record import Phase, ResizeRecord, RevertReason
from kohort.kube import errors
from kohort.objects import well_known_names
from kohort.objects.core import Node
from kohort.objects.pods import Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import amounts_of, limits, requests
from kohort.rules.api_server_message import RequestRefusal, request_refusal
from kohort.rules.resize_decision import excesses_over_node
from kohort.rules.resource_edit import RESIZABLE, AmountField, StatedAmounts, desired_amounts
from kohort.rules.resource_update_policy import ResourceUpdatePolicy


class PreflightRefusal(StrEnum):
    NOT_SUPPORTED = "NotSupported"
    WOULD_RESTART = "WouldRestart"
    INFEASIBLE = "Infeasible"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REFUSED = "Refused"
    NOT_ADMITTED = "NotAdmitted"


class PreflightFailure(msgspec.Struct, frozen=True):
    refusal: PreflightRefusal
    pod: str
    detail: str
    """Amounts, names or the words of the API server."""


class Quota(msgspec.Struct, frozen=True):
    name: str
    hard: Mapping[str, Quantity]
    used: Mapping[str, Quantity]


class PodCheck(msgspec.Struct, frozen=True):
    before: Pod
    """As it runs."""
    after: Pod
    """With the new amounts."""
    node: Node | None
    restarts: tuple[str, ...] = ()
    """Containers that their own resize policy would restart."""


class GroupCheck(msgspec.Struct, frozen=True):
    pods: Sequence[PodCheck]
    quotas: Sequence[Quota]
    policy: ResourceUpdatePolicy
    restarts_recreate_group: bool
    """The restart policy of the group recreates it when a container restarts."""


def check_group(check: GroupCheck) -> PreflightFailure | None:
    """The first reason why the group must not be touched, by what is known without asking the API server."""
    failure = _quota_failure(check)
    for pod in check.pods:
        failure = failure or _restart_failure(check, pod) or _node_failure(pod)
    return failure


def _restart_failure(check: GroupCheck, pod: PodCheck) -> PreflightFailure | None:
    tolerated = not check.restarts_recreate_group or check.policy is ResourceUpdatePolicy.IN_PLACE_ONLY
    if not pod.restarts or tolerated:
        return None
    detail = f"its resizePolicy restarts {', '.join(pod.restarts)}, and restarts recreate the group"
    return PreflightFailure(PreflightRefusal.WOULD_RESTART, pod.before.metadata.name, detail)


def _node_failure(pod: PodCheck) -> PreflightFailure | None:
    if pod.node is None:
        return None
    name = pod.before.metadata.name
    system = pod.node.metadata.labels.get(well_known_names.OS, "linux")
    if system != "linux":
        return PreflightFailure(PreflightRefusal.INFEASIBLE, name, f"node {pod.node.metadata.name} runs {system}")
    allocatable = amounts_of(pod.node.status.allocatable)
    for excess in excesses_over_node(requests(pod.after), allocatable):
        detail = f"{excess.requested} {excess.resource} requested, node {pod.node.metadata.name} has {excess.capacity}"
        return PreflightFailure(PreflightRefusal.INFEASIBLE, name, detail)
    return None


def _quota_failure(check: GroupCheck) -> PreflightFailure | None:
    """Kubernetes charges quotas pod by pod, so without this a group could stop half way."""
    growth = _growth(check.pods)
    for quota in check.quotas:
        for name, used in _charged(quota, growth).items():
            if used > quota.hard[name]:
                more, before = used - quota.used.get(name, ZERO), quota.used.get(name, ZERO)
                detail = f"quota {quota.name}: {more} more {name}, {before} of {quota.hard[name]} used"
                return PreflightFailure(PreflightRefusal.QUOTA_EXCEEDED, check.pods[0].before.metadata.name, detail)
    return None


def quotas_after(check: GroupCheck) -> list[Quota]:
    """The quotas once the group has its new resources: what the next group finds."""
    growth = _growth(check.pods)
    return [Quota(one.name, one.hard, {**one.used, **_charged(one, growth)}) for one in check.quotas]


def _charged(quota: Quota, growth: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """What is used of each limit of the quota that the growth counts against."""
    return {
        name: quota.used.get(name, ZERO) + more
        for key, more in growth.items()
        for name in (key, key.removeprefix("requests."))
        if name in quota.hard
    }


def _growth(pods: Sequence[PodCheck]) -> dict[str, Quantity]:
    """What the pods ask for more, by the names that quotas have."""
    growth: dict[str, Quantity] = {}
    for pod in pods:
        for prefix, read in (("requests", requests), ("limits", limits)):
            before, after = read(pod.before), read(pod.after)
            for resource in RESIZABLE:
                more = after.get(resource, ZERO) - before.get(resource, ZERO)
                if more > ZERO:
                    key = f"{prefix}.{resource}"
                    growth[key] = growth.get(key, ZERO) + more
    return growth


def failure_of_patch(pod: Pod, amounts: StatedAmounts, problem: errors.ApiError) -> PreflightFailure | None:
    """What the API server's answer to a patch with these amounts means; None if it is worth trying again as it is.

    | answer | meaning |
    |---|---|
    | 404 about the subresource, 405, 422 about pods as a whole | the cluster cannot resize |
    | 403, because the node does not declare the feature | the node cannot resize |
    | 403, by a quota | the quota has no room |
    | 403, because the node can never hold it | infeasible |
    | 403 by a limit range, 422 because of a limit that it filled in | not admitted: new pods would not be, either |
    | 403 otherwise, 422 | refused: by a policy, or by the rules for pods that run |
    | 404, 409, 429, 5xx | again |
    """
    name, why = pod.metadata.name, request_refusal(problem.message)
    if isinstance(problem, errors.MethodNotAllowed) or (
        isinstance(problem, errors.NotFound) and why is RequestRefusal.KIND_NOT_SERVED
    ):
        return PreflightFailure(PreflightRefusal.NOT_SUPPORTED, name, "the cluster does not serve pods/resize")
    if why in (RequestRefusal.POD_LEVEL_NOT_SUPPORTED, RequestRefusal.NODE_FEATURE_MISSING):
        return PreflightFailure(PreflightRefusal.NOT_SUPPORTED, name, problem.message)
    if isinstance(problem, errors.Forbidden) and why is RequestRefusal.QUOTA_EXCEEDED:
        return PreflightFailure(PreflightRefusal.QUOTA_EXCEEDED, name, problem.message)
    if isinstance(problem, errors.Forbidden) and why is RequestRefusal.NODE_TOO_SMALL:
        return PreflightFailure(PreflightRefusal.INFEASIBLE, name, problem.message)
    filled_in = _LIMIT_RANGER in pod.metadata.annotations or not _above_own_limit(pod, amounts)
    if (why is RequestRefusal.REQUEST_ABOVE_LIMIT and filled_in) or why is RequestRefusal.OUTSIDE_LIMIT_RANGE:
        return PreflightFailure(PreflightRefusal.NOT_ADMITTED, name, problem.message)
    if isinstance(problem, errors.Forbidden | errors.Invalid | errors.BadRequest):
        return PreflightFailure(PreflightRefusal.REFUSED, name, problem.message)
    return None


def _above_own_limit(pod: Pod, amounts: StatedAmounts) -> bool:
    """Whether a request would be above a limit that the pod has itself: a LimitRange fills in limits of resizes too."""
    wanted = {**desired_amounts(pod.spec), **amounts}
    above = (
        wanted.get(AmountField(field.container, "limits", field.resource), amount) < amount
        for field, amount in wanted.items()
        if field.side == "requests"
    )
    return any(above)


_LIMIT_RANGER: Final = well_known_names.LIMIT_RANGER
"""Annotation of pods for which a LimitRange filled in requests or limits."""

_REASONS: Final = {
    PreflightRefusal.NOT_SUPPORTED: RevertReason.NOT_SUPPORTED,
    PreflightRefusal.WOULD_RESTART: RevertReason.WOULD_RESTART,
    PreflightRefusal.INFEASIBLE: RevertReason.INFEASIBLE,
    PreflightRefusal.REFUSED: RevertReason.REFUSED,
    PreflightRefusal.NOT_ADMITTED: RevertReason.NOT_ADMITTED,
    PreflightRefusal.QUOTA_EXCEEDED: RevertReason.QUOTA_EXCEEDED,
}


def reason_of(failure: PreflightFailure) -> RevertReason:
    return _REASONS[failure.refusal]


def record_after_preflight(
    policy: ResourceUpdatePolicy, failure: PreflightFailure | None, revision: str, now: float
) -> ResizeRecord | None:
    """What is recorded for a group that was asked about; None if it is asked about again later."""
    if failure is None:
        return ResizeRecord(revision, Phase.RESIZING, now)
    if failure.refusal is PreflightRefusal.QUOTA_EXCEEDED:
        return None
    reason = reason_of(failure)
    return ResizeRecord(revision, phase_after_failure(policy, reason), now, reason, f"{failure.pod}: {failure.detail}")
