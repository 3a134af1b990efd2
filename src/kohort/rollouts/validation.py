"""What is wrong with a Rollout, in the words that its users know; and what is allowed but probably not meant."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kohort.objects import field_errors, int_or_string
from kohort.objects.counted_nouns import counted_of
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rollouts import step_arithmetic
from kohort.rollouts.feature_gates import KEEP_PAUSED, PARTITION_PERCENT_LIMIT
from kohort.rollouts.rollout_types import RELEASED_KINDS, Rollout, Step
from kohort.rollouts.traffic.model import RouteRef
from kohort.rules import rollout_labels

_WORKLOAD: Final = "Spec.ObjectRef.WorkloadRef"
_LABEL: Final = 63
"""Characters of a label's value, and of a Service's name."""
_OBJECT_NAME: Final = 253
_CANARY: Final = len("-canary")
LONGEST_NAME: Final = 41
"""Longer names of sets are shortened in the names of their canaries."""
_REPLICAS_WRONG: Final = 'replicas must be positive number, or a percentage with "0%" < canaryReplicas <= "100%"'
_FINAL_PHASES: Final = (rollout_labels.PROGRESSING, rollout_labels.TERMINATING)


def create_errors(
    rollout: Rollout, others: Iterable[Rollout], *, partition_limit: int = PARTITION_PERCENT_LIMIT
) -> list[FieldError]:
    return [
        *_name_errors(rollout),
        *spec_errors(rollout),
        *partition_errors(rollout, partition_limit),
        *conflict_errors(rollout, others),
    ]


def _name_errors(rollout: Rollout) -> list[FieldError]:
    """The name is a label of analyses, and part of the finalizer of a TrafficRouting."""
    return _too_long("metadata.name", rollout.metadata.name, _LABEL, "it becomes the value of labels")


def update_errors(
    new: Rollout,
    old: Rollout,
    others: Iterable[Rollout],
    *,
    steps_may_change: bool = False,
    partition_limit: int = PARTITION_PERCENT_LIMIT,
) -> list[FieldError]:
    """`steps_may_change`: v1alpha1 lets their number be changed at any time.

    What is stored already, perhaps by others, can always be labelled, deleted and disabled. Steps that were admitted
    under a higher limit do not block other edits, such as a pause."""
    if new.spec == old.spec or new.metadata.deleting:
        return []
    known = [*partition_errors(old, partition_limit), *(spec_errors(old) if new.spec.disabled else ())]
    wrong = (*spec_errors(new), *partition_errors(new, partition_limit), *conflict_errors(new, others))
    found = [one for one in wrong if one not in known]
    if old.status.phase not in _FINAL_PHASES:
        return found
    which = "Strategy.Canary|BlueGreen"
    if new.spec.workload_ref != old.spec.workload_ref:
        found.append(field_errors.forbidden("Spec.ObjectRef", "Rollout 'ObjectRef' field is immutable"))
    if new.style != old.style:
        text = "Rollout style and enableExtraWorkloadForCanary are immutable"
        return [*found, field_errors.forbidden(f"Spec.{which}", text)]
    if new.strategy.traffic_routings != old.strategy.traffic_routings:
        text = f"Rollout '{which}.TrafficRoutings' field is immutable"
        found.append(field_errors.forbidden(f"Spec.{which}.TrafficRoutings", text))
    if not steps_may_change and len(new.strategy.steps) != len(old.strategy.steps):
        found.append(field_errors.forbidden(f"Spec.{which}", "Amount of Rollout steps are immutable"))
    return found


def spec_errors(rollout: Rollout) -> list[FieldError]:
    chosen = rollout.spec.strategy
    found = _workload_errors(rollout)
    if chosen.canary is None and chosen.blue_green is None:
        return [*found, _wrong("Spec.Strategy", chosen, "Canary and BlueGreen cannot both be empty")]
    if chosen.canary is not None and chosen.blue_green is not None:
        return [*found, _wrong("Spec.Strategy", chosen, "Canary and BlueGreen cannot both be set")]
    path = "Spec.Strategy.BlueGreen" if rollout.blue_green else "Spec.Strategy.Canary"
    return [
        *found,
        *_step_errors(rollout, path),
        *_route_errors(rollout.strategy.traffic_routings, f"{path}.TrafficRoutings"),
        *_canary_name_errors(rollout, f"{path}.TrafficRoutings"),
    ]


def _canary_name_errors(rollout: Rollout, path: str) -> list[FieldError]:
    """Of what is made beside an object, with its name and a suffix, on the day of the first release."""
    found: list[FieldError] = []
    ref = rollout.spec.workload_ref
    if ref.is_deployment and rollout.style == rollout_labels.CANARY:
        found += _too_long(f"{_WORKLOAD}.Name", ref.name, _LABEL, "its canary has it as a label")
    for index, route in enumerate(rollout.strategy.traffic_routings):
        if not rollout.strategy.disable_generate_canary_service:
            why = f"the Service of the new version is called {route.service}-canary"
            found += _too_long(f"{path}[{index}].Service", route.service, _LABEL - _CANARY, why)
        if route.ingress is not None:
            why = "the Ingress of the new version has -canary at the end of its name"
            found += _too_long(f"{path}[{index}].Ingress", route.ingress.name, _OBJECT_NAME - _CANARY, why)
    return found


def _too_long(field: str, name: str, most: int, why: str) -> list[FieldError]:
    if len(name) <= most:
        return []
    return [_wrong(field, name, f"must have at most {most} characters, it has {len(name)}: {why}")]


def _workload_errors(rollout: Rollout) -> list[FieldError]:
    ref = rollout.spec.workload_ref
    if ref.group_kind not in RELEASED_KINDS:
        return [_wrong(_WORKLOAD, ref, "WorkloadRef kind is not supported")]
    if ref.is_stateful_set and rollout.blue_green:
        return [_wrong(_WORKLOAD, ref, "WorkloadRef kind is not supported for bluegreen style")]
    if not ref.name:
        return [field_errors.required(f"{_WORKLOAD}.Name", "name the workload that this Rollout releases")]
    if rollout.style != rollout_labels.PARTITION or rollout.spec.strategy.canary is None:
        return []
    if not ref.is_group_set:
        return []
    remedy = "LeaderWorkerSet does not support partition style, set enableExtraWorkloadForCanary=true or use blueGreen"
    return [_wrong("Spec.Strategy.Canary.EnableExtraWorkloadForCanary", False, remedy)]


def not_released_here(rollout: Rollout) -> str:
    """Why a stored Rollout is left alone, with the remedy. Admission refuses such ones, but other implementations of
    this API may have been here before."""
    ref = rollout.spec.workload_ref
    if ref.group_kind not in RELEASED_KINDS:
        return (
            f"spec.workloadRef: a {ref.kind} ({ref.api_version}) is not released here, only Deployment, StatefulSet "
            "and LeaderWorkerSet are; leave it to the operator that knows it, or delete this Rollout"
        )
    if rollout.partitioned and ref.is_group_set:
        return (
            "spec.strategy.canary: a LeaderWorkerSet is not released in partition style; set "
            "enableExtraWorkloadForCanary: true or use "
            "blueGreen, and if a release of the other style is under way, end it first by spec.disabled: true"
        )
    return ""


def _step_errors(rollout: Rollout, path: str) -> list[FieldError]:
    steps = rollout.strategy.steps
    where = f"{path}.Steps"
    if not steps:
        return [_wrong(where, [], "The number of Canary.Steps cannot be empty")]
    found: list[FieldError] = []
    for index, step in enumerate(steps):
        found += _one_step(step, f"{where}[{index}]", blue_green=rollout.blue_green)
    return found or _order_errors(steps, where)


def _one_step(step: Step, path: str, *, blue_green: bool) -> list[FieldError]:
    if step.replicas is None:
        return [_wrong(path, step, "replicas cannot be empty")]
    found = []
    if not _valid_replicas(step.replicas):
        found.append(_wrong(f"{path}.Replicas", step.replicas, _REPLICAS_WRONG))
    if step.traffic is not None and not _valid_traffic(step.traffic, lowest=0 if blue_green else 1):
        bound, word = ("<=", "blueGreen") if blue_green else ("<", "canary")
        text = f'traffic must be percentage with "0%" {bound} traffic <= "100%" in {word} strategy'
        found.append(_wrong(f"{path}.Traffic", step.traffic, text))
    for number, match in enumerate(step.matches):
        if not (match.headers or match.query_params or match.path):
            text = "a match must have headers, queryParams or a path"
            found.append(_wrong(f"{path}.Matches[{number}]", match, text))
    if step.pause_seconds is not None and step.pause_seconds < 0:
        found.append(_wrong(f"{path}.Pause.Duration", step.pause_seconds, "duration cannot be negative"))
    return found


def partition_errors(rollout: Rollout, limit: int) -> list[FieldError]:
    """Steps that divide requests while few stable pods are left. A rollback sends every request to the stable pods
    before it replaces any, and those must carry that. Only percentages are judged: what a number of pods means is
    unknown before the workload exists."""
    if not rollout.partitioned or rollout.spec.workload_ref.is_group_set:
        return []
    text = (
        "For partition style rollout: step[x].replicas must not greater than partition-percent-limit if traffic "
        f"specified: at most {limit}%, because a rollback sends all requests to the stable pods that are left; remove "
        "traffic and matches from this step, or start the operator with a higher --partition-percent-limit"
    )
    return [
        _wrong(f"Spec.Strategy.Canary.Steps[{index}].Replicas", step.replicas, text)
        for index, step in enumerate(rollout.strategy.steps)
        if step.routes and isinstance(step.replicas, str) and _exceeds(step.replicas, limit)
    ]


def _exceeds(share: str, limit: int) -> bool:
    return int_or_string.is_percentage(share) and int_or_string.percentage(share) > limit


def _valid_replicas(value: int | str) -> bool:
    if isinstance(value, int):
        return value > 0
    return int_or_string.is_percentage(value) and 0 < int_or_string.percentage(value) <= 100


def _valid_traffic(value: str, *, lowest: int) -> bool:
    return int_or_string.is_percentage(value) and lowest <= int_or_string.percentage(value) <= 100


def _order_errors(steps: Sequence[Step], path: str) -> list[FieldError]:
    """Neighbours of the same spelling must not fall; a percentage and a number cannot be compared."""
    for index, (before, after) in enumerate(itertools.pairwise(steps)):
        if type(before.replicas) is not type(after.replicas) or before.replicas is None or after.replicas is None:
            continue
        if int_or_string.resolve(after.replicas, 100, round_up=True) < int_or_string.resolve(
            before.replicas, 100, round_up=True
        ):
            where = f"{path}[{index + 1}].CanaryReplicas"
            return [_wrong(where, after.replicas, "Steps.CanaryReplicas must be a non decreasing sequence")]
    return []


def _route_errors(refs: Sequence[RouteRef], path: str) -> list[FieldError]:
    if len(refs) > 1:
        return [_wrong(path, refs, "Rollout currently only support single TrafficRouting.")]
    found = []
    for ref in refs:
        where = f"{path}[0]"
        if not ref.service:
            found.append(_wrong(f"{where}.Service", ref.service, "TrafficRouting.Service cannot be empty"))
        if ref.grace_period_seconds < 0:
            text = "TrafficRouting.GracePeriodSeconds cannot be negative"
            found.append(_wrong(f"{where}.GracePeriodSeconds", ref.grace_period_seconds, text))
        if ref.ingress is None and ref.gateway is None and not ref.custom_network_refs:
            found.append(_wrong(path, ref, "TrafficRoutings are not set"))
        if ref.ingress is not None and not ref.ingress.name:
            found.append(_wrong(f"{where}.Ingress", ref.ingress, "TrafficRouting.Ingress.Ingress cannot be empty"))
        if ref.gateway is not None and not ref.gateway.http_route_name:
            text = "TrafficRouting.Gateway must set the name of HTTPRoute or HTTPsRoute"
            found.append(_wrong(f"{where}.Gateway", ref.gateway, text))
    return found


def conflict_errors(rollout: Rollout, others: Iterable[Rollout]) -> list[FieldError]:
    """One workload, one Rollout: also when they name the kind in different versions, and when one is disabled."""
    for other in others:
        same = other.metadata.namespace == rollout.metadata.namespace and other.metadata.name == rollout.metadata.name
        if same or other.metadata.namespace != rollout.metadata.namespace:
            continue
        if other.spec.workload_ref.identity == rollout.spec.workload_ref.identity:
            name = f"{other.metadata.namespace}/{other.metadata.name}"
            text = f"This rollout conflict with Rollout({name}), one workload only have less than one Rollout"
            return [_wrong("Conflict Checker", rollout.metadata.name, text)]
    return []


def warnings(rollout: Rollout, replicas: int | None) -> list[str]:
    """What is allowed but deserves a word. `replicas` of the workload, if it exists."""
    found = []
    strategy, ref = rollout.strategy, rollout.spec.workload_ref
    if ref.is_group_set and len(ref.name) > LONGEST_NAME:
        found.append(
            f"spec.workloadRef.name: {ref.name} is longer than {LONGEST_NAME} characters; "
            "the name of its canary will be shortened"
        )
    if not strategy.traffic_routings and not rollout.traffic_routing:
        routed = [number for number, step in enumerate(strategy.steps, start=1) if step.routes]
        if routed:
            found.append(f"traffic is ignored without trafficRoutings (steps {', '.join(map(str, routed))})")
    last = len(strategy.steps)
    if last and strategy.steps[-1].pause is not None and rollout.skips_pause(last):
        found.append(
            f'step {last}: its pause is ignored: a last step with replicas "100%" is promoted as soon as it is ready; '
            "put the pause on the step before it"
        )
    if replicas:
        found += _count_warnings(rollout, replicas)
    return found


def ending_warning(rollout: Rollout, verb: str, *, keeps_hold: bool) -> str:
    """What deleting or disabling a Rollout does to a release that is under way; empty when there is none."""
    status, progress = rollout.status, rollout.status.progress
    if status.phase != rollout_labels.PROGRESSING or status.reason == rollout_labels.COMPLETED or progress is None:
        return ""
    ref, count = rollout.spec.workload_ref, len(rollout.strategy.steps)
    subject = f"{ref.kind} {ref.name}"
    typed = ref.name if ref.is_group_set else f"{ref.kind.lower()}/{ref.name}"
    where = f"Rollout {rollout.metadata.name} is {verb} at step {progress.current_step_index} of {count}"
    if keeps_hold:
        return (
            f"{where}: {subject} stays held at its stable version, and its template is still that of the new one; "
            "another Rollout takes the release up"
        )
    stop = f"kohort release stop {typed} -n {rollout.metadata.namespace} --keep-stable"
    return (
        f"{where}: the new version rolls out to all of {subject}, without the steps that are left. To keep the stable "
        f"version, use instead: {stop}{' --delete' if verb == 'deleted' else ''}; or put the old template back first "
        f"(kohort abort {typed}), or set the annotation {rollout_labels.KEEP_HELD}=true on the Rollout first, or "
        f"run the operator with the feature gate {KEEP_PAUSED}"
    )


def _count_warnings(rollout: Rollout, replicas: int) -> list[str]:
    """Steps with as many replicas as the one before differ by their requests, or else do nothing."""
    unit = "group" if rollout.spec.workload_ref.is_group_set else "pod"
    steps = [step for step in rollout.strategy.steps if step.replicas is not None]
    wanted = [step.replicas for step in steps if step.replicas is not None]
    found = [
        f"step {number}: replicas {count} is more than the {replicas} that the workload has"
        for number, count in enumerate(wanted, start=1)
        if isinstance(count, int) and count > replicas
    ]
    try:
        counts = [rollout.planned(one, replicas) for one in wanted]
    except ValueError:
        return found
    found += [
        f"step {number} resolves to {counted_of(after, replicas, unit)}, "
        f"fewer than the {before} of the step before: the new version does not shrink during a release"
        for number, (before, after) in enumerate(itertools.pairwise(counts), start=2)
        if after < before
    ]
    return found + [
        f"step {i} and {j} both resolve to {counted_of(count, replicas, unit)}"
        for i, j, count in step_arithmetic.same_targets(counts)
        if steps[i - 1].traffic_step == steps[j - 1].traffic_step
    ]


def _wrong(field: str, value: object, text: str) -> FieldError:
    return field_errors.invalid(field, msgspec.to_builtins(value), text)


def parse(document: JsonObject) -> Rollout:
    """A Rollout from an admission request; ValueError says what cannot be read."""
    try:
        return msgspec.convert(document, Rollout)
    except msgspec.ValidationError as problem:
        raise ValueError(f"not a Rollout: {problem}") from problem
