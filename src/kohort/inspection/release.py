"""How far a Rollout is with a new version, in fields that scripts can use.

| field | from |
|---|---|
| step, steps, stepState, nextStep | the status of the Rollout |
| trafficAsked, matches | the step in its specification |
| trafficObserved | the routes as they are: an Ingress by its annotation, an HTTPRoute by its weights |
| waitsForApproval, pauseSecondsLeft | the pause of the step, and since when the step waits |
| withdrawn, stopped | the analysis of the step, and whether its replicas were ready in time |
| outdated | the template of the workload beside the version that the Rollout has recorded |
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.inspection.release_subject import Subject
from kohort.kube.clock import parse_time
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.rollout_types import Rollout, Step
from kohort.rollouts.step_analysis import AnalysisReason, may_jump, override_of
from kohort.rollouts.traffic.model import Match
from kohort.rules import nginx_annotations, rollout_labels

CANARY_WEIGHT: Final = f"{nginx_annotations.PREFIX}{nginx_annotations.WEIGHT}"
CANARY_SUFFIX: Final = "-canary"


class Release(msgspec.Struct, frozen=True, rename="camel"):
    rollout: str
    style: str
    """Canary, BlueGreen or Partition"""
    phase: str
    reason: str
    """Of the condition Progressing: InRolling, Paused, Cancelling, Finalising, ..."""
    paused: bool
    """The whole Rollout, by `kohort pause`."""
    step: int
    """Counted from 1; 0 before the first."""
    steps: int
    step_state: str
    next_step: int
    replicas_asked: str
    traffic_asked: str
    """Such as 20%; empty if the step names no share."""
    matches: tuple[str, ...]
    """Requests that go to the new version, whatever the share; any of these is enough."""
    traffic_observed: int | None
    """Per cent that the routes send to the new version now; None if that cannot be seen."""
    waits_for_approval: bool
    pause_seconds: int | None
    """How long the step waits by itself."""
    pause_seconds_left: int | None
    stable_revision: str
    new_revision: str
    new_replicas: int
    new_replicas_ready: int
    message: str
    withdrawn: bool = False
    """The step was rolled back by itself: the new version gets no requests and has no replicas."""
    stopped: bool = False
    """The step was rolled back by itself or failed its analysis: only a person lets the release go on."""
    outdated: bool = False
    """The workload has another template since: what was released before is removed, then the next release begins."""


def release_of(subject: Subject, now: datetime) -> Release | None:
    """None while nothing is released."""
    rollout = subject.rollout
    if rollout is None or not subject.releasing:
        return None
    status, progress = rollout.status, rollout.status.progress
    steps, index = rollout.strategy.steps, status.current_step_index
    step = steps[index - 1] if 1 <= index <= len(steps) else None
    waits = is_at_pause(subject)
    duration = step.pause_seconds if step is not None else None
    return Release(
        rollout=rollout.metadata.name,
        style=rollout.style,
        phase=status.phase,
        reason=status.reason,
        paused=rollout.spec.strategy.paused,
        step=index if step is not None else 0,
        steps=len(steps),
        step_state=status.current_step_state,
        next_step=progress.next_step_index if progress is not None else 0,
        replicas_asked=str(step.replicas) if step is not None and step.replicas is not None else "",
        traffic_asked=(step.traffic or "") if step is not None else "",
        matches=matches_of(step) if step is not None else (),
        traffic_observed=observed_share(rollout, subject.routes),
        waits_for_approval=waits and duration is None,
        pause_seconds=duration if waits else None,
        pause_seconds_left=_left(rollout, duration, now) if waits and duration is not None else None,
        stable_revision=progress.stable_revision if progress is not None else "",
        new_revision=progress.pod_template_hash if progress is not None else "",
        new_replicas=progress.replicas if progress is not None else 0,
        new_replicas_ready=progress.ready_replicas if progress is not None else 0,
        message=status.message,
        withdrawn=is_withdrawn(rollout),
        stopped=is_withdrawn(rollout) or failed_analysis(rollout) is not None,
        outdated=is_outdated(subject),
    )


def is_rolling(rollout: Rollout) -> bool:
    """Its steps go on, or wait: it is neither being cancelled nor brought to its end."""
    status = rollout.status
    return status.phase == rollout_labels.PROGRESSING and status.reason in (
        rollout_labels.IN_ROLLING,
        rollout_labels.REASON_PAUSED,
        "",
    )


def is_at_pause(subject: Subject) -> bool:
    """A step waits, for an approval or for its time to pass. One that is overridden counts as approved, and the last
    step of a canary goes on by itself."""
    rollout = subject.rollout
    if rollout is None or not is_rolling(rollout) or is_outdated(subject) or override_of(rollout) is not None:
        return False
    pauses = not rollout.skips_pause(rollout.status.current_step_index)
    return pauses and rollout.status.current_step_state == rollout_labels.PAUSED


def is_outdated(subject: Subject) -> bool:
    """The status of the Rollout is about another version than the workload is to have: it has not seen the newest
    template, or still removes the version before. An approval would not count for the new one."""
    rollout = subject.rollout
    progress = rollout.status.progress if rollout is not None else None
    if rollout is None or progress is None or not progress.revision or not is_rolling(rollout):
        return False
    return subject.releasing and not subject.has_version(progress.revision)


def is_withdrawn(rollout: Rollout) -> bool:
    """A step failed its analysis, or was not ready in time, and was rolled back by itself."""
    progress = rollout.status.progress
    if progress is None or not is_rolling(rollout) or progress.current_step_state != rollout_labels.UPGRADE:
        return False
    late = progress.timed_out_step == progress.current_step_index
    rolls_back = rollout.metadata.annotations.get(rollout_labels.STEP_TIMEOUT_ACTION) == "rollback"
    return (late and rolls_back) or failed_analysis(rollout) is not None


def failed_analysis(rollout: Rollout) -> Condition | None:
    """The condition Analysis, where the release does not go on because the step has failed."""
    found = stopping_analysis(rollout)
    return found if found is not None and found.reason == AnalysisReason.FAILED else None


def stopping_analysis(rollout: Rollout) -> Condition | None:
    """The condition Analysis, where it is why a release does not go on."""
    found = rollout.status.condition(rollout_labels.ANALYSIS_CONDITION)
    if found is None or not rollout.metadata.annotations.get(rollout_labels.ANALYSIS_NAME):
        return None
    judged = rollout.status.current_step_state in (rollout_labels.ANALYSIS, rollout_labels.UPGRADE)
    waits = (judged and is_rolling(rollout)) or rollout.status.reason == rollout_labels.INITIALIZING
    return found if found.reason in _STOPPING and waits else None


def may_jump_to(rollout: Rollout, step: int) -> bool:
    """Whether the analysis of the current step lets the release go to this one."""
    progress = rollout.status.progress
    judged = progress is not None and bool(rollout.metadata.annotations.get(rollout_labels.ANALYSIS_NAME))
    return not judged or progress is None or may_jump(progress, step)


def overridable_analysis(rollout: Rollout) -> Condition | None:
    """The condition Analysis, where the step can go on in spite of it: not if there is nothing that could judge it."""
    found = stopping_analysis(rollout)
    return found if found is not None and found.reason in (AnalysisReason.FAILED, AnalysisReason.HELD) else None


_STOPPING: Final = (
    AnalysisReason.FAILED,
    AnalysisReason.HELD,
    AnalysisReason.NOT_FOUND,
    AnalysisReason.INVALID,
)


def _left(rollout: Rollout, duration: int, now: datetime) -> int:
    progress = rollout.status.progress
    if progress is None or not progress.last_update_time:
        return duration
    passed = (now - parse_time(progress.last_update_time)).total_seconds()
    return max(0, round(duration - passed))


def pause_ends(release: Release | None, now: datetime) -> str:
    """When the step goes on by itself; empty if it does not wait for that."""
    if release is None or release.paused or release.pause_seconds_left is None:
        return ""
    return (now + timedelta(seconds=release.pause_seconds_left)).isoformat()


def matches_of(step: Step) -> tuple[str, ...]:
    """
    >>> from kohort.rollouts.traffic.model import HeaderMatch
    >>> matches_of(Step(matches=(Match(headers=(HeaderMatch("x-tester", "1"),)),)))
    ('header x-tester=1',)
    """
    return tuple(_match_text(one) for one in step.matches)


def _match_text(match: Match) -> str:
    parts = [f"path {match.path.value}"] if match.path is not None else []
    parts += [f"header {one.name}{_operator(one.type)}{one.value}" for one in match.headers]
    parts += [f"query {one.name}{_operator(one.type)}{one.value}" for one in match.query_params]
    return " and ".join(parts)


def _operator(type: str) -> str:
    return "=" if type == "Exact" else "~"


def observed_share(rollout: Rollout, routes: Sequence[JsonObject]) -> int | None:
    """Per cent of the requests that the routes send to the canary Service; the largest, if routes differ."""
    shares = [_share(one, ref.service) for ref in rollout.strategy.traffic_routings for one in routes]
    found = [one for one in shares if one is not None]
    return max(found) if found else None


def _share(route: JsonObject, service: str) -> int | None:
    metadata = route.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if route.get("kind") == "Ingress":
        weight = str(annotations.get(CANARY_WEIGHT, ""))
        return int(weight) if weight.isdigit() else None
    new = all_weights = 0
    for rule in (route.get("spec") or {}).get("rules") or ():
        weights = {one.get("name"): one.get("weight", 1) for one in rule.get("backendRefs") or ()}
        if service not in weights or (rule.get("matches") and service + CANARY_SUFFIX not in weights):
            continue
        new += weights.get(service + CANARY_SUFFIX, 0)
        all_weights += weights[service] + weights.get(service + CANARY_SUFFIX, 0)
    return round(100 * new / all_weights) if all_weights else None


def release_line(release: Release) -> str:
    """One line."""
    name = f"Rollout {release.rollout}"
    if not release.step:
        return f"{name}: about to begin"
    words = [f"{name}: step {release.step} of {release.steps}"]
    if release.withdrawn:
        return f"{words[0]}, rolled back: all requests go to the stable version"
    if release.outdated:
        return f"{words[0]}, of an earlier template: it is removed before the next release begins"
    if release.reason == rollout_labels.CANCELLING:
        return f"{words[0]}, going back to the stable version"
    if release.traffic_asked:
        seen = release.traffic_observed
        differs = seen is not None and f"{seen}%" != release.traffic_asked
        words.append(f"{release.traffic_asked} of the requests" + (f" ({seen}% now)" if differs else ""))
    words.append(release.step_state)
    if release.matches:
        words.append(f"requests with {' or '.join(release.matches)}")
    if release.paused:
        words.append("the Rollout is paused")
    elif release.waits_for_approval:
        words.append("waits for approval")
    elif release.pause_seconds_left is not None:
        words.append(f"{release.pause_seconds_left} s left")
    return ", ".join(words)


def short(release: Release) -> str:
    """A few words, for a column."""
    if not release.step:
        return "beginning"
    if release.withdrawn or release.outdated or release.reason == rollout_labels.CANCELLING:
        words = "rolled back" if release.withdrawn else "replaced" if release.outdated else "going back"
        return f"{release.step}/{release.steps} {words}"
    state = "paused" if release.paused else "approve" if release.waits_for_approval else release.step_state
    share = f" {release.traffic_asked}" if release.traffic_asked else ""
    left = f" {release.pause_seconds_left}s" if release.pause_seconds_left is not None else ""
    return f"{release.step}/{release.steps}{share} {state}{left}"
