"""What is still to be written, as a value.

Every operation on traffic first looks and plans, then decides by the clock whether the plan may be carried out now,
then writes. An empty plan is the proof that nothing is left to do: `done` is known without remembering anything.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages
from kohort.rollouts.action_result import ProblemReason
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.reference_problems import ObjectMissing, ReferenceProblem, SelectsNoPod
from kohort.rules.rollout_labels import ROUTED_BY


class TrafficProblem(Exception):
    """Something that a person must repair; the text names the object, the field and the remedy."""

    def __init__(self, text: str, reason: ProblemReason = ProblemReason.INVALID_REF) -> None:
        super().__init__(text)
        self.reason = reason


_REASONS: Final[Mapping[type, ProblemReason]] = {
    ObjectMissing: ProblemReason.REF_NOT_FOUND,
    SelectsNoPod: ProblemReason.SERVICE_SELECTS_NO_PODS,
}


def unusable(problem: ReferenceProblem) -> TrafficProblem:
    return TrafficProblem(messages.unusable_reference(problem), _REASONS.get(type(problem), ProblemReason.INVALID_REF))


class TrafficNotReady(Exception):
    """Nothing to repair, only to wait; the text says what is waited for."""


class Write(msgspec.Struct, frozen=True):
    verb: Literal["create", "patch", "delete"]
    resource: Resource
    namespace: str
    name: str
    text: str
    """What this does, in words, for events and messages."""
    body: JsonObject = {}
    uid: str = ""
    """Of the object to delete: a new one of the same name is left alone."""


class TrafficPlan(msgspec.Struct, frozen=True):
    writes: tuple[Write, ...] = ()
    events: tuple[ReleaseEvent, ...] = ()

    def __add__(self, other: "TrafficPlan") -> "TrafficPlan":
        return TrafficPlan(self.writes + other.writes, self.events + other.events)

    @property
    def text(self) -> str:
        return "; ".join(write.text for write in self.writes)


NOTHING_TO_DO = TrafficPlan()


def is_going(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def labels_of_copy(labels: JsonObject | None, owner: JsonObject) -> JsonObject:
    """Labels of an object that is made for the canary after one of the user."""
    return {**(labels or {}), ROUTED_BY: owner["uid"]}


def belongs_to(obj: JsonObject, owner: JsonObject) -> bool:
    metadata = obj["metadata"]
    if (metadata.get("labels") or {}).get(ROUTED_BY) == owner.get("uid"):
        return True
    references = metadata.get("ownerReferences") or ()
    return any(reference.get("uid") == owner.get("uid") for reference in references)


def refuse_foreign(obj: JsonObject, kind: str, owner: JsonObject) -> None:
    """Objects that we would change and later delete must be ours."""
    if belongs_to(obj, owner):
        return
    metadata = obj["metadata"]
    raise TrafficProblem(
        f"{kind} {metadata['namespace']}/{metadata['name']} exists already and does not belong to "
        f"{owner.get('kind')} {owner.get('name')}; delete or rename it, so that one for the canary can be made"
    )
