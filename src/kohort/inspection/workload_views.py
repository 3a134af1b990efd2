"""Views of a Deployment or StatefulSet: its pods, its progress, and why it is not ready."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kohort.inspection.advice import Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.messages import GO_ON, cause_of, problem_text
from kohort.inspection.pod_causes import pod_causes, resize_causes
from kohort.inspection.problems import HeldWorkload, ReplicasMissing
from kohort.inspection.progress import WorkloadProgress, progress_with_causes
from kohort.inspection.release import Release, release_line, release_of
from kohort.inspection.release_causes import release_causes
from kohort.inspection.release_subject import command
from kohort.inspection.roll_pause import paused
from kohort.inspection.served_revisions import images
from kohort.inspection.set_causes import causes, is_fine, ordered
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import PodBranch, branch_of, cells, revision_words, wide_lines
from kohort.inspection.workload import DEPLOYMENT, PlainWorkload

PENDING, UPDATING, AVAILABLE, PROGRESSING = "Pending", "Updating", "Available", "Progressing"


class WorkloadTree(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    name: str
    namespace: str
    state: str
    wanted: int
    ready: int
    updated: int
    revision: int
    revision_key: str
    images: tuple[str, ...]
    pods: Sequence[PodBranch]
    paused: bool = False
    release: Release | None = None
    canary: "WorkloadTree | None" = None


def tree_of_workload(workload: PlainWorkload, now: datetime) -> WorkloadTree:
    numbers = {one.key: one.number for one in workload.versions}
    return WorkloadTree(
        kind=workload.kind,
        name=workload.name,
        namespace=workload.metadata.namespace,
        state=state_of(workload),
        wanted=workload.replicas,
        ready=workload.ready,
        updated=workload.updated,
        revision=numbers.get(workload.update_key, 0),
        revision_key=workload.update_key,
        images=images(workload.template),
        pods=[branch_of(pod, now, "pod") for pod in workload.pods],
        paused=paused(workload),
        release=release_of(workload, now),
        canary=tree_of_workload(workload.canary, now) if workload.canary is not None else None,
    )


def state_of(workload: PlainWorkload) -> str:
    """
    | first that applies | word |
    |---|---|
    | it is being deleted | Terminating |
    | its controller has not seen the last edit | Pending |
    | not all replicas have the wanted version | Updating |
    | all are ready | Available |
    | otherwise | Progressing |
    """
    if workload.metadata.deleting:
        return "Terminating"
    if not workload.observed:
        return PENDING
    if workload.complete:
        return AVAILABLE
    held = workload.held or workload.releasing
    if workload.updated < workload.replicas and not held:
        return UPDATING
    return AVAILABLE if held and workload.ready >= workload.replicas else PROGRESSING


def drawn_workload(tree: WorkloadTree, *, wide: bool = False) -> list[str]:
    lines = [headline_of_workload(tree)]
    if wide:
        lines += wide_lines(tree.images)
    rows = [cells(pod, wide) for pod in tree.pods]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for number, row in enumerate(rows):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        lines.append(f"{'└─' if number == len(rows) - 1 else '├─'} {text}")
    if tree.release is not None:
        lines.append(release_line(tree.release))
    if tree.canary is not None:
        lines += drawn_workload(tree.canary, wide=wide)
    return lines


def headline_of_workload(tree: WorkloadTree) -> str:
    revision = revision_words(tree.revision, tree.revision_key) if tree.revision_key else "new revision held"
    counts = f"{tree.ready}/{tree.wanted} pods ready, {tree.updated} up to date"
    words = f"{counts}, {revision}{', paused' if tree.paused else ''}"
    return f"{tree.namespace}/{tree.kind.lower()}/{tree.name}  {tree.state}  {words}"


def progress_of_workload(workload: PlainWorkload, now: datetime) -> tuple[WorkloadProgress, list[Cause]]:
    """With the causes that keep it from being done. Done as `kubectl rollout status` has it: seen, all pods new and
    ready, none of the old ones left; and no Rollout is under way."""
    held = max(0, workload.replicas - workload.updated) if workload.held else 0
    waits = workload.releasing or (held > 0 and paused(workload))
    done = _is_settled(workload) and not waits and not workload.metadata.deleting
    found = [] if done else workload_causes(workload)
    numbers = {one.key: one.number for one in workload.versions}
    progress = WorkloadProgress(
        name=workload.reference,
        namespace=workload.metadata.namespace,
        state=state_of(workload),
        wanted=workload.replicas,
        existing=workload.existing,
        ready=workload.ready,
        updated=workload.updated,
        updated_ready=min(workload.updated, workload.ready),
        rolled=min(workload.updated, workload.ready, workload.replicas),
        surge=max(0, workload.existing - workload.replicas),
        held=held,
        paused=paused(workload),
        revision=numbers.get(workload.update_key, 0),
        done=done,
        waiting_for="".join(f"{cause.objects[0]}: {cause.found}" for cause in found[:1]),
        unit="pods",
        release=release_of(workload, now),
    )
    return progress, found


def _is_settled(workload: PlainWorkload) -> bool:
    """A partition that is written into a StatefulSet is meant to stay."""
    kept = workload.partition > 0 and workload.ready == workload.replicas and workload.observed
    return workload.complete or kept


def progress_of_subject(subject: Snapshot | PlainWorkload, now: datetime) -> WorkloadProgress:
    return subject_progress_with_causes(subject, now)[0]


def subject_progress_with_causes(
    subject: Snapshot | PlainWorkload, now: datetime
) -> tuple[WorkloadProgress, list[Cause]]:
    """The causes are those that keep it from being done; none if it is."""
    return (
        progress_of_workload(subject, now) if isinstance(subject, PlainWorkload) else progress_with_causes(subject, now)
    )


def causes_of_subject(subject: Snapshot | PlainWorkload) -> list[Cause]:
    return workload_causes(subject) if isinstance(subject, PlainWorkload) else causes(subject)


def workload_causes(workload: PlainWorkload) -> list[Cause]:
    found = _of_pods(workload)
    if workload.canary is not None:
        found += _of_pods(workload.canary)
    found += [*release_causes(workload), *_held(workload)]
    if all(one.note for one in found) and not _is_settled(workload):
        missing = max(0, workload.replicas - workload.existing)
        problem = ReplicasMissing(missing, workload.replicas, workload.reference)
        found.append(cause_of(CauseKind.WAITING, problem, workload.name))
    return ordered(found)


def _of_pods(workload: PlainWorkload) -> list[Cause]:
    context = workload.pod_context
    pods = sorted(workload.pods, key=lambda pod: pod.metadata.name)
    found = [cause for pod in pods if not is_fine(pod) for cause in pod_causes(pod, context)]
    return found + [cause for pod in pods for cause in resize_causes(pod, context)]


def _held(workload: PlainWorkload) -> list[Cause]:
    if workload.releasing or not workload.held or workload.updated >= workload.replicas:
        return []
    problem = HeldWorkload(None if workload.kind == DEPLOYMENT else workload.partition)
    advice = offered(workload, "", [(GO_ON, command(workload, Verb.RESUME))])
    return [Cause(CauseKind.ROLLOUT, (workload.name,), problem_text(problem), advice, note=not paused(workload))]
