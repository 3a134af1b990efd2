"""Takes single pods out of Services before they are deleted, and waits for their requests in flight.

A Service selects pods by labels that they keep until they are gone, so a pod that is about to be deleted would get new
requests until the end. While pods leave, the Service asks for one more label, and the pods that stay have it:

| order | what | why |
|--:|---|---|
| 1 | every pod that stays gets the label, every pod that leaves loses it | no pod that stays may be missed |
| 2 | the selector asks for the label; an annotation has the pods | nothing new arrives at pods that leave |
| 3 | the grace period passes, then requests in flight are waited for | as at every other change of traffic |
| 4 | the pods are deleted by their controller | |
| 5 | the selector is as before | pods may serve again |
| 6 | the label is gone, then the annotation | the annotation says that labels may be left |

Pods that come meanwhile get the label at the next look, a second later. Everything that must survive a restart is on
the Service; the selector that the user wrote is known from it alone.

Several workloads may be behind one Service. The annotation says of each pod that leaves to which workload it belongs
and since when it gets no requests. A workload withdraws and puts back its own pods only:

| pods that leave | when a workload puts its pods back |
|---|---|
| only its own, or none | steps 5 and 6 |
| also pods of other workloads that live | its pods get the label and leave the annotation; the selector stays |

A pod of the annotation that has the label, or that the selector does not exclude, was selected again by another
client: its time begins anew. So does a time in the future, after the clock was set back.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.merge_patch import locked
from kohort.kube.resources import PODS, SERVICES, Key, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.objects.selectors import selecting
from kohort.rollouts import messages
from kohort.rollouts.action_result import Done, Waiting
from kohort.rollouts.analysis.http_fetch import Fetch
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.traffic.draining import Drained, DrainTimedOut, StillDraining, decide_drain
from kohort.rollouts.traffic.in_flight import InFlightReader
from kohort.rollouts.traffic.model import RouteRef, routing_grace
from kohort.rollouts.traffic.pending_writes import is_going
from kohort.rollouts.traffic.services import selector_without_withdrawal, unpinned_selector
from kohort.rules.rollout_labels import SERVES, WITHDRAWN_PODS

LOOK_SECONDS: Final = 1.0


class WithdrawnPod(msgspec.Struct, frozen=True):
    workload: str
    """As `workload_name` spells it."""
    since: str


class WithdrawnPods(msgspec.Struct, frozen=True):
    """The annotation of a Service."""

    pods: dict[str, WithdrawnPod] = {}
    """By uid."""


class WithdrawalPlan(msgspec.Struct, frozen=True):
    record: WithdrawnPods
    label: tuple[str, ...] = ()
    """Names of pods that get the label."""
    unlabel: tuple[str, ...] = ()
    service: JsonObject | None = None
    """A patch; None if the Service is as it should be."""


class ReturnPlan(msgspec.Struct, frozen=True):
    """In the order of its fields."""

    selector: JsonObject | None = None
    """A patch of the Service; None if it selects all pods already."""
    unlabel: tuple[str, ...] = ()
    annotation: JsonObject | None = None
    """A patch of the Service; None if there was nothing to do."""


def withdrawn_pods(service: JsonObject) -> WithdrawnPods | None:
    text = (service["metadata"].get("annotations") or {}).get(WITHDRAWN_PODS)
    return read_recorded(text or "", WithdrawnPods)


def workload_name(resource: Resource, name: str) -> str:
    return f"{resource.kind}/{name}"


def plan_withdrawal(
    service: JsonObject, pods: Sequence[JsonObject], workload: str, leaving: Collection[str], now: datetime
) -> WithdrawalPlan:
    """`pods` are those that the Service selects without the label, `leaving` uids of those of the workload that go."""
    known = withdrawn_pods(service) or WithdrawnPods()
    narrowed = (service["spec"].get("selector") or {}).get(SERVES) == "true"
    living = {pod["metadata"]["uid"]: pod for pod in pods}
    owners = {uid: one.workload for uid, one in known.pods.items() if one.workload != workload}
    owners = {uid: name for uid, name in (owners | dict.fromkeys(leaving, workload)).items() if uid in living}
    since = {
        uid: one.since
        for uid, one in known.pods.items()
        if uid in living and narrowed and not _serves(living[uid]) and datetime.fromisoformat(one.since) <= now
    }
    record = WithdrawnPods({uid: WithdrawnPod(owners[uid], since.get(uid, now.isoformat())) for uid in sorted(owners)})
    patch: JsonObject | None = None
    if not narrowed or record != known:
        text = msgspec.json.encode(record).decode()
        patch = {"metadata": {"annotations": {WITHDRAWN_PODS: text}}, "spec": {"selector": {SERVES: "true"}}}
    return WithdrawalPlan(
        label=tuple(_name(pod) for uid, pod in living.items() if uid not in owners and not _serves(pod)),
        unlabel=tuple(_name(pod) for uid, pod in living.items() if uid in owners and _serves(pod)),
        service=patch,
        record=record,
    )


def plan_return(service: JsonObject, pods: Sequence[JsonObject]) -> ReturnPlan:
    """The Service as the user wrote it."""
    narrowed = SERVES in (service["spec"].get("selector") or {})
    if not narrowed and WITHDRAWN_PODS not in (service["metadata"].get("annotations") or {}):
        return ReturnPlan()
    return ReturnPlan(
        selector={"spec": {"selector": {SERVES: None}}} if narrowed else None,
        unlabel=tuple(_name(pod) for pod in pods if _serves(pod)),
        annotation={"metadata": {"annotations": {WITHDRAWN_PODS: None}}},
    )


def _serves(pod: JsonObject) -> bool:
    return SERVES in (pod["metadata"].get("labels") or {})


def _has_labels(pod: JsonObject, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= (pod["metadata"].get("labels") or {}).items()


def _name(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])


class PodWithdrawal:
    def __init__(self, client: Client, fetch: Fetch) -> None:
        self._client = client
        self._in_flight = InFlightReader(client, fetch)
        self._left: dict[tuple[str, str], set[str]] = {}
        """Services that pods of a workload have left, by its namespace and name; without a name where none of
        those pods lives, or the annotation cannot be read."""
        self._looked_through: set[str] = set()
        """Namespaces of which all Services were looked at since the start."""
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        """Of Services: two workloads that change the labels of one at a time would undo each other."""

    async def withdraw(
        self,
        namespace: str,
        refs: Sequence[RouteRef],
        workload: str,
        leaving: Collection[str],
        *,
        drained: bool = False,
    ) -> Done | Waiting:
        """`Done` when nothing is in flight at the pods that leave, or the time for it is over. With `drained` they are
        only kept out of the Services."""
        waiting: list[Waiting] = []
        events: tuple[ReleaseEvent, ...] = ()
        for ref in refs:
            if ref.drain_timeout_seconds <= 0:
                continue
            result = await self._withdraw(namespace, ref, workload, leaving, drained=drained)
            events += result.events
            if isinstance(result, Waiting):
                waiting.append(result)
        if not waiting:
            return Done(events=events)
        soonest = min(waiting, key=lambda one: one.seconds)
        return Waiting(waiting[0].text, soonest.seconds, events=events)

    async def _withdraw(
        self, namespace: str, ref: RouteRef, workload: str, leaving: Collection[str], *, drained: bool
    ) -> Done | Waiting:
        async with self._turn(namespace, ref.service):
            service: JsonObject | None = await self._client.find(SERVICES, ref.service, namespace)
            if service is None or not selector_without_withdrawal(service):
                return Done()
            pods = await self._matching(service)
            selector = selector_without_withdrawal(service)
            mine = [pod for pod in pods if pod["metadata"]["uid"] in leaving and _has_labels(pod, selector)]
            if not mine:
                await self._put_back(service, workload)  # Pods that have left it before may be there still.
                return Done()
            plan = plan_withdrawal(service, pods, workload, leaving, clock.now())
            self._left.setdefault((namespace, workload), set()).add(ref.service)
            await self._carry_out(service, plan)
        return Done() if drained else await self._wait(ref, service, mine, plan.record)

    async def _wait(
        self, ref: RouteRef, service: JsonObject, mine: Sequence[JsonObject], record: WithdrawnPods
    ) -> Done | Waiting:
        """The grace period of the pod that left last, then the requests of all."""
        namespace, grace = service["metadata"]["namespace"], routing_grace((ref,))
        routed_elsewhere = {
            _name(pod): datetime.fromisoformat(record.pods[pod["metadata"]["uid"]].since) + timedelta(seconds=grace)
            for pod in mine
        }
        left = min((max(routed_elsewhere.values()) - clock.now()).total_seconds(), grace)
        names = ", ".join(_name(pod) for pod in mine[:3]) + (" …" if len(mine) > 3 else "")
        if left > 0:
            return Waiting(f"{names} get no more requests of Service {ref.service}", left)
        found = await self._in_flight.read(namespace, mine, service)
        began = max((routed_elsewhere[pod] for pod, count in found.items() if count > 0), default=None)
        text_of_began = began.isoformat() if began is not None else None
        match decide_drain(found, text_of_began, clock.now(), ref.drain_timeout_seconds):
            case Drained():
                return Done()
            case StillDraining(text=text, seconds=seconds):
                return Waiting(text, seconds)
            case DrainTimedOut(text=text):
                return Done(events=(messages.drain_timed_out(text),))

    async def put_back(self, namespace: str, workload: str) -> None:
        """No pod of the workload leaves any more. Also Services that its Rollout does not name any more are as
        before."""
        await self._look_through(namespace)
        for owner in (workload, ""):
            for name in sorted(self._left.get((namespace, owner), ())):
                async with self._turn(namespace, name):
                    service: JsonObject | None = await self._client.find(SERVICES, name, namespace)
                    if service is not None:
                        await self._put_back(service, workload)
            self._left.pop((namespace, owner), None)

    async def _look_through(self, namespace: str) -> None:
        """An operator that was here before may have left pods withdrawn."""
        if namespace in self._looked_through:
            return
        for service in (await self._client.list(SERVICES, namespace)).items:
            if plan_return(service, ()).annotation is None:
                continue
            known = (withdrawn_pods(service) or WithdrawnPods()).pods
            living = {pod["metadata"]["uid"] for pod in await self._matching(service)}
            for owner in {one.workload for uid, one in known.items() if uid in living} or {""}:
                self._left.setdefault((namespace, owner), set()).add(service["metadata"]["name"])
        self._looked_through.add(namespace)

    async def _put_back(self, service: JsonObject, workload: str) -> None:
        """Also pods of a version that the Service does not select any more may have the label."""
        if plan_return(service, ()).annotation is None:
            return
        pods = await self._matching(service)
        others = plan_withdrawal(service, pods, workload, (), clock.now())
        if others.record.pods:
            await self._carry_out(service, others)
            return
        plan, metadata = plan_return(service, pods), service["metadata"]
        if plan.selector is not None:
            metadata = (await self._patch_service(metadata, plan.selector))["metadata"]
        await self._label(metadata["namespace"], plan.unlabel, None)
        if plan.annotation is not None:
            await self._patch_service(metadata, plan.annotation)

    def _turn(self, namespace: str, service: str) -> asyncio.Lock:
        return self._turns.setdefault(Key(namespace, service), asyncio.Lock())

    async def _matching(self, service: JsonObject) -> list[JsonObject]:
        """Pods that the Service selects as its user wrote it. Those that are being deleted get no requests anyway."""
        text = selecting(unpinned_selector(service))
        page = await self._client.list(PODS, service["metadata"]["namespace"], label_selector=text)
        return [pod for pod in page.items if not is_going(pod)]

    async def _carry_out(self, service: JsonObject, plan: WithdrawalPlan) -> None:
        metadata = service["metadata"]
        await self._label(metadata["namespace"], plan.label, "true")
        await self._label(metadata["namespace"], plan.unlabel, None)
        if plan.service is not None:
            await self._patch_service(metadata, plan.service)

    async def _label(self, namespace: str, pods: Sequence[str], value: str | None) -> None:
        for name in pods:
            try:
                await self._client.patch(PODS, name, namespace, {"metadata": {"labels": {SERVES: value}}})
            except NotFound:
                continue

    async def _patch_service(self, metadata: JsonObject, patch: JsonObject) -> JsonObject:
        body = locked(patch, metadata["resourceVersion"])
        found: JsonObject = await self._client.patch(SERVICES, metadata["name"], metadata["namespace"], body)
        return found
