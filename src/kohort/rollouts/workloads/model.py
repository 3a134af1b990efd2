"""What the machines know of a workload, and what they can ask of it.

The machines of Rollouts and BatchReleases are written once, against this module. A kind of workload is added by
implementing `Control`; nothing above changes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from kohort.kube.resources import Key
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.traffic.model import Note, ServingPods

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Workload(msgspec.Struct, frozen=True):
    """The stable workload as a Rollout sees it."""

    name: str
    generation: int
    revision_key: str
    """The pod label by which versions are told apart."""
    consistent: bool = True
    """Its controller has seen its newest generation; otherwise nothing below can be trusted."""
    replicas: int = 1
    guarded: bool = True
    """It carries the label that makes changes of it pass our webhook."""
    in_progress: bool = False
    in_rollback: bool = False
    left_held: bool = False
    """Nothing is released, but a hold was left on it when a release was given up."""
    stable_revision: str = ""
    canary_revision: str = ""
    earlier_canary_revision: str = ""
    """The same, as an earlier version of kohort has recorded it."""
    pod_template_hash: str = ""
    expected_key: str = ""
    """The revision key that pods of the new version will have, where it can be known before there are any."""
    released: str = ""
    """The version that the pods of its release have, where there are any."""
    rollout_id: str = ""
    canary_name: str = ""
    pinned: Mapping[str, str] = _NOTHING
    """Selector keys of a canary Service besides the revision."""
    extra_workload: bool = True
    """The new version lives in a workload of its own, so the stable one is whole until promotion."""
    canary_lost: bool = False
    """Somebody deleted the extra workload by hand: it goes, and a new one is needed."""
    serving: ServingPods | None = None
    """The pods that should get requests."""
    remark: str = ""
    """Something that a person should know, for the message."""

    @property
    def release_id(self) -> str:
        """The id under which this version is released."""
        if self.rollout_id:
            return self.rollout_id
        return f"rollback-{self.canary_revision}" if self.in_rollback else self.canary_revision


class Outcome(msgspec.Struct, frozen=True):
    """`wait` is no error: the world has to move on first, and an event will tell when it has."""

    state: Literal["done", "wait", "problem"]
    text: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def done(self) -> bool:
        return self.state == "done"


DONE = Outcome("done")


def wait(text: str, *notes: Note) -> Outcome:
    return Outcome("wait", text, notes)


class Counts(msgspec.Struct, frozen=True):
    """Replicas of the new version."""

    updated: int = 0
    ready: int = 0
    observed: bool = True
    """The counters belong to the newest generation of what they count."""
    text: str = ""
    """`1/2 groups ready (8 pods), llm-x7k2p-1-3 is Pending: …`"""


class Control(Protocol):
    """One kind of workload. Every operation is idempotent, and names in its outcome what it waits for."""

    def view(self, rollout: Rollout) -> Workload | None:
        """None when it does not exist."""
        ...

    def planned(self, release: BatchRelease, batch: int, replicas: int) -> int: ...

    def replicas(self, release: BatchRelease) -> int | None:
        """Of the stable workload now; None when it is gone."""
        ...

    def observed(self, release: BatchRelease) -> bool:
        """Whether the newest generation of the stable workload has been seen by its controller."""
        ...

    def revision(self, release: BatchRelease) -> str:
        """Of the template that is being released."""
        ...

    def released(self, release: BatchRelease) -> str:
        """The version that what the release has made runs; empty where it has made nothing yet."""
        ...

    def counts(self, release: BatchRelease, desired: int) -> Counts: ...

    async def guard(self, key: Key) -> None:
        """Put on the label that makes the webhook see changes."""
        ...

    async def initialize(self, release: BatchRelease) -> Outcome:
        """Hold the stable workload, make the place for the new version."""
        ...

    async def upgrade(self, release: BatchRelease, desired: int) -> Outcome:
        """`desired` replicas of the new version; never fewer than there are."""
        ...

    async def keep_hold(self, release: BatchRelease) -> tuple[Note, ...]:
        """Put a hold back that somebody has taken off."""
        ...

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        """Pods carry the release and the batch that brought them."""
        ...

    async def finalize(self, release: BatchRelease) -> Outcome:
        """With a batchPartition: let go, the hold stays. Without: the stable workload moves on by itself, and with
        WaitResume the outcome is done only when it has arrived."""
        ...

    async def discard(self, release: BatchRelease) -> Outcome:
        """Delete what the release has made; done when none of it is left that is not going already."""
        ...

    async def resume(self, rollout: Rollout) -> Outcome:
        """Lift a hold that no BatchRelease knows of."""
        ...

    async def leave_held(self, rollout: Rollout) -> Outcome:
        """Take everything of a release off the workload but the hold."""
        ...

    async def take_up(self, rollout: Rollout) -> None:
        """A workload that was left held is released from here on."""
        ...

    def canary_gone(self, rollout: Rollout) -> bool:
        """No pod of the new version is left that a Service without pin could reach."""
        ...
