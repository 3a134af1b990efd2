"""The words for what this package decides: every sentence about a forecast or a cause is made here, from its type."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from kohort.groups.resize.preflight import PreflightRefusal
from kohort.groups.resize.record import ResizeRecord, RevertReason
from kohort.groups.resize.status import recreate_words
from kohort.groups.waiting_reason import WaitingReason
from kohort.inspection.advice import Advice, Command, Verb
from kohort.inspection.awaited_groups import AwaitedGroup, AwaitReason
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.pod_context import PodContext
from kohort.inspection.problems import (
    BudgetNameTaken,
    ClaimNotBound,
    ClaimState,
    ContainerCannotStart,
    ContainerCrashes,
    ContainerEnded,
    ContainerExit,
    ContainerNotCreated,
    ContainerWaits,
    FitsNoNode,
    HeldAfterFailures,
    HeldByGates,
    HeldByPartition,
    HeldWorkload,
    ImageNotThere,
    IsStarting,
    LeaderMissing,
    MountFails,
    NodeHasNotBegun,
    NodeSilent,
    NotObserved,
    NotReady,
    NotScheduledYet,
    NotUpdatedYet,
    PlacementAdvice,
    PodFailed,
    PodsMissing,
    Problem,
    PromotionWithoutRoom,
    ReferencesUnusable,
    RejectedByNode,
    ReleaseOutdated,
    ReleaseStage,
    ReleaseUnderWay,
    ReplicasMissing,
    ReportedWaiting,
    ResizeFails,
    ResizePending,
    RevisionMissing,
    RolloutPaused,
    RouteNotServed,
    ServiceTaken,
    SeveralBudgets,
    StepMovesRequests,
    StepWaitsForApproval,
    StoppedByAnalysis,
    Terminating,
    WaitsForLeader,
    WriteRefused,
)
from kohort.inspection.readable_amounts import amount_text
from kohort.inspection.resize_forecast import (
    GroupReason,
    GroupResizeForecast,
    ResizeForecast,
    ResizeMethod,
    RoomShortage,
)
from kohort.inspection.template_resize import BoundByPod, NoSuchContainer, RequestProblem, SharedTemplate
from kohort.objects import container_reasons
from kohort.objects.counted_nouns import agreeing, counted_of, how_often
from kohort.resources.effective import INFEASIBLE
from kohort.rules.resource_edit import RecreateReason
from kohort.rules.resource_update_policy import ResourceUpdatePolicy

# Counting and listing


def listed_groups(indexes: Sequence[int]) -> str:
    """
    >>> listed_groups((3,)), listed_groups((3, 2)), listed_groups((9, 8, 7, 6))
    ('group 3', 'groups 3, 2', 'groups 9 to 6')
    """
    if len(indexes) > 3 and len(indexes) == abs(indexes[0] - indexes[-1]) + 1:
        return f"groups {indexes[0]} to {indexes[-1]}"
    return f"group{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"


# Resources that change in place

_RESIZE_NEEDS: Final = "it needs Kubernetes 1.33 or newer, for pods as a whole 1.36 and nodes with cgroup v2"


def way_words(one: GroupResizeForecast) -> str:
    """Why a group is recreated or refused."""
    about = f"{one.pod}: {one.detail}" if one.pod else one.detail
    match one.reason:
        case PreflightRefusal.NOT_SUPPORTED:
            return f"{about}; {_RESIZE_NEEDS}"
        case PreflightRefusal.WOULD_RESTART:
            return about
        case PreflightRefusal.QUOTA_EXCEEDED:
            return f"{one.detail}; it begins when the quota has room"
        case PreflightRefusal.INFEASIBLE:
            return f"{one.pod} can never fit its node: {one.detail}"
        case PreflightRefusal.REFUSED:
            return f"the API server refuses it for {about}"
        case PreflightRefusal.NOT_ADMITTED:
            return f"this namespace does not admit such pods, neither running nor new ones: {about}"
        case GroupReason.BROKEN:
            return "it is not ready, so recreating it costs nothing"
        case GroupReason.CONFLICT:
            return f"{one.pod}: {one.detail} differs from the template: it was changed on the pod itself"
        case GroupReason.STOPPED:
            return f"the set has stopped there, and goes on when it is edited or with kohort retry: {one.detail}"
        case GroupReason.NOT_REACHED:
            return "the set stops before it"
        case RecreateReason():
            return one.detail
        case None:
            return ""


def awaited_words(one: AwaitedGroup) -> str:
    """What keeps a group from being ready that an edit waits for."""
    match one.reason:
        case AwaitReason.HELD:
            return f"it is held, and comes back with {one.command}"
        case AwaitReason.NODE_NOT_READY:
            return f"node {one.node} of {one.pod} has not been ready since {one.since}"
        case AwaitReason.BROKEN:
            return f"{one.pod} does not become ready by itself"
        case AwaitReason.DUE:
            return "it has failed, and is recreated when its back-off is over"
        case AwaitReason.NOT_READY:
            return f"{one.pod} is not ready yet" if one.pod else "it is not ready yet"


def shortage_words(one: RoomShortage) -> str:
    more, free = amount_text(one.resource, one.more), amount_text(one.resource, one.free)
    return f"{one.pod} asks for {more} more, node {one.node} has {free} free"


def resize_forecast_lines(found: ResizeForecast) -> list[str]:
    if found.policy is ResourceUpdatePolicy.RECREATE:
        return [_could_be_in_place(found)]
    lines = _grouped_lines("In place", found.by_way(ResizeMethod.IN_PLACE), lambda one: "", _pace(found))
    lines += [
        f"  Group {one.group} waits for room: {'; '.join(map(shortage_words, one.waits_for))}."
        for one in found.by_way(ResizeMethod.IN_PLACE)
        if one.waits_for
    ]
    lines += _grouped_lines("Recreated", found.by_way(ResizeMethod.RECREATE), way_words)
    lines += _grouped_lines("Refused", found.by_way(ResizeMethod.REFUSED), way_words)
    if found.policy is ResourceUpdatePolicy.IN_PLACE_ONLY and found.by_way(ResizeMethod.REFUSED):
        lines.append("  Refused groups keep their resources: resourceUpdatePolicy is InPlaceOnly.")
    if found.not_asked:
        lines.append(f"  Not asked for lack of rights: {found.not_asked}.")
    return lines


def _grouped_lines(
    title: str, ways: Iterable[GroupResizeForecast], words: Callable[[GroupResizeForecast], str], ending: str = ""
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
        case NoSuchContainer(container, known, role):
            where = "no template has" if role == "all" else f"the {role} template does not have"
            return f"{where} a container {container}; there are: {', '.join(known)}"
        case BoundByPod(resources):
            return f"pods have {' and '.join(resources)} as a whole (spec.resources)"


def pod_resize_words(reason: str, message: str) -> str:
    """What a node says about a resize that it does not carry out; without a reason, it tried and failed."""
    return f"resize {reason.lower()}: {message}" if reason else f"resize fails: {message}"


def unanswered_resize_words(node: str, began: str) -> str:
    return f"its node {node} has not answered yet; the resize of its group began at {began}"


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
        case RevertReason.NODE_NOT_REPORTING:
            why = f"a node did not report within {deadline:g} s"
        case RevertReason.NOT_SUPPORTED:
            why = "the cluster or a node cannot resize pods in place"
        case RevertReason.WOULD_RESTART:
            why = "a container would restart"
        case RevertReason.CONFLICT:
            why = "the resources of a pod were changed on the pod itself"
        case RevertReason.REFUSED:
            why = "the API server refused it"
        case RevertReason.NOT_ADMITTED:
            why = "this namespace does not admit pods with these resources"
        case _:
            why = "a pod can never fit its node"
    return f"keeps its former resources, and the set stops there: {why} ({record.message})"


def stopped_advice_words(reason: RevertReason | None) -> str:
    match reason:
        case RevertReason.DEADLINE_EXCEEDED:
            return "make room on the node"
        case RevertReason.NODE_NOT_REPORTING:
            return "bring the node back (kubectl get nodes)"
        case RevertReason.INFEASIBLE | RevertReason.REFUSED:
            return "ask for less"
        case RevertReason.NOT_ADMITTED:
            return "ask for less, or change the LimitRange"
        case RevertReason.CONFLICT:
            return "set the pod back to what its template says"
        case RevertReason.NOT_SUPPORTED:
            return _RESIZE_NEEDS
        case _:
            return ""


def quota_words() -> str:
    return "make room in the quota or ask for less; kohort retries automatically"


def conflict_words(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    return f"{fields[0]}{more} differs from the template: it was changed on the pod itself, and is not overwritten"


# Causes: what was found


def problem_text(problem: Problem) -> str:
    """What was found, in one sentence without the name of the object."""
    match problem:
        case RejectedByNode(reason, message):
            return f"its node did not take it: {reason}: {message}"
        case NodeSilent(node, since, terminating):
            end = "; it cannot be seen to end there" if terminating else ""
            return f"its node {node} has not been ready since {since}{end}"
        case Terminating(seconds, finalizers):
            parts = [f"grace period {seconds} s"] if seconds is not None else []
            parts += [f"held by {', '.join(finalizers)}"] if finalizers else []
            return f"terminating ({', '.join(parts)})" if parts else "terminating"
        case ClaimNotBound():
            return _claim_text(problem)
        case HeldAfterFailures(until, reason):
            return f"pods of this name failed again and again, the last one: {reason}; it is scheduled at {until}"
        case HeldByGates(gates):
            return f"held by scheduling gate{'' if len(gates) == 1 else 's'} {', '.join(gates)}"
        case NotScheduledYet(scheduler):
            return f"no node yet, {scheduler} has not looked at it"
        case WaitsForLeader(leader):
            return f"waits for leader {leader}"
        case NodeHasNotBegun(node):
            return f"node {node} has not begun with it"
        case IsStarting(state):
            return state
        case ImageNotThere(image, reason, message):
            subject = f"{reason} for {image}" if reason else f"cannot pull image {image}"
            return _with_message(subject, message)
        case ContainerNotCreated(container, reason, message) | ContainerWaits(container, reason, message):
            return _with_message(f"container {container}: {reason}", message)
        case ContainerCannotStart(container, exit):
            return f"container {container} cannot be started{_exit_words(exit)}"
        case ContainerCrashes(container, restarts, exit):
            times = f", restarted {how_often(restarts)}" if restarts else ""
            last = f"; last with code {exit.code}{_exit_words(exit)}" if exit is not None else ""
            return f"container {container} ends again and again{times}{last}"
        case ContainerEnded(container, exit):
            return f"container {container} ended with code {exit.code}{_exit_words(exit)}"
        case PodFailed(reason, message):
            return ": ".join(filter(None, (reason, message))) or "the pod failed"
        case NotReady(containers, state, probe):
            subject = f"running, but {', '.join(containers)} is not ready" if containers else state
            return _with_message(subject, probe)
        case ResizePending(reason, message):
            return pod_resize_words(reason, message)
        case ResizeFails(message):
            return pod_resize_words("", message)
        case MountFails(message) | FitsNoNode(message) | ReportedWaiting(_, message) | WriteRefused(message):
            return message
        case _:
            return _problem_of_set(problem) or _problem_of_release(problem)


def _claim_text(problem: ClaimNotBound) -> str:
    match problem.state:
        case ClaimState.MISSING:
            return f"claim {problem.claim} does not exist"
        case ClaimState.LOST:
            return f"claim {problem.claim} has lost its volume"
        case ClaimState.NOT_PROVISIONED:
            kind = problem.storage_class or "none"
            return f"claim {problem.claim} (storage class {kind}) is not bound: {problem.message}"
        case ClaimState.WITHOUT_CLASS:
            return f"claim {problem.claim} is {problem.phase or 'Pending'}: it names no storage class"


def _with_message(subject: str, message: str) -> str:
    return f"{subject}: {message}" if message else subject


def _exit_words(exit: ContainerExit) -> str:
    return _with_message(f" ({exit.reason})" if exit.reason else "", exit.message)


def _problem_of_set(problem: Problem) -> str:
    match problem:
        case NotObserved(observed, generation):
            if not observed:
                return "no operator has seen this set"
            return f"the operator has seen generation {observed}, the set is at {generation}"
        case ServiceTaken():
            return (
                "exists and does not belong to this set, which needs one of its own by that name: pods have no "
                "addresses"
            )
        case RevisionMissing(revision):
            return f"its workers cannot be created, because its revision {revision} was deleted"
        case HeldByPartition(partition, paused):
            if paused:
                return "held at the old revision by the pause"
            return f"partition {partition} holds groups below it at their old revision"
        case BudgetNameTaken():
            return (
                "exists and does not belong to this set, which keeps one of that name for its disruptionBudget: "
                "autoscalers and deschedulers do not see that budget"
            )
        case SeveralBudgets(names):
            listed = " and ".join(filter(None, names))
            return f"PodDisruptionBudgets {listed} select it, and Kubernetes evicts no pod that more than one selects"
        case LeaderMissing():
            return "has no leader pod yet"
        case PodsMissing(count, size, leader_not_ready):
            return f"has {counted_of(count, size, 'pod')}" + (
                ": its leader is not ready yet" if leader_not_ready else ""
            )
        case NotUpdatedYet(resizing):
            return "does not have the new resources yet" if resizing else "not yet at the new revision"
        case ReplicasMissing(missing, wanted):
            return (
                f"{counted_of(missing, wanted, 'pod')} {agreeing(missing, 'does', 'do')} not exist yet"
                if missing
                else "not yet up to date"
            )
        case HeldWorkload(partition):
            return f"held at the old revision by {'spec.paused' if partition is None else f'partition {partition}'}"
    return ""


def _problem_of_release(problem: Problem) -> str:
    match problem:
        case RolloutPaused():
            return "the rollout is paused"
        case StepWaitsForApproval(step):
            return f"step {step} waits for approval"
        case StoppedByAnalysis(message):
            return message
        case ReleaseOutdated():
            return "the template has changed since; what was released before is removed first"
        case PromotionWithoutRoom(message, groups):
            which = f"{listed_groups(groups)} {agreeing(len(groups), 'finds', 'find')} no node"
            return f"{message}; {which}, and the canary keeps its groups until the promotion is done"
        case ReleaseUnderWay(moment, begun, step, state, message):
            if not begun:
                return "the release is about to begin"
            if moment is ReleaseStage.TIMED_PAUSE:
                return f"step {step} pauses, then goes on by itself"
            return message or f"step {step} is {state}"
        case ReferencesUnusable(message):
            return message
        case StepMovesRequests(step, grace):
            return f"step {step} moves its requests; routes get {grace} s to arrive everywhere"
        case RouteNotServed(message):
            return f"no gateway serves it: {message}"
    return ""


# Causes: what to do

GO_ON, GO_ON_AT_ONCE, OR_GO_BACK, OR_BEGIN_AGAIN = "go on", "go on at once", "or go back", "or begin the step again"
SEE_WHAT_WAS_COMPARED, GO_ON_ALL_THE_SAME = "see what was compared", "or go on in spite of it"
"""What commands do that are offered beside the advice."""
_CORRECT_START: Final = "correct the command, the working directory or the mounts of this container in the template"
_CORRECT_HOOK: Final = "correct the lifecycle hook of this container in the template"
CREATION_PROBLEMS: Final[Mapping[str, str]] = {
    container_reasons.CREATE_CONTAINER_CONFIG_ERROR: (
        "create the ConfigMap or Secret that is missing, or correct the template"
    ),
    container_reasons.CREATE_CONTAINER_ERROR: _CORRECT_START,
    container_reasons.RUN_CONTAINER_ERROR: _CORRECT_START,
    "PreStartHookError": _CORRECT_HOOK,
    "PostStartHookError": _CORRECT_HOOK,
}
"""Reasons of containers that wait, and what to do."""
WAITING_PROBLEMS: Final[Mapping[str, str]] = {
    WaitingReason.NAME_TAKEN: "rename or delete the object that has the name, or use another name for the set",
    WaitingReason.WEBHOOK_MISSED: (
        "see that the operator's webhook answers: kubectl get mutatingwebhookconfiguration "
        "lws-mutating-webhook-configuration; it comes with kohort install, and with every start of kohort up"
    ),
    WaitingReason.ENGINE_RECOVERING: "wait; the annotation kohort.dev/engine-recovery-seconds of the set says how long",
}
"""Reasons of the condition Waiting, which the operator sets, and what to do."""


def cause_of(kind: CauseKind, problem: Problem, *objects: str) -> Cause:
    return Cause(kind, objects, problem_text(problem), problem_advice(problem))


def problem_advice(problem: Problem) -> Advice:
    """What to do about it; commands that the state of the workload must permit are offered beside it."""
    match problem:
        case ContainerCrashes(logs=logs) | ContainerEnded(logs=logs):
            return Advice("{}", (logs,))
        case NotReady(logs=logs):
            return Advice("read its logs: {}", (logs,))
        case _:
            return Advice(_pod_advice(problem) or _set_advice(problem) or _release_advice(problem))


def _pod_advice(problem: Problem) -> str:
    match problem:
        case RejectedByNode():
            return (
                "free what others hold there, or ask for less; if it repeats, what the node reports and what it has "
                "differ: kubectl describe node, and its device plugins"
            )
        case NodeSilent(node, _, _, None, of_group):
            by_itself = "; a set does so by itself with restartBudget.forceDeleteOnNodeLoss" if of_group else ""
            return (
                f"bring node {node} back: kubectl describe node {node}. If it is off for good: "
                f"kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute{by_itself}"
            )
        case NodeSilent(node, since, _, seconds):
            return (
                f"bring node {node} back; the group is recreated elsewhere {seconds} s after {since} "
                "(restartBudget.nodeLossSeconds)"
            )
        case Terminating():
            return "wait until it has ended"
        case ClaimNotBound():
            return _claim_advice(problem)
        case MountFails():
            return "see that the volume exists and can be attached to the pod's node"
        case HeldAfterFailures():
            return "fix the template, or the node that refuses its pods; kohort retries automatically"
        case HeldByGates():
            return "let the controller that set the gate lift it, or take the gate out of the template"
        case FitsNoNode():
            return _placement_advice(problem)
        case NotScheduledYet():
            return "wait; if it stays so, see that this scheduler runs"
        case WaitsForLeader():
            return "nothing to do: it starts when the leader is ready"
        case NodeHasNotBegun(node):
            return f"wait; if it stays so, see that the node exists and is ready: kubectl get node {node}"
        case IsStarting():
            return "wait: it is starting"
        case ImageNotThere():
            return "correct the image in the template, or its imagePullSecrets"
        case ContainerNotCreated(reason=reason):
            return CREATION_PROBLEMS[reason]
        case ContainerCannotStart():
            return _CORRECT_START
        case ContainerWaits(pod=pod, namespace=namespace) | PodFailed(pod=pod, namespace=namespace):
            return f"kubectl -n {namespace} describe pod {pod}"
    return ""


def _claim_advice(problem: ClaimNotBound) -> str:
    match problem.state:
        case ClaimState.MISSING:
            return f"create PersistentVolumeClaim {problem.claim}"
        case ClaimState.LOST:
            return "restore the volume, or delete claim and pod"
        case ClaimState.NOT_PROVISIONED:
            return "fix the storage class"
        case ClaimState.WITHOUT_CLASS:
            return "name one in the claim template, or mark one as the cluster's default"


def _placement_advice(problem: FitsNoNode) -> str:
    label = problem.label
    match problem.advice:
        case PlacementAdvice.MORE_ROOM:
            return "add nodes, free what others hold, or ask for less in the template"
        case PlacementAdvice.EXCLUSIVE_SUBGROUP | PlacementAdvice.EXCLUSIVE_GROUP:
            who = "group" if problem.advice is PlacementAdvice.EXCLUSIVE_GROUP else "subgroup"
            seen = f"see which nodes have it (kubectl get nodes -L {label})"
            needs = f"every {who} needs a value of node label {label} for itself"
            if problem.other_sets:
                domains, sets = ", ".join(problem.taken_domains), ", ".join(problem.other_sets)
                are = agreeing(len(problem.taken_domains), "is", "are")
                return f"{needs}, and {domains} {are} taken by pods of {sets}: move those, or add other values ({seen})"
            return f"{needs}: {seen}, add some, or want fewer groups"
        case PlacementAdvice.UNIQUE_NODES:
            return f"each group needs nodes labelled {label}=<leader's name>: kubectl label nodes ... {label}=..."
        case PlacementAdvice.NODE_LABELS:
            look = f" (kubectl get nodes -l {problem.selector})" if problem.selector else ""
            return f"see that nodes have the labels that the template's selector and affinity ask for{look}"
        case PlacementAdvice.TAINTS:
            return "tolerate the taint in the template, or remove it from the nodes"
        case PlacementAdvice.NODE_OF_VOLUME:
            look = f"kubectl -n {problem.namespace} get pvc {' '.join(problem.claims)}"
            claims = f" ({look})" if problem.claims else ""
            back = "bring these back (kubectl get nodes: NotReady, or SchedulingDisabled, which kubectl uncordon ends)"
            begin = "delete claim and pod to begin with an empty volume elsewhere"
            return f"only some nodes reach its volume{claims}: {back}, or {begin}"
        case PlacementAdvice.CORDONED:
            return "let a node take pods again: kubectl get nodes shows SchedulingDisabled, kubectl uncordon ends it"
        case PlacementAdvice.UNKNOWN:
            return "kubectl describe the pod for the whole message of the scheduler"


def _set_advice(problem: Problem) -> str:
    match problem:
        case NotObserved():
            return (
                "wait a second and ask again; if it stays so, see that the operator runs (kohort up, or kohort "
                "operator) and looks after this namespace (--namespaces)"
            )
        case ServiceTaken(service, namespace):
            action = f"delete it (kubectl -n {namespace} delete service {service}) or rename the set"
            return f"{action}; the set's own is made within a minute"
        case ReportedWaiting(reason):
            return WAITING_PROBLEMS[reason]
        case RevisionMissing(partition=partition):
            return (
                "apply the former template again, which brings the revision back; or lower the partition to 0 (or let "
                "the release end), and the group is made anew with the newest template"
                if partition
                else "wait: the group is made anew with the newest template, before the others"
            )
        case WriteRefused(over_quota=over_quota):
            action = "make room in the quota or ask for less" if over_quota else "fix the error above"
            return f"{action}; kohort retries automatically"
        case HeldByPartition(may_resume=may_resume):
            return "" if may_resume else "lower the partition in spec.rolloutStrategy"
        case BudgetNameTaken(name):
            return f"give it another name, or delete it: the operator then creates its own PodDisruptionBudget {name}"
        case SeveralBudgets():
            return "let the other one select pods of other workloads only, or drains of their nodes do not end"
        case LeaderMissing():
            return "wait; if it stays so, see that the StatefulSet controller runs"
        case PodsMissing():
            return "wait; workers are made after their leader"
        case NotUpdatedYet(resizing):
            return f"wait: groups are {'resized in place' if resizing else 'rolled'} step by step"
        case ReplicasMissing(workload=workload):
            return f"wait; if it stays so: kubectl describe {workload}"
    return ""


def _release_advice(problem: Problem) -> str:
    match problem:
        case ReleaseOutdated():
            return "wait"
        case ReleaseUnderWay(moment):
            return "wait: the new version is promoted" if moment is ReleaseStage.PROMOTING else "wait"
        case PromotionWithoutRoom(canary_stands_in=True):
            return "wait: the set soon goes on without a surge, groups of the canary stand in for it"
        case PromotionWithoutRoom(namespace=namespace, name=name, all_stay=all_stay):
            rolling = {"maxSurge": 0, "maxUnavailable": 1} if all_stay else {"maxSurge": 0}
            patch = msgspec.json.encode({"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": rolling}}}).decode()
            edit = f"kubectl -n {namespace} patch leaderworkerset {name} --type merge -p '{patch}'"
            return f"free or add nodes, or let the set roll without a surge: {edit}"
        case ReferencesUnusable(absent=True, rollout=rollout, may_change=may_change):
            return "create it" + (f", or name another in trafficRoutings of Rollout {rollout}" if may_change else "")
        case ReferencesUnusable(services=services):
            return _routes_to_look_at(services)
        case StepMovesRequests(services=services):
            return f"wait; if it stays so, {_routes_to_look_at(services)}"
        case RouteNotServed():
            return "fix what its status says (kubectl describe httproute), or no request reaches the new version"
    return ""


def _routes_to_look_at(services: Sequence[str]) -> str:
    return (
        f"see that the routes exist, and that Service {', '.join(services)} has a ready pod (kubectl describe service)"
    )


def pod_resize_advice(problem: ResizePending | ResizeFails, pod: str, context: PodContext, group: str) -> Advice:
    """About a pod that was resized by itself, not with its group."""
    if isinstance(problem, ResizePending) and problem.reason != INFEASIBLE:
        return Advice("wait until others on the node give back room, or move them")
    reason = "this node can never hold it: " if isinstance(problem, ResizePending) else ""
    if context.group_set is None:
        look = f"kubectl -n {context.namespace} delete pod {pod}"
        return Advice(f"{reason}ask for less (kubectl patch pod --subresource resize), or recreate it ({look})")
    asking = f"kohort resize {context.reference} -n {context.namespace} ..."
    recreate = context.command(Verb.RESTART, "--group", group)
    return Advice(f"{reason}ask for less ({asking}), or recreate it ({{}})", (recreate,))


def restart_words(pod: str, container: str, times: int, seconds_ago: int, exit: ContainerExit, logs: Command) -> str:
    """A container that runs again."""
    text = f"{pod}: container {container} has restarted {how_often(times)}, last {seconds_ago} s ago"
    return f"{text} after code {exit.code}{_exit_words(exit)} → {logs.text}"
