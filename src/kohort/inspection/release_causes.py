"""Causes why a release waits, for all kinds of workloads.

| the Rollout | so |
|---|---|
| releases an earlier template of the workload | wait: that is removed first |
| failed the analysis of a step, or is held by it | look at it, begin the step again, override it, or go back |
| has no usable analysis | create or correct it, or go back |
| is paused | resume it |
| has a step that waits for approval | approve it, or go back |
| has a step that waits for its time to pass | wait, approve it, or go back |
| moves requests | wait |
| has the condition ResolvedRefs False | create what is absent, name another where admission takes that, or go back |
| promotes the new version, new groups find no node beside a surge, the canary is whole | wait |
| the same, the canary lacks groups | free or add nodes, or take the surge away |
| is cancelled, or promotes the new version | wait |
| anything else | wait, or go back |
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kohort.inspection.advice import Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.messages import (
    GO_ON,
    GO_ON_ALL_THE_SAME,
    GO_ON_AT_ONCE,
    OR_BEGIN_AGAIN,
    OR_GO_BACK,
    SEE_WHAT_WAS_COMPARED,
    cause_of,
    problem_advice,
    problem_text,
)
from kohort.inspection.problems import (
    Problem,
    PromotionWithoutRoom,
    ReferencesUnusable,
    ReleaseOutdated,
    ReleaseStage,
    ReleaseUnderWay,
    RolloutPaused,
    RouteNotServed,
    StepMovesRequests,
    StepWaitsForApproval,
    StoppedByAnalysis,
)
from kohort.inspection.release import (
    is_at_pause,
    is_outdated,
    is_rolling,
    is_withdrawn,
    overridable_analysis,
    stopping_analysis,
)
from kohort.inspection.release_subject import Subject, command
from kohort.inspection.snapshot import Snapshot
from kohort.objects.meta import Condition
from kohort.rollouts.action_result import ProblemReason
from kohort.rollouts.promotion_pace import groups_without_node
from kohort.rollouts.rollout_types import Rollout, RolloutStatus, Strategy
from kohort.rollouts.traffic.model import routing_grace
from kohort.rollouts.validation import update_errors
from kohort.rollouts.workloads.group_readiness import groups_of, ready_groups
from kohort.rules.rollout_labels import (
    FINALISING,
    RESOLVED_REFS,
    ROUTING,
)


def release_causes(subject: Subject) -> list[Cause]:
    return [*_unserved(subject), *_steps(subject)]


def _steps(subject: Subject) -> Iterator[Cause]:
    rollout = subject.rollout
    if rollout is None or not subject.releasing:
        return
    kind, problem, verbs = _problem(subject, rollout)
    offers = [(_LABELS[verb], command(subject, verb)) for verb in verbs]
    if isinstance(problem, StepWaitsForApproval):
        offers[0] = (GO_ON, offers[0][1])
    advice = offered(subject, problem_advice(problem).template, offers)
    yield Cause(kind, (f"Rollout {rollout.metadata.name}",), problem_text(problem), advice)


_LABELS: Final = {
    Verb.RESUME: GO_ON,
    Verb.APPROVE: GO_ON_AT_ONCE,
    Verb.ABORT: OR_GO_BACK,
    Verb.ANALYSIS: SEE_WHAT_WAS_COMPARED,
    Verb.OVERRIDE: GO_ON_ALL_THE_SAME,
    Verb.RETRY: OR_BEGIN_AGAIN,
}


def _problem(subject: Subject, rollout: Rollout) -> tuple[CauseKind, Problem, tuple[Verb, ...]]:
    """What the release waits for, and the commands that end the waiting."""
    status, step = rollout.status, rollout.status.current_step_index
    if is_outdated(subject):
        return CauseKind.ROLLOUT, ReleaseOutdated(), ()
    if (judged := stopping_analysis(rollout)) is not None:
        return CauseKind.ANALYSIS, StoppedByAnalysis(judged.message), _after_analysis(rollout)
    if rollout.spec.strategy.paused and is_rolling(rollout):  # a pause does not stop the way back
        return CauseKind.ROLLOUT, RolloutPaused(), (Verb.RESUME, Verb.ABORT)
    if is_at_pause(subject) and _waits_for_approval(rollout):
        return CauseKind.ROLLOUT, StepWaitsForApproval(step), (Verb.APPROVE, Verb.ABORT)
    if status.reason == FINALISING:  # admission takes no template but the stable one now, and soon none
        promoting = _under_way(status, ReleaseStage.PROMOTING)
        lacking = _promotion_without_room(subject, status.message) if isinstance(subject, Snapshot) else None
        return CauseKind.ROLLOUT, lacking or promoting, ()
    services = tuple(f"{one.service}-canary" for one in rollout.strategy.traffic_routings)
    if (unusable := unusable_references(status)) is not None:
        message = unusable.message or problem_text(_under_way(status, ReleaseStage.STEP))
        absent = unusable.reason == ProblemReason.REF_NOT_FOUND
        may_change = absent and routes_may_change(rollout)
        references = ReferencesUnusable(message, absent, rollout.metadata.name, may_change, services)
        return CauseKind.TRAFFIC, references, (Verb.ABORT,)
    if not is_rolling(rollout):
        return CauseKind.ROLLOUT, _under_way(status, ReleaseStage.CANCELLING), (Verb.ABORT,)
    if status.current_step_state == ROUTING:
        grace = routing_grace(rollout.strategy.traffic_routings)
        return CauseKind.WAITING, StepMovesRequests(step, grace, services), ()
    if is_at_pause(subject):
        return CauseKind.ROLLOUT, _under_way(status, ReleaseStage.TIMED_PAUSE), (Verb.APPROVE, Verb.ABORT)
    return CauseKind.ROLLOUT, _under_way(status, ReleaseStage.STEP), (Verb.ABORT,)


def _promotion_without_room(snapshot: Snapshot, message: str) -> PromotionWithoutRoom | None:
    """New groups of the stable set find no node, although the steps of the release did."""
    groups = groups_of(snapshot.pods)
    waiting = groups_without_node(groups, snapshot.replicas, snapshot.update_key)
    if not waiting:
        return None
    canary, metadata = snapshot.canary, snapshot.metadata
    ready = ready_groups(canary.pods, canary.group_set.template.size) if canary is not None else 0
    return PromotionWithoutRoom(
        message,
        waiting,
        metadata.namespace,
        metadata.name,
        all_stay=not snapshot.group_set.unavailable,
        canary_stands_in=ready >= snapshot.replicas,
    )


def _after_analysis(rollout: Rollout) -> tuple[Verb, ...]:
    if overridable_analysis(rollout) is None:
        return (Verb.ABORT,)
    again = (Verb.RETRY,) if is_withdrawn(rollout) else ()
    return (Verb.ANALYSIS, *again, Verb.OVERRIDE, Verb.ABORT)


def _under_way(status: RolloutStatus, moment: ReleaseStage) -> ReleaseUnderWay:
    begun = status.phase not in ("", "Healthy")
    return ReleaseUnderWay(moment, begun, status.current_step_index, status.current_step_state, status.message)


def _waits_for_approval(rollout: Rollout) -> bool:
    steps, index = rollout.strategy.steps, rollout.status.current_step_index
    return 1 <= index <= len(steps) and steps[index - 1].pause_seconds is None


def unusable_references(status: RolloutStatus) -> Condition | None:
    """The condition that says why Services and routes of the Rollout cannot be used; None if they can."""
    found = status.condition(RESOLVED_REFS)
    return found if found is not None and found.status == "False" else None


def routes_may_change(rollout: Rollout) -> bool:
    """Whether admission takes other routes now: it is asked about a Rollout with another Service."""
    before = rollout.strategy
    routings = tuple(replace(one, service=f"{one.service}-other") for one in before.traffic_routings)
    changed = _with_strategy(rollout, replace(before, traffic_routings=routings))
    known = update_errors(rollout, rollout, ())
    return update_errors(changed, rollout, ()) == known


def _with_strategy(rollout: Rollout, strategy: Strategy) -> Rollout:
    part = "blue_green" if rollout.blue_green else "canary"
    return replace(rollout, spec=replace(rollout.spec, strategy=replace(rollout.spec.strategy, **{part: strategy})))


def _unserved(subject: Subject) -> Iterator[Cause]:
    """Routes of a release that no gateway serves: weights in them move no request."""
    for route in subject.routes if subject.releasing else ():
        parents = (route.get("status") or {}).get("parents") or ()
        for one in (condition for parent in parents for condition in parent.get("conditions") or ()):
            if one.get("type") == "Accepted" and one.get("status") == "False":
                problem = RouteNotServed(one.get("message") or one.get("reason") or "")
                yield cause_of(CauseKind.TRAFFIC, problem, f"HTTPRoute {route['metadata']['name']}")
