"""What a Rollout in a file would do, and what about it is probably not meant."""

from collections.abc import Collection, Sequence

import msgspec

from kohort.inspection.release import matches_of
from kohort.kube.resources import RELEASE_ANALYSES
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.messages import capacity, duration
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.validation import warnings
from kohort.rules.rollout_labels import ANALYSIS_NAME

Named = tuple[str, str]
"""Kind and name of an object."""


class PlannedStep(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int | None
    """Of the new version; None if the workload does not exist."""
    replicas_asked: str
    traffic: str
    matches: tuple[str, ...]
    pause_seconds: int | None
    waits_for_approval: bool


class RolloutForecast(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    name: str
    action: str
    """create, configure or nothing"""
    workload: str
    style: str
    steps: Sequence[PlannedStep]
    release: ReleaseForecast | None
    """What a release needs and how long it takes, by the workload as it is now; None if that is not known."""
    findings: Sequence[str]
    """What is allowed and probably not meant, and what it refers to and does not exist."""


def forecast_of_rollout(
    before: Rollout | None,
    after: Rollout,
    replicas: int | None,
    known: Collection[Named],
    release: ReleaseForecast | None = None,
) -> RolloutForecast:
    """`replicas` of the workload, if it exists; `known` are objects of the namespace, in the cluster or the files;
    `release` is the forecast of the next release."""
    ref = after.spec.workload_ref
    action = "create" if before is None else "nothing" if before.spec == after.spec else "configure"
    return RolloutForecast(
        kind="Rollout",
        name=after.metadata.name,
        action=action,
        workload=f"{ref.kind} {ref.name}",
        style=after.style,
        steps=_steps(after, replicas),
        release=release,
        findings=[*_missing(after, known), *warnings(after, replicas)],
    )


def _steps(rollout: Rollout, replicas: int | None) -> list[PlannedStep]:
    found = []
    for number, step in enumerate(rollout.strategy.steps, 1):
        skips = rollout.skips_pause(number)
        found.append(
            PlannedStep(
                replicas=rollout.planned(step.replicas or 0, replicas) if replicas is not None else None,
                replicas_asked=str(step.replicas),
                traffic=step.traffic or "",
                matches=matches_of(step),
                pause_seconds=None if skips else step.pause_seconds,
                waits_for_approval=not skips and step.pause_seconds is None,
            )
        )
    return found


def _missing(rollout: Rollout, known: Collection[Named]) -> list[str]:
    ref = rollout.spec.workload_ref
    wanted: list[tuple[str, Named]] = [("spec.workloadRef", (ref.kind, ref.name))]
    part = "blueGreen" if rollout.blue_green else "canary"
    for index, route in enumerate(rollout.strategy.traffic_routings):
        place = f"spec.strategy.{part}.trafficRoutings[{index}]"
        wanted.append((f"{place}.service", ("Service", route.service)))
        if route.ingress is not None:
            wanted.append((f"{place}.ingress.name", ("Ingress", route.ingress.name)))
        if route.gateway is not None and route.gateway.http_route_name:
            wanted.append((f"{place}.gateway.httpRouteName", ("HTTPRoute", route.gateway.http_route_name)))
    if analysis := rollout.metadata.annotations.get(ANALYSIS_NAME):
        wanted.append((f"annotation {ANALYSIS_NAME}", (RELEASE_ANALYSES.kind, analysis)))
    return [
        f"{field}: there is no {kind} {name}, in the cluster or in these files; create it, or correct the name"
        for field, (kind, name) in wanted
        if (kind, name) not in known
    ]


def rollout_lines(found: RolloutForecast) -> list[str]:
    words = {"create": "would be created", "configure": "would change", "nothing": "would not change"}
    lines = [f"Rollout {found.name} {words[found.action]}; it releases {found.workload} ({found.style})."]
    lines += [f"  {number}. {_step_line(step)}" for number, step in enumerate(found.steps, 1)]
    if found.release is not None:
        texts = (capacity(found.release), duration(found.release))
        lines += [f"  {text[0].upper()}{text[1:]}." for text in texts if text]
    return lines + [f"  ! {one}" for one in found.findings]


def _step_line(step: PlannedStep) -> str:
    asked = step.replicas_asked
    parts = [f"{step.replicas} of the new version ({asked})" if step.replicas is not None else f"{asked} new"]
    if step.traffic:
        parts.append(f"{step.traffic} of the requests")
    if step.matches:
        parts.append(f"requests with {' or '.join(step.matches)}")
    if step.waits_for_approval:
        parts.append("waits for approval")
    elif step.pause_seconds is not None:
        parts.append(f"waits {step.pause_seconds} s")
    return ", ".join(parts)
