"""Progress of a workload towards its wanted state, for people and scripts that wait."""

from datetime import datetime

import msgspec

from kohort.groups.status import AVAILABLE
from kohort.inspection.cause import Cause
from kohort.inspection.release import Release, release_line, release_of
from kohort.inspection.resize_progress import ResizeProgress, resize_progress
from kohort.inspection.roll_pause import paused
from kohort.inspection.set_causes import causes
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import state_of_set
from kohort.kube import clock
from kohort.rules import rollout_labels


class WorkloadProgress(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    state: str
    wanted: int
    existing: int
    ready: int
    """As the set's own status counts them, surge groups included; so are the next two."""
    updated: int
    updated_ready: int
    rolled: int
    """Of the wanted groups, those that are up to date and ready."""
    surge: int
    """Groups beyond those wanted, which exist while the set rolls."""
    held: int
    """Groups that the partition keeps at an old revision."""
    paused: bool
    """By `kohort pause`."""
    revision: int
    done: bool
    waiting_for: str
    """The first cause, in one line; empty when done."""
    unit: str = "groups"
    release: Release | None = None
    """How far a Rollout is with a new version."""
    resize: ResizeProgress | None = None
    """How far the set is with resources that change in place."""

    @property
    def at_pause(self) -> bool:
        """A release waits for its user: a way back, and the end of an earlier release, go on without."""
        found = self.release
        if found is None or found.outdated or found.reason == rollout_labels.CANCELLING:
            return False
        return found.waits_for_approval or found.paused


def progress_of(snapshot: Snapshot, now: datetime | None = None) -> WorkloadProgress:
    return progress_with_causes(snapshot, now or clock.now())[0]


def progress_with_causes(snapshot: Snapshot, now: datetime) -> tuple[WorkloadProgress, list[Cause]]:
    """The causes are those that keep the set from being done: computed once, since they cost the most.

    A set is done when the operator has seen its last edit and calls it available, all wanted groups are ready, all
    that may have the new revision have it, no surge group is left and no Rollout is under way. A pause that keeps
    groups from a new revision is meant to end; a partition that was written into the set is meant to stay."""
    group_set = snapshot.group_set
    wanted = group_set.replicas
    states = {index: one for index, one in snapshot.states.items() if index < wanted}
    updatable = [one for index, one in states.items() if index >= group_set.partition]
    ready = sum(one.ready for one in states.values())
    status, state = group_set.status, state_of_set(group_set)
    complete = len(updatable) == max(0, wanted - group_set.partition) and all(one.done for one in updatable)
    surge = sum(index >= wanted for index in snapshot.leaders)
    settled = state == AVAILABLE and complete and ready == wanted and (group_set.partition > 0 or not surge)
    held = sum(index < group_set.partition and not one.updated for index, one in states.items())
    waits = snapshot.releasing or (held > 0 and paused(snapshot))
    done = settled and not waits
    found = [] if done else causes(snapshot)
    progress = WorkloadProgress(
        name=snapshot.name,
        namespace=group_set.metadata.namespace,
        state=state,
        wanted=wanted,
        existing=len(snapshot.leaders),
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        updated_ready=status.updated_ready_replicas,
        rolled=sum(one.done for one in states.values()),
        surge=surge,
        held=held,
        paused=paused(snapshot),
        revision=snapshot.numbers.get(snapshot.update_key, 0),
        done=done,
        waiting_for="".join(f"{cause.objects[0]}: {cause.found}" for cause in found[:1]),
        release=release_of(snapshot, now),
        resize=resize_progress(snapshot),
    )
    return progress, found


WIDTH = 24


def line(found: WorkloadProgress) -> str:
    """One line with a bar. A status that is behind its groups does not count fewer than are seen.

    >>> from msgspec.structs import replace
    >>> half = WorkloadProgress("llm", "default", "Updating", 4, 4, 4, 2, 2, 2, 0, 0, False, 3, False, "")
    >>> line(half)
    'default/llm  [############............]  2/4 groups at revision 3 and ready, 4 ready in all  Updating'
    >>> line(replace(half, ready=1))
    'default/llm  [############............]  2/4 groups at revision 3 and ready, 2 ready in all  Updating'
    """
    share = found.rolled / found.wanted if found.wanted else 1.0
    full = round(share * WIDTH)
    bar = "#" * full + "." * (WIDTH - full)
    target = f"at revision {found.revision} and ready" if found.revision else "ready"
    words = f"{found.rolled}/{found.wanted} {found.unit} {target}, {max(found.ready, found.rolled)} ready in all"
    if found.surge:
        words += f", {found.surge} surge"
    if found.held:
        words += f", {found.held} held by the {'pause' if found.paused else 'partition'}"
    elif found.paused:
        words += ", paused"
    return f"{found.namespace}/{found.name}  [{bar}]  {words}  {found.state}"


def resize_line(found: ResizeProgress) -> str:
    return f"resize, {found.state}: {found.message}"


def progress_lines(found: WorkloadProgress) -> list[str]:
    lines = [line(found)]
    if found.release is not None:
        lines.append(f"  {release_line(found.release)}")
    if found.resize is not None:
        lines.append(f"  {resize_line(found.resize)}")
    if found.waiting_for:
        lines.append(f"  waiting for {found.waiting_for}")
    return lines
