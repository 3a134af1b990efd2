"""What the decisions of a Rollout want done, as values. Every action may be repeated."""

import msgspec

from kohort.rollouts.rollout_types import ReleasePlan
from kohort.rollouts.traffic.actions import TrafficAction
from kohort.rules.rollout_labels import FinalizingPolicy


class JoinTrafficRouting(msgspec.Struct, frozen=True):
    """Say on the TrafficRouting that this Rollout uses it."""


class WriteRelease(msgspec.Struct, frozen=True):
    """Create the BatchRelease, or give it this plan."""

    plan: ReleasePlan


class ResumeRelease(msgspec.Struct, frozen=True):
    """Let the BatchRelease end, with this finalizing policy."""

    policy: FinalizingPolicy


class GrowToFullCapacity(msgspec.Struct, frozen=True):
    """Let the BatchRelease bring up as many replicas of the new version as the stable one has."""


class ShrinkToBatch(msgspec.Struct, frozen=True):
    """Let the BatchRelease scale the canary down to what its batch wants."""


class WithdrawCanary(msgspec.Struct, frozen=True):
    """Let the BatchRelease scale the canary to 0, because it was not ready in time."""


class RestoreCanary(msgspec.Struct, frozen=True):
    """Undo `WithdrawCanary`."""


class DeleteRelease(msgspec.Struct, frozen=True):
    """Delete the BatchRelease."""


ReleaseAction = (
    WriteRelease | ResumeRelease | GrowToFullCapacity | ShrinkToBatch | WithdrawCanary | RestoreCanary | DeleteRelease
)


class ReleaseHold(msgspec.Struct, frozen=True):
    """Give the workload back to its own controller, where no BatchRelease does it."""


class LeaveHeld(msgspec.Struct, frozen=True):
    """Remove everything of the release from the workload but the hold."""


class AdoptHeldWorkload(msgspec.Struct, frozen=True):
    """Start to release a workload that an earlier release left held."""


WorkloadAction = ReleaseHold | LeaveHeld | AdoptHeldWorkload

Action = TrafficAction | JoinTrafficRouting | ReleaseAction | WorkloadAction
