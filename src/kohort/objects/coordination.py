"""Leases: leader election and node heartbeats."""

from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View


class LeaseSpec(View, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
