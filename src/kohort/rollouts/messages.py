"""The words of releases: reasons and texts of events, and the messages that Rollouts and BatchReleases carry.

Decisions name what happened by a function of this module; the wording is in no other place. Kruise Rollouts users know
several of these messages, so their wording does not change.
"""

from collections.abc import Collection, Sequence
from enum import Enum, StrEnum
from typing import Final

import msgspec

from kohort.objects.counted_nouns import counted
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.promotion_pace import GRACE_SECONDS, PaceReason
from kohort.rollouts.reference_problems import (
    HeadlessService,
    KindNotServed,
    NoBackend,
    NoSelector,
    ObjectMissing,
    OwnedByGroupSet,
    Reference,
    ReferenceProblem,
    RefField,
    ScriptMissing,
    SelectsNoPod,
    ServiceNotNamed,
)
from kohort.rules import rollout_labels


class EventReason(StrEnum):
    """Why an event is emitted on a Rollout, a BatchRelease or a TrafficRouting."""

    ANALYSIS_FAILED = "AnalysisFailed"
    ANALYSIS_HELD = "AnalysisHeld"
    ANALYSIS_OVERRIDDEN = "AnalysisOverridden"
    ANALYSIS_PASSED = "AnalysisPassed"
    APPROVAL_IGNORED = "ApprovalIgnored"
    CAPACITY_MISSING = "CapacityMissing"
    CANARY_CREATED = "CanaryCreated"
    CANARY_DELETED = "CanaryDeleted"
    CANARY_SCALED = "CanaryScaled"
    CANARY_UNAVAILABLE = "CanaryUnavailable"
    DRAIN_TIMED_OUT = "DrainTimedOut"
    EDIT_LOST = "EditLost"
    FINALISING_FAILED = "FinalisingFailed"
    GROUPS_DRAINING = "GroupsDraining"
    HOLD_LOST = "HoldLost"
    INITIALIZE_FAILED = "InitializeFailed"
    JUMP_REFUSED = "JumpRefused"
    LEADER_PORT_MISSING = "LeaderPortMissing"
    MATCH_NOT_EXPRESSIBLE = "MatchNotExpressible"
    NOT_SUPPORTED = "NotSupported"
    PODS_DRAINING = "PodsDraining"
    PROGRESSING = "Progressing"
    PROMOTED_WITHOUT_SURGE = "PromotedWithoutSurge"
    PROMOTION_STALLED = "PromotionStalled"
    RELEASE_NOT_CONTROLLED = "ReleaseNotControlled"
    ROLLBACK_IN_BATCH_IGNORED = "RollbackInBatchIgnored"
    ROLLED_BACK = "RolledBack"
    RESIZED_IN_PLACE = "ResizedInPlace"
    ROUTE_FAILED = "RouteFailed"
    ROUTES_CHANGED = "RoutesChanged"
    SERVICE_MISSES_NEW_PODS = "ServiceMissesNewPods"
    SERVICE_SELECTS_WORKERS = "ServiceSelectsWorkers"
    STABLE_PROMOTED = "StablePromoted"
    STEP_PAUSED_FOR_APPROVAL = "StepPausedForApproval"
    STEP_STARTED = "StepStarted"
    STEP_TIMEOUT = "StepTimeout"
    STEP_WAITING = "StepWaiting"
    SUPERSEDED = "Superseded"
    TAKEN_UP = "TakenUp"
    TRAFFIC_CHANGED = "TrafficChanged"
    TRAFFIC_ROUTING_FAILED = "TrafficRoutingFailed"
    TRAFFIC_SHIFTED = "TrafficShifted"
    UNRESOLVED_REFS = "UnresolvedRefs"
    UNSUPPORTED_WORKLOAD = "UnsupportedWorkload"
    WITHDRAWN = "Withdrawn"
    WORKLOAD_GONE = "WorkloadGone"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"


_NORMAL: Final = frozenset(
    {
        EventReason.ANALYSIS_PASSED,
        EventReason.CANARY_CREATED,
        EventReason.CANARY_DELETED,
        EventReason.CANARY_SCALED,
        EventReason.GROUPS_DRAINING,
        EventReason.PODS_DRAINING,
        EventReason.PROGRESSING,
        EventReason.PROMOTED_WITHOUT_SURGE,
        EventReason.RESIZED_IN_PLACE,
        EventReason.ROLLBACK_IN_BATCH_IGNORED,
        EventReason.ROLLED_BACK,
        EventReason.STABLE_PROMOTED,
        EventReason.STEP_PAUSED_FOR_APPROVAL,
        EventReason.STEP_STARTED,
        EventReason.STEP_WAITING,
        EventReason.SUPERSEDED,
        EventReason.TAKEN_UP,
        EventReason.TRAFFIC_CHANGED,
        EventReason.TRAFFIC_SHIFTED,
        EventReason.WORKLOAD_GONE,
    }
)


class ReleaseEvent(msgspec.Struct, frozen=True):
    """Something that was done or seen, to be emitted as an event on the object that is released."""

    reason: EventReason
    message: str

    @property
    def warning(self) -> bool:
        return self.reason not in _NORMAL


class ReleaseOutcome(StrEnum):
    """How a release ended; a label value of `rollout_outcomes_total`."""

    SUCCEEDED = "succeeded"
    ROLLED_BACK = "rolled_back"
    SUPERSEDED = "superseded"
    DISABLED = "disabled"
    DELETED = "deleted"


# Messages of a Rollout outside of releases

WORKLOAD_NOT_FOUND: Final = "Workload Not Found"
WEBHOOK_LABEL_MISSING: Final = "waiting for the label that makes the webhook see changes of the workload"
HEALTHY: Final = "rollout is healthy"
DISABLED: Final = "Rollout is disabled"
DISABLING: Final = "Disabling rollout, release resources"
DISABLED_BEFORE_COMPLETION: Final = "Rollout was disabled before the release was completed"
TERMINATING: Final = "Rollout is in terminating"
TERMINATED: Final = "Rollout has been terminated"
NO_STEPS: Final = "spec.strategy has no steps"
NOTHING_RELEASED_YET: Final = "workload deployment is completed"
REFERENCES_RESOLVED: Final = "Services and routes exist and lead to the workload"

# Messages of a Rollout during a release

IN_PROGRESS: Final = "Rollout is in Progressing"
PAUSED_BY_USER: Final = "Rollout has been paused, you can resume it by kube-cli"
FINALISING: Final = "Rollout has been completed and some closing work is being done"
COMPLETED: Final = "Rollout progressing has been completed"
CANCELLING: Final = "The workload has been rolled back and the rollout process will be canceled"
CANCELED: Final = "Rollout progressing has been canceled"
NEW_VERSION_DURING_BLUE_GREEN: Final = (
    "new version releasing detected in the progress of blue-green release, please rollback first"
)
REMOVING_SUPERSEDED_VERSION: Final = (
    "Workload is continuous release: traffic goes back, then the version in between is removed"
)
RESTARTED_WITH_NEWEST_VERSION: Final = "Workload is continuous release"
WAITING_FOR_CANARY_PODS_TO_GO: Final = "waiting for the pods of the canary to go"
WAITING_FOR_WORKLOAD_TO_RESUME: Final = "waiting for the workload to resume"
BATCH_RELEASE_GONE: Final = "the BatchRelease is gone"


class Withdrawal(Enum):
    """What becomes of the replicas of a version that is withdrawn."""

    CANARY_SCALED_DOWN = "requests go to the stable version, the canary is scaled to 0"
    RESOURCES_RESTORED = "groups get their former resources back"
    PODS_GO_BACK = "pods of the new version are replaced by pods of the old one"
    NO_OLD_POD_LEFT = "every pod has the new version, and keeps it until the old template is back"
    PODS_STAY = "requests go to the stable version, pods of the new version stay"
    PODS_STAY_IN_USE = "pods of the new version stay, and requests reach them until the old template is back"


def withdrawn(how: Withdrawal) -> str:
    return (
        f"withdrawn: {how.value}; put the old template back, release another one, or raise the annotation "
        f"{rollout_labels.STEP_TIMEOUT}"
    )


_AFTER_FAILED_ANALYSIS: Final = (
    "put the old template back, release another one, begin the step again (kohort retry), or go on in spite of it "
    "(kohort approve --override)"
)


def step(index: int, count: int) -> str:
    """
    >>> step(1, 3)
    'step(1/3)'
    """
    return f"step({index}/{count})"


def in_step(index: int, count: int) -> str:
    return f"Rollout is in {step(index, count)}"


def upgrading(index: int, count: int, waiting_for: str, forecast: str = "") -> str:
    text = f"{in_step(index, count)}, and upgrade workload to new version"
    text = f"{text}: {waiting_for}" if waiting_for else text
    return f"{text}; {forecast}" if forecast else text


def routing(index: int, count: int, waiting_for: str) -> str:
    return f"{in_step(index, count)}, and route traffic: {waiting_for}"


def needs_approval(index: int, count: int) -> str:
    return f"{in_step(index, count)}, and you need manually confirm to enter the next step"


def pausing(index: int, count: int, seconds: int) -> str:
    return f"{in_step(index, count)}, and wait duration({seconds} seconds) to enter the next step"


def analysing(index: int, count: int, text: str) -> str:
    return f"{in_step(index, count)}, and its metrics are judged: {text}"


def analysis_held(index: int, count: int, text: str) -> str:
    return f"{step(index, count)} is held by its analysis: {text}"


def analysis_failed(index: int, count: int, text: str, how: Withdrawal) -> str:
    return f"{step(index, count)} failed its analysis: {text}; {failed_and_withdrawn(how)}"


def failed_and_withdrawn(how: Withdrawal) -> str:
    return f"{how.value}; {_AFTER_FAILED_ANALYSIS}"


def analysis_holds_beginning(text: str) -> str:
    return f"the release does not begin: {text}"


def too_little_capacity(found: ReleaseForecast) -> str:
    return (
        f"the release does not begin: {capacity(found)}; "
        f"free or add nodes, or remove the annotation {rollout_labels.REQUIRE_CAPACITY}"
    )


def capacity(found: ReleaseForecast) -> str:
    """Whether the nodes have room; empty if they were not looked at."""
    if found.fitting is None:
        return ""
    if found.has_room:
        return f"nodes have room for the {counted(found.extra_replicas, found.unit)} of the new version"
    wanted = f"{found.extra_replicas} {found.unit}s" if found.extra_replicas != 1 else f"one {found.unit}"
    lacking = " or ".join(found.lacking)
    why = f"no node has enough {lacking}" if lacking else f"no node takes their pods ({found.reason})"
    last = found.step_without_room > len(found.replicas)
    where = "the end of the release does" if last else f"step {found.step_without_room} does"
    return f"nodes have room for {found.fitting} of the {wanted} of the new version: {why}, {where} not fit"


def duration(found: ReleaseForecast) -> str:
    """How long the release takes; empty if no replica has shown how long it starts."""
    if found.duration_seconds is None or found.start_seconds is None:
        return ""
    each = f"a {found.unit} starts in {time_span(found.start_seconds)}"
    besides = [counted(found.approvals, "approval")] if found.approvals else []
    besides += ["its analyses"] if found.judged else []
    more = f", besides {' and '.join(besides)}" if besides else ""
    return f"the release takes about {time_span(found.duration_seconds)}{more} ({each})"


def release_forecast(found: ReleaseForecast) -> str:
    return "; ".join(filter(None, (capacity(found), duration(found)))) or "no pod shows how long a start takes"


def forecast_unknown(problem: str) -> str:
    return f"whether the pods of the release fit could not be read: {problem}"


def time_span(seconds: int) -> str:
    """
    >>> [time_span(one) for one in (1, 90, 125, 3599, 5400, 360000)]
    ['1 s', '90 s', '2 min', '60 min', '90 min', '100 h']
    """
    if seconds < 120:
        return f"{seconds} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"


def capacity_unknown(problem: str) -> str:
    return (
        f"the release does not begin: whether its pods fit could not be read: {problem}; repair that, or remove the "
        f"annotation {rollout_labels.REQUIRE_CAPACITY}"
    )


def analysis_missing(name: str) -> str:
    return (
        f"ReleaseAnalysis {name} does not exist; create it, or remove the annotation {rollout_labels.ANALYSIS_NAME} "
        "from the Rollout"
    )


def analysis_invalid(name: str, text: str) -> str:
    return f"ReleaseAnalysis {name} cannot be used: {text}"


def not_ready_in_time(index: int, count: int, seconds: int, waiting_for: str) -> str:
    return f"{step(index, count)} not ready after {seconds}s: {waiting_for or 'no batch yet'}"


def batch_progress(batch_state: str, rollout_id: str, batch: int, release_message: str, workload_remark: str) -> str:
    """The message of canaryStatus and blueGreenStatus."""
    text = f"BatchRelease is at state {batch_state}, rollout-id {rollout_id}, step {batch}"
    return ", ".join(filter(None, (text, release_message, workload_remark)))


def growing_to_full_size(waiting_for: str) -> str:
    return f"new version grows to full size: {waiting_for}"


def traffic_routing_missing(name: str) -> str:
    return f"TrafficRouting {name} does not exist: create it, or drop trafficRoutingRef"


def same_revision_keys(key: str) -> str:
    return (
        f"the stable and the new version have the same revision key {key}, so that Services cannot tell their pods "
        "apart; no request is moved: put the old template back, or change the new one, for example by an annotation"
    )


def reference(found: Reference) -> str:
    return f"{found.kind} {found.namespace}/{found.name} ({found.list}[0].{found.field})"


def unusable_reference(problem: ReferenceProblem) -> str:
    """Names the object, the field of the Rollout or TrafficRouting, and what to do."""
    if isinstance(problem, ServiceNotNamed):
        return f"{problem.list}[0].{RefField.SERVICE} is empty; name the Service that clients of the workload use"
    where = reference(problem.reference)
    match problem:
        case ObjectMissing():
            return f"{where} does not exist; create it or name another"
        case KindNotServed(api_version=version):
            kind = problem.reference.kind
            return (
                f"{where}: the cluster serves no kind {kind} in {version}; install its definition or correct "
                "apiVersion and kind"
            )
        case ScriptMissing(place=place, key=key):
            return f"{where}: there is no script for this kind; put one into the {place} under the key {key}"
        case HeadlessService():
            return f"{where} is headless, its clients choose pods by themselves; name a Service with an address"
        case NoSelector():
            return f"{where} has no spec.selector, so versions cannot be told apart; give it one"
        case OwnedByGroupSet(group_set=owner):
            return f"{where} belongs to LeaderWorkerSet {owner}; create one of your own"
        case NoBackend(service=service):
            in_route = problem.reference.field is RefField.HTTP_ROUTE
            rule = "rule with backendRef" if in_route else "path with backend service"
            return (
                f"{where} has no {rule} {service}, so there is nothing to divide; add one to spec.rules or correct "
                f"{problem.reference.list}[0].{RefField.SERVICE}"
            )
        case SelectsNoPod(workload=workload, wanted=wanted, found=found):
            return (
                f"{where} selects no pod of {workload}: spec.selector asks for {wanted}, the pods that serve have "
                f"{found}; correct the selector, or the labels of the template"
            )


# Messages of a BatchRelease

OTHER_TEMPLATE: Final = "the workload has another template than the one that is released here"


# Events of a Rollout


def progressing(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.PROGRESSING, text)


ROLLBACK_STARTED: Final = progressing("workload has been rollback, then rollout is canceled")
NEWER_VERSION: Final = progressing("workload continuous publishing canaryRevision, then restart publishing")
ROLLBACK_IN_BATCH_IGNORED: Final = ReleaseEvent(
    EventReason.ROLLBACK_IN_BATCH_IGNORED,
    "the stable workload was never touched: there is nothing to roll back in batches",
)
SUPERSEDED: Final = ReleaseEvent(
    EventReason.SUPERSEDED, "the version in between is gone, the newest one is released from step 1"
)
STABLE_PROMOTED: Final = ReleaseEvent(
    EventReason.STABLE_PROMOTED, "the new version is released, routes and Services are as before"
)
ROLLED_BACK: Final = ReleaseEvent(EventReason.ROLLED_BACK, "the stable version serves alone again")
WORKLOAD_GONE: Final = ReleaseEvent(
    EventReason.WORKLOAD_GONE, "the workload was deleted while it was released; what the release had made is gone too"
)
HELD_WORKLOAD_ADOPTED: Final = ReleaseEvent(
    EventReason.TAKEN_UP, "the workload was left held by a release that was given up; it is released anew"
)
RELEASE_NOT_CONTROLLED: Final = ReleaseEvent(
    EventReason.RELEASE_NOT_CONTROLLED,
    "the workload was changed without being held (it had no replicas, several versions at once, "
    "or the webhook was not asked): this version is rolled out natively, without steps",
)


def not_ready_in_time_event(how: Withdrawal) -> ReleaseEvent:
    text = f"the new version was not ready in time, {withdrawn(how)}"
    return ReleaseEvent(EventReason.WITHDRAWN, text)


def workload_not_found(kind: str, namespace: str, name: str, api_version: str) -> ReleaseEvent:
    where = f"spec.workloadRef: {kind} {namespace}/{name} ({api_version})"
    text = f"{where} does not exist; create it or correct the reference"
    return ReleaseEvent(EventReason.WORKLOAD_NOT_FOUND, text)


def not_supported(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.NOT_SUPPORTED, text)


def unresolved_references(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.UNRESOLVED_REFS, text)


def initialize_failed(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.INITIALIZE_FAILED, text)


def finalising_failed(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.FINALISING_FAILED, text)


def route_failed(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.ROUTE_FAILED, text)


def traffic_routing_failed(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.TRAFFIC_ROUTING_FAILED, text)


def step_started(index: int, count: int) -> ReleaseEvent:
    return ReleaseEvent(EventReason.STEP_STARTED, step(index, count))


def jumped(index: int, count: int) -> ReleaseEvent:
    return ReleaseEvent(EventReason.STEP_STARTED, f"jumped to {step(index, count)}")


def jump_refused(wanted: int, count: int) -> ReleaseEvent:
    return ReleaseEvent(EventReason.JUMP_REFUSED, f"nextStepIndex {wanted} is not a step: there are 1 to {count}")


def jump_before_verdict(wanted: int, index: int, count: int) -> ReleaseEvent:
    text = f"its analysis has not passed, so the release does not go to step {wanted}; to go on in spite of it: "
    return ReleaseEvent(EventReason.JUMP_REFUSED, f"{step(index, count)}: {text}kohort approve --override")


def plan_changed(index: int, count: int) -> ReleaseEvent:
    return progressing(f"the plan has changed, going on at {step(index, count)}")


def step_upgraded(index: int) -> ReleaseEvent:
    return progressing(f"upgrade step({index}) canary pods with new versions done")


def step_waiting(index: int, count: int, waiting_for: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.STEP_WAITING, f"{step(index, count)}: {waiting_for}")


def analysis_event(reason: EventReason, index: int, count: int, text: str) -> ReleaseEvent:
    return ReleaseEvent(reason, f"{step(index, count)}: {text}")


def capacity_missing(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.CAPACITY_MISSING, text)


def approval_ignored(index: int, count: int) -> ReleaseEvent:
    text = "its analysis has not passed, so the approval does not count; to go on in spite of it: "
    return ReleaseEvent(EventReason.APPROVAL_IGNORED, f"{step(index, count)}: {text}kohort approve --override")


def step_timeout(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.STEP_TIMEOUT, text)


def step_needs_approval(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.STEP_PAUSED_FOR_APPROVAL, text)


def routes_changed(index: int, count: int, drift: str) -> ReleaseEvent:
    text = f"{step(index, count)}: the traffic is not carried as it should be, it is routed again: {drift}"
    return ReleaseEvent(EventReason.ROUTES_CHANGED, text)


def traffic_shifted(index: int, share: str, service: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.TRAFFIC_SHIFTED, f"step({index}): routed {share} to {service}-canary")


def promotion_stalled(waiting_for: str) -> ReleaseEvent:
    return ReleaseEvent(
        EventReason.PROMOTION_STALLED, f"the stable workload is not at the new version yet: {waiting_for}"
    )


# Events of workloads


def canary_created(name: str, unit: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.CANARY_CREATED, f"created {name}, 0 {unit}")


def canary_scaled(name: str, before: int, after: int, noun: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.CANARY_SCALED, f"{name}: {before} to {counted(after, noun)}")


def canary_deleted(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.CANARY_DELETED, text)


def drain_timed_out(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.DRAIN_TIMED_OUT, text)


def draining_groups(leaders: Sequence[str], text: str) -> str:
    return f"scale down: {counted(len(leaders), 'group')} ({', '.join(sorted(leaders)[:3])}): {text}"


def draining_pods(names: Collection[str], waiting_for: str = "") -> str:
    """
    >>> draining_pods(["web-a"])
    '1 pod (web-a) to be removed after requests in flight'
    >>> draining_pods(["web-a", "web-b"], "web-a, web-b get no more requests of Service web")
    '2 pods (web-a, web-b) to be removed: web-a, web-b get no more requests of Service web'
    """
    shown = ", ".join(sorted(names)[:3]) + (" …" if len(names) > 3 else "")
    text = f"{counted(len(names), 'pod')} ({shown}) to be removed"
    return f"{text}: {waiting_for}" if waiting_for else f"{text} after requests in flight"


def pods_draining(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.PODS_DRAINING, text)


def groups_draining(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.GROUPS_DRAINING, text)


def canary_unavailable(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.CANARY_UNAVAILABLE, text)


def pace_text(reason: PaceReason, ready: int, wanted: int) -> str:
    """Why a stable set is promoted at another pace than its user's, or waits at it; empty where neither is so. `ready`
    groups of the canary, and as many as the set has are wanted."""
    match reason:
        case PaceReason.PACE_OF_USER:
            return ""
        case PaceReason.NODE_AWAITED:
            return f"new groups find no node; after {GRACE_SECONDS:.0f} s the set goes on without its surge"
        case PaceReason.CANARY_NOT_WHOLE:
            found = f"the canary has {ready}/{wanted} groups ready"
            return f"new groups find no node, and {found}: it cannot stand in for the surge"
        case PaceReason.CANARY_STANDS_IN:
            return "without a surge, for which there is no node: groups of the canary stand in for it"
        case PaceReason.CANARY_LOST:
            return "no further group is replaced until the canary has a ready group to stand in for it"


def pace_events(reason: PaceReason, name: str, away: int | None) -> tuple[ReleaseEvent, ...]:
    match reason:
        case PaceReason.CANARY_STANDS_IN:
            pace = f"{counted(away or 0, 'group')} at a time"
            text = f"new groups of {name} find no node: it is promoted without a surge, {pace}; the canary stands in"
            return (ReleaseEvent(EventReason.PROMOTED_WITHOUT_SURGE, text),)
        case PaceReason.CANARY_LOST:
            return (canary_unavailable(f"no group of the canary is ready, so no further group of {name} is replaced"),)
        case _:
            return ()


def resized_in_place(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.RESIZED_IN_PLACE, text)


def hold_lost(name: str) -> ReleaseEvent:
    text = f"the hold of {name} was gone (an update was made past the webhook); it is back"
    return ReleaseEvent(EventReason.HOLD_LOST, text)


def unsupported_workload(api_version: str, kind: str) -> ReleaseEvent:
    text = f"the workload type '{api_version}, Kind={kind}' is not supported"
    return ReleaseEvent(EventReason.UNSUPPORTED_WORKLOAD, text)


# Events of traffic


def traffic_changed(text: str) -> ReleaseEvent:
    return ReleaseEvent(EventReason.TRAFFIC_CHANGED, text)
