"""The objects around a pod that explain why it is not ready."""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.advice import Command, Verb
from kohort.objects.core import Event, PersistentVolumeClaim, Pod


class PodContext(msgspec.Struct, frozen=True):
    reference: str
    """What a person types for the workload that the pod belongs to."""
    namespace: str
    pods: Sequence[Pod] = ()
    """All of the workload."""
    events: Sequence[Event] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    group_set: LeaderWorkerSet | None = None
    """The set, if the pod is one of a group."""
    silent_nodes: Mapping[str, str] = {}
    """Nodes that do not report that they are ready, by name: since when."""
    domains_of_others: Mapping[str, tuple[str, ...]] = {}
    """Topology domains that an exclusive set may not use, by the other sets there."""

    def command(self, verb: Verb, *options: str) -> Command:
        return Command(verb, self.reference, self.namespace, options)
