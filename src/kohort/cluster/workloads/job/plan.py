"""What a Job does next.

Every pod of a Job counts exactly once, also if it is deleted by somebody right after it finished. So a pod carries a
finalizer until its result is in the status. Results that are noted but whose pods still have the finalizer stand in
`uncountedTerminatedPods`; the order note, take the finalizer off, add to the counters survives a crash at any point.

| state | then |
|---|---|
| more failures than backoffLimit | Failed: BackoffLimitExceeded |
| older than activeDeadlineSeconds | Failed: DeadlineExceeded |
| enough successes, or one and nothing runs when no number is given | Complete: CompletionsReached |
| suspended | no pods |
| otherwise | as many pods as parallelism and what is left to do allow |
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
BACKOFF_BASE: Final = 10.0
BACKOFF_MAX: Final = 600.0


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

    @property
    def active(self) -> bool:
        return not self.terminating and self.phase not in ("Succeeded", "Failed")

    @property
    def failed(self) -> bool:
        return self.phase == "Failed" or (self.terminating and self.phase not in ("Succeeded",))


class JobFacts(msgspec.Struct, frozen=True):
    parallelism: int
    completions: int | None
    indexed: bool = False
    backoff_limit: int = 6
    suspended: bool = False
    overdue: bool = False
    """activeDeadlineSeconds have passed."""
    succeeded: int = 0
    """All successes, counted and uncounted."""
    failed: int = 0
    completed: frozenset[int] = frozenset()
    """Indexes that succeeded."""


class End(msgspec.Struct, frozen=True):
    """The Job is over. All its pods must go before it is declared so."""

    success: bool
    reason: str
    message: str


class Work(msgspec.Struct, frozen=True):
    create: int = 0
    indexes: tuple[int, ...] = ()
    """With an Indexed Job: which indexes to create pods for."""
    delete: tuple[str, ...] = ()


def plan(facts: JobFacts, pods: Sequence[PodResult]) -> End | Work:
    end = _end(facts, pods)
    if end is not None:
        return end
    active = [pod for pod in pods if pod.active]
    if facts.suspended:
        return Work(delete=tuple(pod.name for pod in active))
    wanted = _wanted(facts, len(active))
    if len(active) > wanted:
        return Work(delete=_surplus(active, wanted))
    missing = wanted - len(active)
    if not facts.indexed:
        return Work(create=missing)
    open_indexes = _open_indexes(facts, pods)
    return Work(create=min(missing, len(open_indexes)), indexes=tuple(open_indexes[:missing]))


def _end(facts: JobFacts, pods: Sequence[PodResult]) -> End | None:
    if facts.failed > facts.backoff_limit:
        return End(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if facts.overdue:
        return End(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    done = len(facts.completed) if facts.indexed else facts.succeeded
    if facts.completions is not None:
        reached = done >= facts.completions
    else:
        reached = facts.succeeded > 0 and not any(pod.active for pod in pods)
    return End(True, "CompletionsReached", "Reached expected number of succeeded pods") if reached else None


def _wanted(facts: JobFacts, active: int) -> int:
    if facts.completions is None:
        return min(active, facts.parallelism) if facts.succeeded else facts.parallelism
    done = len(facts.completed) if facts.indexed else facts.succeeded
    return max(0, min(facts.parallelism, facts.completions - done))


def _surplus(active: Sequence[PodResult], wanted: int) -> tuple[str, ...]:
    """Pods that are not running yet go first, then those that are not ready."""
    ranked = sorted(active, key=lambda pod: (pod.phase == "Running", pod.ready, -(pod.index or 0), pod.name))
    return tuple(pod.name for pod in ranked[: len(active) - wanted])


def _open_indexes(facts: JobFacts, pods: Sequence[PodResult]) -> list[int]:
    busy = {pod.index for pod in pods if pod.active or (pod.terminating and pod.tracked)}
    return [index for index in range(facts.completions or 0) if index not in facts.completed and index not in busy]


def backoff(failures: int) -> float:
    """How long after the last failure the next pod may start."""
    return min(BACKOFF_MAX, BACKOFF_BASE * 2 ** (failures - 1)) if failures > 0 else 0.0


def format_indexes(indexes: Iterable[int]) -> str:
    """`0,2-4`: runs of three and more as ranges, pairs listed.

    >>> format_indexes([4, 0, 2, 3])
    '0,2-4'
    >>> format_indexes([0, 1, 5])
    '0,1,5'
    """
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if run and (index is None or index != run[-1] + 1):
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run]
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def parse_indexes(text: str) -> frozenset[int]:
    """The inverse of `format_indexes`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
