"""What decisions know of a workload, and the operations on it.

The decisions about Rollouts and BatchReleases are written once, against this module. A kind of workload is added by
implementing `WorkloadOperations`; nothing above changes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import msgspec

from kohort.kube.resources import Key
from kohort.rollouts.action_result import ActionResult
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.traffic.model import ServingPods

_NOTHING: Mapping[str, str] = MappingProxyType({})


class ReleasedWorkload(msgspec.Struct, frozen=True):
    """The stable workload as a Rollout sees it."""

    name: str
    generation: int
    revision_key: str
    """The pod label by which versions are told apart."""
    uid: str = ""
    consistent: bool = True
    """Its controller has seen its newest generation; otherwise nothing below can be trusted."""
    replicas: int = 1
    has_webhook_label: bool = True
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
    in_place: bool = False
    """What is released are resources alone, and running groups get them: there is neither a canary nor traffic to
    move."""
    canary_lost: bool = False
    """A user deleted the extra workload: it goes, and a new one is needed."""
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


class ReplicaCounts(msgspec.Struct, frozen=True):
    """Replicas of the new version."""

    updated: int = 0
    ready: int = 0
    observed: bool = True
    """The counters belong to the newest generation of what they count."""
    text: str = ""
    """`1/2 groups ready (8 pods), llm-x7k2p-1-3 is Pending: …`"""


class WorkloadOperations(Protocol):
    """The operations on one kind of workload. Each is idempotent, and names in its result what it waits for."""

    def observe(self, rollout: Rollout) -> ReleasedWorkload | None:
        """None when it does not exist."""
        ...

    def planned(self, release: BatchRelease, batch: int, replicas: int) -> int: ...

    def shrinks(self, release: BatchRelease) -> bool:
        """Whether replicas of the new version beyond those of the batch are removed."""
        ...

    def replicas(self, release: BatchRelease) -> int | None:
        """Of the stable workload now; None when it is gone."""
        ...

    def is_observed(self, release: BatchRelease) -> bool:
        """Whether the newest generation of the stable workload has been seen by its controller."""
        ...

    def revision(self, release: BatchRelease) -> str:
        """Of the template that is being released."""
        ...

    def released(self, release: BatchRelease) -> str:
        """The version that the canary of the release runs; empty where there is no canary yet."""
        ...

    def counts(self, release: BatchRelease, desired: int) -> ReplicaCounts: ...

    async def add_webhook_label(self, key: Key) -> None:
        """Add the label that makes the webhook see changes."""
        ...

    async def initialize(self, release: BatchRelease) -> ActionResult:
        """Hold the stable workload, and create the canary without replicas."""
        ...

    async def upgrade(self, release: BatchRelease, desired: int) -> ActionResult:
        """`desired` replicas of the new version; fewer than there are only once the Rollout says that no requests reach
        them any more."""
        ...

    async def restore_lost_hold(self, release: BatchRelease) -> tuple[ReleaseEvent, ...]:
        """Put the hold back where an update past the webhook has removed it."""
        ...

    async def label_batches(self, release: BatchRelease, batch: int) -> None:
        """Label pods with the release and the batch that brought them."""
        ...

    async def finalize(self, release: BatchRelease) -> ActionResult:
        """With a batchPartition: detach the release, the hold stays. Without: the stable workload is rolled by its own
        controller, and with WaitResume the result is `Done` only when all of it has the new version."""
        ...

    async def delete_canary(self, release: BatchRelease) -> ActionResult:
        """Delete what the release has created; `Done` when all of it is being deleted."""
        ...

    async def release_hold(self, rollout: Rollout) -> ActionResult:
        """Give a held workload back to its own controller, where there is no BatchRelease."""
        ...

    async def leave_held(self, rollout: Rollout) -> ActionResult:
        """Remove everything of a release from the workload but the hold."""
        ...

    async def adopt_held(self, rollout: Rollout) -> None:
        """Start to release a workload that was left held."""
        ...

    def canary_gone(self, rollout: Rollout) -> bool:
        """No pod of the new version is left that a Service without pin could reach."""
        ...


Controls = Mapping[tuple[str, str], WorkloadOperations]
"""By group and kind of the workload."""
