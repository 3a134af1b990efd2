"""What all kinds share: metadata, owner references, conditions, label selectors, references to other objects."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from collections.abc import Iterable
from typing import Protocol, TypeVar

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import NOTHING, LabelSelector
from kohort.objects.view import View


class OwnerReference(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


def controller_reference(api_version: str, kind: str, name: str, uid: str) -> JsonObject:
    """An entry for `metadata.ownerReferences` of what an object controls. A foreground deletion of the owner waits for
    such objects."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ObjectMeta(View, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; there is at most one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    def is_controlled_by(self, uid: str) -> bool:
        """By the very owner with this uid, not by another of its name."""
        owner = self.controller
        return owner is not None and owner.uid == uid

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None


class PartialObject(View, frozen=True):
    """Any object, when only its metadata matters."""

    metadata: ObjectMeta = ObjectMeta()
    api_version: str = ""
    kind: str = ""


class Condition(View, frozen=True):
    """One entry of `status.conditions`, of any kind. `last_probe_time` exists only on pods and nodes' heartbeats."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    last_update_time: str | None = None
    last_heartbeat_time: str | None = None

    def document(self) -> JsonObject:
        """As it is written: servers require the status, also where it is the default."""
        known: JsonObject = msgspec.to_builtins(self)
        return {"type": self.type, "status": self.status, **known}


class _Typed(Protocol):
    @property
    def type(self) -> str: ...


C = TypeVar("C", bound=_Typed)


def find_condition(conditions: Iterable[C], type: str) -> C | None:
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def condition_is(conditions: Iterable[Condition], type: str, status: str = "True") -> bool:
    """Whether a condition is present with this status; an absent one has none."""
    found = find_condition(conditions, type)
    return found is not None and found.status == status


class SelectorExpression(View, frozen=True):
    """One of `matchExpressions`. `Gt` and `Lt` exist only for nodes."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(View, frozen=True):
    """A LabelSelector as it stands in a spec."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorExpression, ...] = ()

    def compiled(self) -> LabelSelector:
        """Ready to match; ValueError if a server let something invalid through."""
        document: JsonObject = msgspec.to_builtins(self)
        return LabelSelector.from_object(document)


def compiled(selector: Selector | None) -> LabelSelector:
    """An absent selector selects nothing, an empty one everything."""
    return NOTHING if selector is None else selector.compiled()


class ObjectReference(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class KeySelector(View, frozen=True):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool = False
