"""A workload that a Rollout may release, as far as all kinds of workloads are alike."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kohort.inspection.advice import Command, Verb
from kohort.inspection.served_revisions import Version
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.rollout_types import Rollout
from kohort.rules.release_hold import is_held_by_release
from kohort.rules.rollout_labels import DISABLING, PROGRESSING, TERMINATING


class Subject(Protocol):
    @property
    def kind(self) -> str:
        """LeaderWorkerSet, Deployment, StatefulSet"""
        ...

    @property
    def reference(self) -> str:
        """What a person types for it."""
        ...

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def replicas(self) -> int: ...

    @property
    def rollout(self) -> Rollout | None:
        """The Rollout that releases it, if there is one."""
        ...

    @property
    def routes(self) -> Sequence[JsonObject]:
        """The routes that it moves requests by."""
        ...

    @property
    def releasing(self) -> bool: ...

    @property
    def held(self) -> bool:
        """A roll is kept from going on by the workload itself: a partition, `paused`."""
        ...

    @property
    def versions(self) -> Sequence[Version]: ...

    def has_version(self, recorded: str) -> bool:
        """Whether its template is the one that a Rollout has recorded as the version to release."""
        ...

    @property
    def update_key(self) -> str:
        """Of the version that replicas shall have."""
        ...

    @property
    def stable_key(self) -> str:
        """Of the version that all replicas had last; empty if that is not known."""
        ...

    @property
    def using(self) -> Mapping[str, tuple[int, ...]]:
        """By key of a version: groups that have it now. Of workloads without groups: as many zeros as pods."""
        ...


def title(subject: Subject) -> str:
    return f"{subject.kind} {subject.metadata.name}"


def command(subject: Subject, verb: Verb, *options: str) -> Command:
    return Command(verb, subject.reference, subject.metadata.namespace, options)


def is_releasing(metadata: ObjectMeta, rollout: Rollout | None) -> bool:
    """A Rollout brings a new version and holds the workload until its end. The workload is marked from the moment at
    which its template changes, before the Rollout itself shows anything."""
    if rollout is None:
        return False
    return is_held_by_release(metadata.annotations) or rollout.status.phase in (PROGRESSING, DISABLING, TERMINATING)
