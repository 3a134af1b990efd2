"""Which revisions of a workload have served, and to which one `undo` returns.

The operator versions a revision (`kohort.dev/served-at`) when all replicas were ready at it. Revisions from before the
operator did so have no mark, so a missing mark says something only where there is other evidence:

| the revision | has it served? |
|---|---|
| is marked | yes |
| is the stable one, as the status of the workload says | yes |
| is the wanted one, and another one is stable | not yet |
| is newer than the stable one | never: it was replaced by another before it was ready everywhere |
| was made after another one was marked | never: the operator versions them |
| otherwise | it is assumed |

| undo, without a revision | returns to |
|---|---|
| while a roll or a release is under way | the stable one |
| otherwise | the newest other one that has served, or is assumed to have |
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

SERVED_AT: Final = group_labels.SERVED_AT
CHANGE_CAUSE: Final = group_labels.CHANGE_CAUSE


class ServedRevision(Enum):
    YES = "yes"
    ASSUMED = "assumed"
    NOT_YET = "not yet"
    NEVER = "never"

    @property
    def may_be_returned_to(self) -> bool:
        return self in (ServedRevision.YES, ServedRevision.ASSUMED)


class Version(msgspec.Struct, frozen=True):
    """A revision of a workload, kept as a ControllerRevision or a ReplicaSet."""

    number: int
    key: str
    created: str = ""
    served_at: str = ""
    change_cause: str = ""
    content: JsonObject = {}
    """The part of the workload's specification that it keeps."""
    images: tuple[str, ...] = ()
    size: int = 1
    """Pods of a group; 1 for workloads without groups."""


def images(*templates: JsonObject) -> tuple[str, ...]:
    """Of the containers in these pod templates, each once."""
    found: dict[str, None] = {}
    for template in templates:
        for container in (template.get("spec") or {}).get("containers") or ():
            found[container.get("image", "")] = None
    return tuple(found)


def judged(versions: Sequence[Version], wanted: str, stable: str) -> Mapping[str, ServedRevision]:
    """By key of a revision. `wanted` and `stable` are keys; `stable` is empty if the workload does not say."""
    numbers = {one.key: one.number for one in versions}
    first = min((one.served_at for one in versions if one.served_at), default="")
    moving = stable in numbers and stable != wanted
    found: dict[str, ServedRevision] = {}
    for one in versions:
        if one.served_at or one.key == stable:
            found[one.key] = ServedRevision.YES
        elif one.key == wanted:
            found[one.key] = ServedRevision.NOT_YET if moving or first else ServedRevision.ASSUMED
        elif (moving and one.number > numbers[stable]) or (first and one.created > first):
            found[one.key] = ServedRevision.NEVER
        else:
            found[one.key] = ServedRevision.ASSUMED
    return found


def key_to_return_to(versions: Sequence[Version], wanted: str, stable: str) -> str:
    """Of the revision that `undo` means if none is named; empty if there is none."""
    if stable != wanted and any(one.key == stable for one in versions):
        return stable
    known = judged(versions, wanted, stable)
    others = [one for one in versions if one.key != wanted and known[one.key].may_be_returned_to]
    return max(others, key=lambda one: one.number).key if others else ""
