"""What is written down about a group whose resize is under way, on its leader pod.

Amounts before and after are not recorded: they follow from the revision that the group carries and from the one that it
is resized to, and both are stored. The record adds what no object shows: since when, and what was decided.

| phase | meaning | next |
|---|---|---|
| Resizing | the pods get the amounts of `revision` | adopted, or Reverting |
| Reverting | the pods get their old amounts back, because of `reason` | Reverted, or Recreate |
| Reverted | all are back; with the policy InPlaceOnly the set stops here until it is edited | none, or Recreate |
| Recreate | all are back; with the policy InPlaceOrRecreate the group is recreated at the new revision | |

A record about another revision than the wanted one is about an earlier edit: a group that was Resizing finishes or
reverts first, every other phase is over.
"""

from enum import StrEnum

import msgspec

from kohort.objects.recorded_json import read_recorded
from kohort.rules.group_labels import GROUP_RESIZE


class Phase(StrEnum):
    RESIZING = "Resizing"
    REVERTING = "Reverting"
    REVERTED = "Reverted"
    RECREATE = "Recreate"


class RevertReason(StrEnum):
    INFEASIBLE = "Infeasible"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    NODE_NOT_REPORTING = "NodeNotReporting"
    """Until the deadline, the node of a pod did not even look at the resize."""
    NOT_SUPPORTED = "NotSupported"
    WOULD_RESTART = "WouldRestart"
    REFUSED = "Refused"
    NOT_ADMITTED = "NotAdmitted"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CONFLICT = "Conflict"
    SUPERSEDED = "Superseded"


class ResizeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    revision: str
    """Key of the revision that the group is resized to."""
    phase: Phase
    since: float
    """When the resize of this group began, in seconds since the epoch."""
    reason: RevertReason | None = None
    message: str = ""
    """Which pod, and what its node said."""
    deadline: float = 0.0
    """The seconds that were too few, if the deadline was over."""

    @property
    def under_way(self) -> bool:
        """Pods of the group are being given other amounts."""
        return self.phase in (Phase.RESIZING, Phase.REVERTING)

    def stops(self, wanted: str) -> bool:
        """The group keeps its former amounts, and the resize of the set to the wanted revision stops at it."""
        return self.phase is Phase.REVERTED and self.revision == wanted


def read_record(annotations: dict[str, str]) -> ResizeRecord | None:
    """The record of a leader pod. One that cannot be read counts as none: the group is looked at anew."""
    return read_recorded(annotations.get(GROUP_RESIZE, ""), ResizeRecord)


def write_record(record: ResizeRecord) -> str:
    return msgspec.json.encode(record).decode()
