"""`list`: one line per workload; `releases`: the releases of one workload, and how each ended."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show, table
from kohort.cli.connection import Refusal, print_error
from kohort.inspection import release, tree
from kohort.inspection.release import Release, release_of
from kohort.inspection.release_subject import title
from kohort.inspection.served_revisions import images
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.inspection.workload_views import state_of
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.resources import ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.history_records import COMPLETED, History, recorded_releases
from kohort.rollouts.messages import ReleaseOutcome
from kohort.rollouts.rollout_types import Rollout


class Line(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    """As it is typed: `llm`, `deployment/web`."""
    kind: str
    state: str
    wanted: int
    ready: int
    updated: int
    size: int
    """Pods of a group; 1 for workloads without groups."""
    images: tuple[str, ...]
    release: Release | None
    age_seconds: int


async def list_workloads(client: Client, namespace: str, form: str, labels: str) -> int:
    """All sets, and the other workloads that a Rollout names. Without a namespace, of all."""
    keys = await snapshot_reader.keys(client, namespace, labels)
    found, unreadable = await snapshot_reader.read_all(client, keys)
    for rollout in await snapshot_reader.list_if_readable(client, ROLLOUTS, namespace, Rollout):
        ref = rollout.spec.workload_ref
        if ref.is_group_set or ref.kind.lower() not in snapshot_reader.WORKLOADS:
            continue
        one = await snapshot_reader.workload_of_rollout(client, rollout)
        if one is not None and snapshot_reader.matches(labels, one.metadata.labels):
            found.append(one)
    now = clock.now()
    lines = sorted((_line(one, now) for one in found), key=lambda one: (one.namespace, one.name))
    if form not in ("text", "wide"):
        show([document(lines, form)])
    elif lines:
        show(_drawn(lines, everywhere=not namespace))
    elif not unreadable:
        show([await snapshot_reader.nothing(client, namespace, labels)])
    return print_error("\n".join(unreadable)) if unreadable else 0


def _line(subject: Snapshot | PlainWorkload, now: datetime) -> Line:
    if isinstance(subject, PlainWorkload):
        state, ready, updated, size = state_of(subject), subject.ready, subject.updated, 1
        shown = images(subject.template)
    else:
        status, template = subject.group_set.status, subject.group_set.template
        state, ready, updated = tree.state_of_set(subject.group_set), status.ready_replicas, status.updated_replicas
        size, shown = template.size, images(template.leader, template.worker)
    metadata = subject.metadata
    return Line(
        namespace=metadata.namespace,
        name=subject.reference,
        kind=subject.kind,
        state=state,
        wanted=subject.replicas,
        ready=ready,
        updated=updated,
        size=size,
        images=shown,
        release=release_of(subject, now),
        age_seconds=tree.age(metadata.creation_timestamp, now),
    )


def _drawn(lines: Sequence[Line], *, everywhere: bool) -> list[str]:
    rows = [
        [
            *([one.namespace] if everywhere else []),
            one.name,
            one.state,
            f"{one.ready}/{one.wanted}",
            str(one.updated),
            str(one.size),
            release.short(one.release) if one.release is not None else "-",
            " ".join(one.images),
            tree.age_text(one.age_seconds),
        ]
        for one in lines
    ]
    places = ["NAMESPACE"] if everywhere else []
    return table([*places, "NAME", "STATE", "READY", "UPDATED", "SIZE", "RELEASE", "IMAGES", "AGE"], rows)


class ReleaseRecord(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    outcome: str
    """succeeded, rolled_back, superseded, disabled, deleted, or under way; withdrawn if a step of the present one was
    rolled back by itself"""
    started: str
    by: str
    """The client that wrote the new template, as the server has recorded it; empty if that is not known."""
    images: tuple[str, ...]
    steps: int
    pods: int


async def releases(client: Client, namespace: str, name: str, form: str) -> int:
    """Newest last."""
    found = await snapshot_reader.subject(client, namespace, name, rollout_needed=True)
    rollout = found.rollout
    if rollout is None:
        raise Refusal(f"no Rollout releases {title(found)}; its revisions: kohort history {found.reference}")
    lines = [_record(one, found, rollout) for one in await recorded_releases(client, rollout)]
    if form not in ("text", "wide"):
        show([document(lines, form)])
        return 0
    if not lines:
        show([f"Rollout {rollout.metadata.name} has released nothing yet"])
        return 0
    rows = [
        [
            one.id,
            one.outcome,
            f"{tree.age_text(tree.age(one.started, clock.now()))} ago",
            one.by or "-",
            str(one.steps),
            str(one.pods),
            " ".join(one.images) or "-",
        ]
        for one in lines
    ]
    show(table(["RELEASE", "OUTCOME", "STARTED", "BY", "STEPS", "PODS", "IMAGES"], rows))
    return 0


def _record(record: History, subject: Snapshot | PlainWorkload, rollout: Rollout) -> ReleaseRecord:
    steps, progress = record.status.canary_steps, rollout.status.progress
    current = subject.releasing and progress is not None and progress.observed_rollout_id == record.release
    present = current and record.status.phase != COMPLETED
    running = "withdrawn" if release.is_withdrawn(rollout) else "under way"
    return ReleaseRecord(
        id=record.release,
        outcome=running if present else record.outcome or ReleaseOutcome.SUPERSEDED.value,
        started=record.metadata.creation_timestamp or "",
        by=record.released_by,
        images=_images(record.spec.workload.data or (_spec(subject) if present else {})),
        steps=len(steps),
        pods=sum(len(one.get("pods") or ()) for one in steps),
    )


def _images(spec: JsonObject) -> tuple[str, ...]:
    groups = spec.get("leaderWorkerTemplate") or {}
    templates = (groups.get("leaderTemplate"), groups.get("workerTemplate"), spec.get("template"))
    return images(*(one for one in templates if one))


def _spec(subject: Snapshot | PlainWorkload) -> JsonObject:
    return subject.group_set.spec if isinstance(subject, Snapshot) else subject.spec
