"""Causes why a release waits, for all kinds of workloads.

| the Rollout | so |
|---|---|
| is paused | resume it |
| has a step that waits for approval | approve it, or go back |
| has a step that waits for its time to pass | wait, approve it, or go back |
| moves requests | wait |
| has the condition ResolvedRefs False | create what is absent, name another where admission takes that, or go back |
| is cancelled, or promotes the new version | wait |
| anything else | wait, or go back |
"""

from collections.abc import Iterator

from msgspec.structs import replace

from kohort.inspection.advice import Advice, Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.release import is_at_pause, is_rolling
from kohort.inspection.release_subject import Subject, command
from kohort.objects.meta import Condition
from kohort.rollouts.action_result import ProblemReason
from kohort.rollouts.rollout_types import Rollout, RolloutStatus, Strategy
from kohort.rollouts.traffic.model import routing_grace
from kohort.rollouts.validation import update_errors
from kohort.rules.rollout_labels import FINALISING, RESOLVED_REFS, ROUTING


def release_causes(subject: Subject) -> list[Cause]:
    return [*_unserved(subject), *_steps(subject)]


def _steps(subject: Subject) -> Iterator[Cause]:
    rollout = subject.rollout
    if rollout is None or not subject.releasing:
        return
    name, status = f"Rollout {rollout.metadata.name}", rollout.status
    approve = ("go on at once", command(subject, Verb.APPROVE))
    back = ("or go back", command(subject, Verb.ABORT))
    if rollout.spec.strategy.paused:
        advice = offered(subject, "", [("go on", command(subject, Verb.RESUME)), back])
        yield Cause(CauseKind.ROLLOUT, (name,), "the rollout is paused", advice)
    elif is_at_pause(rollout) and _waits_for_approval(rollout):
        text = f"step {status.current_step_index} waits for approval"
        yield Cause(CauseKind.ROLLOUT, (name,), text, offered(subject, "", [("go on", approve[1]), back]))
    elif status.reason == FINALISING:  # admission takes no template but the stable one now, and soon none
        yield Cause(CauseKind.ROLLOUT, (name,), _step_text(status), Advice("wait: the new version is promoted"))
    elif (unusable := unusable_references(status)) is not None:
        words = _repair(unusable.reason, rollout)
        yield Cause(CauseKind.TRAFFIC, (name,), unusable.message or _step_text(status), offered(subject, words, [back]))
    elif not is_rolling(rollout):
        yield Cause(CauseKind.ROLLOUT, (name,), _step_text(status), offered(subject, "wait", [back]))
    elif status.current_step_state == ROUTING:
        grace = f"routes get {routing_grace(rollout.strategy.traffic_routings)} s to arrive everywhere"
        text = f"step {status.current_step_index} moves its requests; {grace}"
        words = f"wait; if it stays so, {_routes_to_look_at(rollout)}"
        yield Cause(CauseKind.WAITING, (name,), text, Advice(words))
    elif is_at_pause(rollout):
        yield Cause(CauseKind.ROLLOUT, (name,), _step_text(status), offered(subject, "wait", [approve, back]))
    else:
        yield Cause(CauseKind.ROLLOUT, (name,), _step_text(status), offered(subject, "wait", [back]))


def _waits_for_approval(rollout: Rollout) -> bool:
    steps, index = rollout.strategy.steps, rollout.status.current_step_index
    return 1 <= index <= len(steps) and steps[index - 1].pause_seconds is None


def _step_text(status: RolloutStatus) -> str:
    if status.phase in ("", "Healthy"):
        return "the release is about to begin"
    return status.message or f"step {status.current_step_index} is {status.current_step_state}"


def unusable_references(status: RolloutStatus) -> Condition | None:
    """The condition that says why Services and routes of the Rollout cannot be used; None if they can."""
    found = status.condition(RESOLVED_REFS)
    return found if found is not None and found.status == "False" else None


def _repair(reason: str, rollout: Rollout) -> str:
    if reason != ProblemReason.REF_NOT_FOUND:
        return _routes_to_look_at(rollout)
    other = f", or name another in trafficRoutings of Rollout {rollout.metadata.name}"
    return f"create it{other if routes_may_change(rollout) else ''}"


def _routes_to_look_at(rollout: Rollout) -> str:
    services = ", ".join(f"{one.service}-canary" for one in rollout.strategy.traffic_routings)
    return f"see that the routes exist, and that Service {services} has a ready pod (kubectl describe service)"


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
                name = route["metadata"]["name"]
                text = f"no gateway serves it: {one.get('message') or one.get('reason')}"
                action = "fix what its status says (kubectl describe httproute), or no request reaches the new version"
                yield Cause(CauseKind.TRAFFIC, (f"HTTPRoute {name}",), text, Advice(action))
