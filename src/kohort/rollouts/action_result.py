"""What comes of an action on a workload or on traffic: it is done, it waits, or a person must repair something."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from kohort.rollouts.messages import ReleaseEvent
from kohort.rules import rollout_labels


class ProblemReason(StrEnum):
    """Why references of a Rollout cannot be used; a reason of its condition ResolvedRefs."""

    REF_NOT_FOUND = "RefNotFound"
    SERVICE_SELECTS_NO_PODS = "ServiceSelectsNoPods"
    INVALID_REF = "InvalidRef"


class Done(msgspec.Struct, frozen=True):
    """Nothing is left to do."""

    changed: bool = False
    """Whether this call changed something in the cluster."""
    grace_times: Mapping[str, str] | None = None
    """When which change of traffic was made, to be stored in place of what was stored; None leaves that as it is."""
    events: tuple[ReleaseEvent, ...] = ()


class Waiting(msgspec.Struct, frozen=True):
    """Not an error: something in the cluster has to happen first."""

    text: str = ""
    """What is waited for."""
    seconds: float = rollout_labels.RECHECK
    """When to look again; 0 means as soon as `grace_times` is stored."""
    changed: bool = False
    grace_times: Mapping[str, str] | None = None
    events: tuple[ReleaseEvent, ...] = ()


class Problem(msgspec.Struct, frozen=True):
    """Something that a person must repair."""

    text: str
    """Names the object, the field, and what to do."""
    reason: ProblemReason = ProblemReason.INVALID_REF
    grace_times: Mapping[str, str] | None = None
    events: tuple[ReleaseEvent, ...] = ()


ActionResult = Done | Waiting | Problem

DONE: Final = Done()
