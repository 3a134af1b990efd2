"""Leader election on a Lease.

Safety rests on two things only. Every write carries the resource version that the decision was made on, so of two
candidates that want the lease at the same moment one gets a 409. And whether a foreign lease has expired is judged by
how long *this* process has seen it unchanged, never by comparing clocks of two machines.

A leader that cannot renew for `renew_deadline` seconds stops leading before the others may take over after
`lease_duration`; the difference must cover the time that stopping takes.

On an orderly end the lease is emptied, so that the next candidate need not wait.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from kohort.kube import clock, errors
from kohort.kube.client import Client
from kohort.kube.log import Log
from kohort.kube.resources import LEASES
from kohort.kube.tasks import as_coroutine, cancel_all
from kohort.objects.json_types import JsonObject

_log = Log(module="kohort.kube.leader_election")


class LeadershipLost(Exception):
    """The lease could not be renewed in time, or another process holds it."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class LeaderElection:
    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period > 0:
            raise ValueError(
                "leader election needs lease_duration > renew_deadline > retry_period > 0, "
                f"got {lease_duration}, {renew_deadline}, {retry_period}"
            )
        self.identity = identity
        self._client = client
        self._name = name
        self._namespace = namespace
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._seen: _Lease | None = None
        self._seen_at = 0.0
        """Since when the lease looks as it does."""
        self._renewed_at = 0.0
        """When we asked for the last write that succeeded: the others count from then on, or later."""
        self._leading = False
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def leading(self) -> bool:
        return self._leading

    @property
    def holder(self) -> str:
        """The identity that held the lease at the last read."""
        return self._seen.spec.holder_identity if self._seen else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run `lead` while renewing it; release the lease when `lead` ends. Raises
        LeadershipLost, after `lead` has been cancelled and has ended, when the lease cannot be kept."""
        await self._acquire()
        self._set_leading(True)
        self._log.info("leading")
        work = asyncio.create_task(as_coroutine(lead), name=f"lead-{self._name}")
        renewal = asyncio.create_task(self._keep(), name=f"renew-{self._name}")
        lost = False
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            lost = renewal.done() and not work.done()
            if work.done():
                work.result()
        finally:
            await cancel_all(work)
            await cancel_all(renewal)
            self._set_leading(False)
            await self._release()
        if lost:
            raise LeadershipLost(f"{self.identity} lost lease {self._namespace}/{self._name} (holder {self.holder!r})")

    async def _acquire(self) -> None:
        taken = await self._try()
        if not taken:
            self._log.info("standing by", holder=self.holder)
        while not taken:
            await self._wait_for_release(self._until_next_attempt())
            taken = await self._try()

    def _until_next_attempt(self) -> float:
        """The usual pause, or until the lease runs out if that is sooner: a crashed leader loses the lease then."""
        usual = self._retry_period * random.uniform(1.0, 2.2)
        if self._seen is None:
            return usual
        left = self._seen_at + self._seen.spec.lease_duration_seconds - asyncio.get_running_loop().time()
        return min(usual, left) if left > 0 else usual

    async def _wait_for_release(self, longest: float) -> None:
        """Return when the lease is released, or after `longest` seconds: time itself may have made it free."""
        try:
            async with asyncio.timeout(longest):
                async for event in self._client.watch(
                    LEASES, self._namespace, type=_Lease, field_selector=f"metadata.name={self._name}"
                ):
                    if event.type == "DELETED" or not event.object.spec.holder_identity:
                        return
                    self._observe(event.object)
                # The server ended the watch early.
                await asyncio.sleep(longest)
        except TimeoutError:
            return
        except errors.ApiError as problem:
            self._log.debug("lease not watched", problem=problem.message)
            await asyncio.sleep(longest)

    async def _keep(self) -> None:
        """Returns when the lease is lost."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self._retry_period)
            try:
                async with asyncio.timeout_at(self._renewed_at + self._renew_deadline):
                    held = await self._try()
            except TimeoutError:
                return
            if not held and (self._lost_to_another() or now() >= self._renewed_at + self._renew_deadline):
                return

    def _lost_to_another(self) -> bool:
        return self.holder not in ("", self.identity)

    async def _try(self) -> bool:
        """Take or renew the lease if that is allowed now. Never raises for an API error."""
        try:
            return await self._take()
        except errors.ApiError as problem:
            self._log.warning("failed to acquire lease", problem=problem.message)
            return False

    async def _take(self) -> bool:
        asked_at = asyncio.get_running_loop().time()
        lease: _Lease | None = await self._client.find(LEASES, self._name, self._namespace, type=_Lease)
        if lease is None:
            document = self._document(None, self._claim(None))
            written = await self._client.create(LEASES, document, self._namespace, type=_Lease)
        else:
            self._observe(lease)
            if lease.spec.holder_identity not in ("", self.identity) and not self._expired(lease):
                return False
            written = await self._client.update(LEASES, self._document(lease, self._claim(lease)), type=_Lease)
        self._observe(written)
        self._renewed_at = asked_at
        return True

    def _observe(self, lease: _Lease) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen_at = asyncio.get_running_loop().time()
        self._seen = lease

    def _expired(self, lease: _Lease) -> bool:
        return asyncio.get_running_loop().time() >= self._seen_at + lease.spec.lease_duration_seconds

    def _claim(self, lease: _Lease | None) -> JsonObject:
        now = clock.micro_timestamp()
        mine = lease is not None and lease.spec.holder_identity == self.identity
        transitions = lease.spec.lease_transitions + (not mine) if lease is not None else 0
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._lease_duration)),
            "acquireTime": lease.spec.acquire_time if mine and lease is not None else now,
            "renewTime": now,
            "leaseTransitions": int(transitions),
        }

    def _document(self, lease: _Lease | None, spec: JsonObject) -> JsonObject:
        metadata: JsonObject = {"name": self._name, "namespace": self._namespace}
        if lease is not None:
            metadata["resourceVersion"] = lease.metadata.resource_version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }

    async def _release(self) -> None:
        lease = self._seen
        if lease is None or lease.spec.holder_identity != self.identity:
            return
        now = clock.micro_timestamp()
        spec: JsonObject = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": lease.spec.lease_transitions,
        }
        try:
            async with asyncio.timeout(self._retry_period):
                await self._client.update(LEASES, self._document(lease, spec))
        except (errors.ApiError, TimeoutError) as problem:
            self._log.warning("lease not given back, it will expire", problem=str(problem) or type(problem).__name__)

    def _set_leading(self, leading: bool) -> None:
        self._leading = leading
        if self._client.metrics is not None:
            self._client.metrics.leading(self._name, leading)
