"""What a Job does next.

Every pod of a Job counts exactly once, also if it is deleted right after it finished. So a pod carries a finalizer
until its result is in the status. Results whose pods still have the finalizer are listed in `uncountedTerminatedPods`.
The order (list the pod, remove its finalizer, add it to the counters) survives a crash at any point.

How a Job ends, first match first:

| state | then |
|---|---|
| it was announced before (FailureTarget, SuccessCriteriaMet) | as announced |
| a pod failed as a FailJob rule says | Failed: PodFailurePolicy |
| more failures, or restarts in place, than backoffLimit | Failed: BackoffLimitExceeded |
| older than activeDeadlineSeconds | Failed: DeadlineExceeded |
| more failed indexes than maxFailedIndexes | Failed: MaxFailedIndexesExceeded |
| every index has succeeded or failed, and one failed | Failed: FailedIndexes |
| a rule of successPolicy is fulfilled | Complete: SuccessPolicy |
| enough successes, or one when no number is given, and nothing runs | Complete: CompletionsReached |

Otherwise it has as many pods as parallelism and what is left to do allow; none while it is suspended. A Job that is
being deleted goes on counting, but neither creates nor deletes pods: the garbage collector does.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.cluster.workloads.job.policies import FailureDecision, success_rule
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import FINISHED_PHASES

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


class PodResult(msgspec.Struct, frozen=True):
    name: str
    uid: str
    phase: str
    """Pending, Running, Succeeded or Failed."""
    terminating: bool = False
    tracked: bool = True
    """Still has the finalizer, so it is not in the counters."""
    index: int | None = None
    ready: bool = False
    restarts: int = 0
    decision: FailureDecision = FailureDecision()
    """What its failure means, if it failed."""
    failures: int = 0
    """Of its index, before this pod."""
    ignored: int = 0
    ended: datetime | None = None
    """When it ended, or would have ended if it counts as failed."""

    @property
    def active(self) -> bool:
        return not self.terminating and not self.finished

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def leaving(self) -> bool:
        return self.terminating and not self.finished


class End(msgspec.Struct, frozen=True):
    """How the Job ends. All its pods must be gone before the final condition is written."""

    success: bool
    reason: str
    message: str


class JobFacts(msgspec.Struct, frozen=True):
    parallelism: int
    completions: int | None
    indexed: bool = False
    backoff_limit: int = 6
    per_index_limit: int | None = None
    max_failed_indexes: int | None = None
    success_policy: JsonObject | None = None
    replaces_only_failed: bool = False
    """A pod that is terminating is replaced when it has ended, not before."""
    restarts_in_place: bool = False
    suspended: bool = False
    overdue: bool = False
    """activeDeadlineSeconds have passed."""
    deleting: bool = False
    succeeded: int = 0
    """Successes in the counter."""
    failed: int = 0
    noted_good: frozenset[str] = frozenset()
    """Uids in `uncountedTerminatedPods`."""
    noted_bad: frozenset[str] = frozenset()
    completed: frozenset[int] = frozenset()
    """Indexes that succeeded."""
    failed_indexes: frozenset[int] = frozenset()
    announced: End | None = None

    def has_failed(self, pod: PodResult) -> bool:
        if pod.phase == "Failed":
            return True
        return pod.leaving and not self.replaces_only_failed

    def concerns(self, pod: PodResult) -> bool:
        """Pods of indexes beyond `completions` do not count."""
        return not self.indexed or (pod.index is not None and pod.index < (self.completions or 0))


class Tally(msgspec.Struct, frozen=True):
    """All results: those in the counters, those noted, and those that the pods show."""

    succeeded: int
    failed: int
    completed: frozenset[int]
    failed_indexes: frozenset[int]


class Work(msgspec.Struct, frozen=True):
    create: int = 0
    indexes: tuple[int, ...] = ()
    """With an Indexed Job: which indexes to create pods for."""
    delete: tuple[str, ...] = ()


class Notes(msgspec.Struct, frozen=True):
    """Pods to note in the status, and pods to free of their finalizer after that."""

    good: frozenset[str]
    bad: frozenset[str]
    release: frozenset[str]


def settled(facts: JobFacts, pods: Sequence[PodResult]) -> JobFacts:
    """Noted pods whose finalizer is seen to be gone are added to the counters."""
    held = {pod.uid for pod in pods if pod.tracked}
    counted = 0 if facts.indexed else len(facts.noted_good - held)
    return msgspec.structs.replace(
        facts,
        succeeded=facts.succeeded + counted,
        failed=facts.failed + len(facts.noted_bad - held),
        noted_good=facts.noted_good & held,
        noted_bad=facts.noted_bad & held,
    )


def fresh(facts: JobFacts, pods: Sequence[PodResult]) -> tuple[list[PodResult], list[PodResult]]:
    """Pods that succeeded and pods that failed, as far as they are neither counted nor noted."""
    held = [pod for pod in pods if pod.tracked and facts.concerns(pod)]
    good = [pod for pod in held if pod.phase == "Succeeded" and pod.uid not in facts.noted_good]
    return good, [pod for pod in held if facts.has_failed(pod) and pod.uid not in facts.noted_bad]


def tally(facts: JobFacts, pods: Sequence[PodResult]) -> Tally:
    good, bad = fresh(facts, pods)
    completed = facts.completed | {pod.index for pod in good if facts.indexed and pod.index is not None}
    return Tally(
        succeeded=len(completed) if facts.indexed else facts.succeeded + len(facts.noted_good) + len(good),
        failed=facts.failed + len(facts.noted_bad) + sum(pod.decision.counts for pod in bad),
        completed=completed,
        failed_indexes=facts.failed_indexes
        | {pod.index for pod in pods if pod.index is not None and _index_failed(facts, pod)},
    )


def _index_failed(facts: JobFacts, pod: PodResult) -> bool:
    if facts.per_index_limit is None or not facts.has_failed(pod) or not pod.tracked or not facts.concerns(pod):
        return False
    if pod.decision.action == "FailIndex":
        return True
    return pod.decision.counts and pod.failures >= facts.per_index_limit


def end_of(facts: JobFacts, results: Tally, pods: Sequence[PodResult]) -> End | None:
    if facts.announced is not None:
        return facts.announced
    fatal = next((pod for pod in pods if facts.has_failed(pod) and pod.decision.action == "FailJob"), None)
    if fatal is not None:
        return End(False, "PodFailurePolicy", fatal.decision.message)
    if results.failed > facts.backoff_limit or _restarted_too_often(facts, pods):
        return End(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if facts.overdue:
        return End(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _end_of_indexes(facts, results) or _reached(facts, results, pods)


def _restarted_too_often(facts: JobFacts, pods: Sequence[PodResult]) -> bool:
    if not facts.restarts_in_place:
        return False
    restarts = sum(pod.restarts for pod in pods if not pod.finished)
    return restarts >= max(1, facts.backoff_limit)


def _end_of_indexes(facts: JobFacts, results: Tally) -> End | None:
    if not facts.indexed:
        return None
    bad = len(results.failed_indexes)
    if facts.max_failed_indexes is not None and bad > facts.max_failed_indexes:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return End(False, "MaxFailedIndexesExceeded", text)
    if bad and bad + len(results.completed) >= (facts.completions or 0):
        return End(False, "FailedIndexes", "Job has failed indexes")
    rule = success_rule(facts.success_policy, results.completed)
    return None if rule is None else End(True, "SuccessPolicy", f"Matched rules at index {rule}")


def _reached(facts: JobFacts, results: Tally, pods: Sequence[PodResult]) -> End | None:
    if any(pod.active for pod in pods):
        return None
    wanted = 1 if facts.completions is None else facts.completions
    if results.succeeded < wanted:
        return None
    return End(True, "CompletionsReached", "Reached expected number of succeeded pods")


def notes(facts: JobFacts, pods: Sequence[PodResult], end: End | None, waiting: frozenset[str] = frozenset()) -> Notes:
    """What to write down before pods are let go. When the Job is over or goes itself, all of them are, and those that a
    failure cuts short count as failed. `waiting`: pods that must stay until they are replaced."""
    good: set[str] = set()
    bad: set[str] = set()
    release: set[str] = set()
    for pod in pods:
        failed = facts.has_failed(pod)
        ended = pod.phase == "Succeeded" or (failed and pod.uid not in waiting)
        if not pod.tracked or not (end or facts.deleting or ended):
            continue
        release.add(pod.uid)
        if pod.phase == "Succeeded" and pod.uid not in facts.noted_bad:
            if not facts.indexed:
                good.add(pod.uid)
        elif (failed or (end and not end.success)) and facts.concerns(pod) and pod.decision.counts:
            bad.add(pod.uid)
    return Notes(facts.noted_good | good, facts.noted_bad | bad, frozenset(release))


def work(facts: JobFacts, results: Tally, pods: Sequence[PodResult]) -> Work:
    active = [pod for pod in pods if pod.active]
    if facts.deleting:
        return Work()
    if facts.suspended:
        return Work(delete=tuple(pod.name for pod in active))
    wanted = _wanted(facts, results, len(active))
    surplus = _surplus(facts, active, len(active) - wanted)
    if surplus:
        return Work(delete=surplus)
    missing = wanted - len(active)
    if facts.replaces_only_failed:
        missing -= sum(pod.leaving for pod in pods)
    missing = max(0, missing)
    if not facts.indexed:
        return Work(create=missing)
    chosen = tuple(_open_indexes(facts, results, pods)[:missing])
    return Work(create=len(chosen), indexes=chosen)


def _wanted(facts: JobFacts, results: Tally, active: int) -> int:
    if facts.completions is None:
        return active if results.succeeded else facts.parallelism
    return max(0, min(facts.parallelism, facts.completions - results.succeeded))


def _surplus(facts: JobFacts, active: Sequence[PodResult], number: int) -> tuple[str, ...]:
    """Pods of indexes that are no more and second pods of one index always go; then those that are not running yet,
    then those that are not ready."""
    ranked = sorted(active, key=lambda pod: (pod.phase == "Running", pod.ready, -(pod.index or 0), pod.name))
    gone: list[str] = []
    if facts.indexed:
        seen: set[int | None] = set()
        for pod in reversed(ranked):
            if not facts.concerns(pod) or pod.index in seen:
                gone.append(pod.name)
            seen.add(pod.index)
    more = [pod.name for pod in ranked if pod.name not in gone]
    return (*gone, *more[: max(0, number - len(gone))])


def _open_indexes(facts: JobFacts, results: Tally, pods: Sequence[PodResult]) -> list[int]:
    busy = {pod.index for pod in pods if pod.active or (facts.replaces_only_failed and pod.leaving)}
    closed = results.completed | results.failed_indexes | busy
    return [index for index in range(facts.completions or 0) if index not in closed]


def to_be_replaced(facts: JobFacts, results: Tally, pods: Sequence[PodResult]) -> dict[int, PodResult]:
    """With a limit for each index: the last failed pod of each index that gets another try. Its replacement copies the
    number of failures, so it stays until that exists."""
    if facts.per_index_limit is None:
        return {}
    busy = {pod.index for pod in pods if pod.active} | results.completed | results.failed_indexes
    found: dict[int, PodResult] = {}
    for pod in pods:
        if not pod.tracked or not facts.has_failed(pod) or not facts.concerns(pod) or pod.index in busy:
            continue
        assert pod.index is not None
        last = found.get(pod.index)
        if last is None or last.failures + last.ignored <= pod.failures + pod.ignored:
            found[pod.index] = pod
    return found
