"""Takes single pods out of Services before they are deleted, and waits for their requests in flight.

A Service selects pods by labels that they keep until they are gone, so a pod that is about to be deleted would get new
requests until the end. While pods leave, the Service asks for one more label, and the pods that stay have it:

| order | what | why |
|--:|---|---|
| 1 | every pod that stays gets the label, every pod that leaves loses it | no pod that stays may be missed |
| 2 | the selector asks for the label; an annotation has time and pods | nothing new arrives at pods that leave |
| 3 | the grace period passes, then requests in flight are waited for | as at every other change of traffic |
| 4 | the pods are deleted by their controller | |
| 5 | the selector is as before | pods may serve again |
| 6 | the label is gone, then the annotation | the annotation says that labels may be left |

Pods that come meanwhile get the label at the next look, a second later. Everything that must survive a restart is on
the Service; the selector that the user wrote is known from it alone.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.merge_patch import locked
from kohort.kube.resources import PODS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts import messages
from kohort.rollouts.action_result import Done, Waiting
from kohort.rollouts.analysis.http_fetch import Fetch
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.traffic.draining import Drained, DrainTimedOut, StillDraining, decide_drain
from kohort.rollouts.traffic.in_flight import InFlightReader
from kohort.rollouts.traffic.model import RouteRef, routing_grace
from kohort.rollouts.traffic.pending_writes import is_going
from kohort.rollouts.traffic.services import unpinned_selector
from kohort.rules.rollout_labels import SERVES, WITHDRAWN_PODS

LOOK_SECONDS: Final = 1.0


class WithdrawnPods(msgspec.Struct, frozen=True):
    """The annotation of a Service."""

    since: str
    pods: tuple[str, ...]
    """Their uids."""


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


def selector_without_withdrawal(service: JsonObject) -> dict[str, str]:
    selector: dict[str, str] = service["spec"].get("selector") or {}
    return {key: value for key, value in selector.items() if key != SERVES}


def plan_withdrawal(
    service: JsonObject, pods: Sequence[JsonObject], leaving: Collection[str], now: datetime
) -> WithdrawalPlan:
    """`pods` are those that the Service selects without the label, `leaving` uids of those that go."""
    known = withdrawn_pods(service)
    gone = {pod["metadata"]["uid"] for pod in pods if pod["metadata"]["uid"] in leaving}
    # Pods that the Service selects again have got requests since the recorded time.
    narrowed = (service["spec"].get("selector") or {}).get(SERVES) == "true"
    goes_on = known is not None and narrowed and gone <= set(known.pods)
    record = known if known is not None and goes_on else WithdrawnPods(now.isoformat(), tuple(sorted(gone)))
    patch: JsonObject | None = None
    if not goes_on:
        text = msgspec.json.encode(record).decode()
        patch = {"metadata": {"annotations": {WITHDRAWN_PODS: text}}, "spec": {"selector": {SERVES: "true"}}}
    return WithdrawalPlan(
        label=tuple(_name(pod) for pod in pods if pod["metadata"]["uid"] not in gone and not _serves(pod)),
        unlabel=tuple(_name(pod) for pod in pods if pod["metadata"]["uid"] in gone and _serves(pod)),
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


def _name(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])


class PodWithdrawal:
    def __init__(self, client: Client, fetch: Fetch) -> None:
        self._client = client
        self._in_flight = InFlightReader(client, fetch)

    async def withdraw(
        self, namespace: str, refs: Sequence[RouteRef], leaving: Collection[str], *, drained: bool = False
    ) -> Done | Waiting:
        """`Done` when nothing is in flight at the pods that leave, or the time for it is over. With `drained` they are
        only kept out of the Services."""
        waiting: list[Waiting] = []
        events: tuple[ReleaseEvent, ...] = ()
        for ref in refs:
            if ref.drain_timeout_seconds <= 0:
                continue
            result = await self._withdraw(namespace, ref, leaving, drained=drained)
            events += result.events
            if isinstance(result, Waiting):
                waiting.append(result)
        if not waiting:
            return Done(events=events)
        soonest = min(waiting, key=lambda one: one.seconds)
        return Waiting(waiting[0].text, soonest.seconds, events=events)

    async def _withdraw(
        self, namespace: str, ref: RouteRef, leaving: Collection[str], *, drained: bool
    ) -> Done | Waiting:
        service: JsonObject | None = await self._client.find(SERVICES, ref.service, namespace)
        if service is None or not selector_without_withdrawal(service):
            return Done()
        pods = await self._selected(service)
        mine = [pod for pod in pods if pod["metadata"]["uid"] in leaving]
        if not mine:
            await self._put_back(service)  # Pods that have left it before may be there still.
            return Done()
        plan = plan_withdrawal(service, pods, leaving, clock.now())
        await self._carry_out(service, plan)
        if drained:
            return Done()
        grace = routing_grace((ref,))
        routed_elsewhere = datetime.fromisoformat(plan.record.since) + timedelta(seconds=grace)
        left = min((routed_elsewhere - clock.now()).total_seconds(), grace)
        names = ", ".join(_name(pod) for pod in mine[:3]) + (" …" if len(mine) > 3 else "")
        if left > 0:
            return Waiting(f"{names} get no more requests of Service {ref.service}", left)
        found = await self._in_flight.read(namespace, mine, service)
        match decide_drain(found, routed_elsewhere.isoformat(), clock.now(), ref.drain_timeout_seconds):
            case Drained():
                return Done()
            case StillDraining(text=text, seconds=seconds):
                return Waiting(text, seconds)
            case DrainTimedOut(text=text):
                return Done(events=(messages.drain_timed_out(text),))

    async def put_back(self, namespace: str, refs: Sequence[RouteRef]) -> None:
        """No pod leaves any more."""
        for ref in refs:
            service: JsonObject | None = await self._client.find(SERVICES, ref.service, namespace)
            if service is not None:
                await self._put_back(service)

    async def put_back_without_rollout(self, namespace: str, uids: Collection[str]) -> None:
        """The Services from which these pods, and no others, were taken: the Rollout that named them is gone."""
        for service in (await self._client.list(SERVICES, namespace)).items:
            known = withdrawn_pods(service)
            if known is None:
                continue
            pods = await self._selected(service)
            if {pod["metadata"]["uid"] for pod in pods}.intersection(known.pods) <= set(uids):
                await self._put_back(service)

    async def _put_back(self, service: JsonObject) -> None:
        """Also pods of a version that the Service does not select any more may have the label."""
        if plan_return(service, ()).annotation is None:
            return
        pods = await self._matching(unpinned_selector(service), service)
        plan, metadata = plan_return(service, pods), service["metadata"]
        if plan.selector is not None:
            metadata = (await self._patch_service(metadata, plan.selector))["metadata"]
        await self._label(metadata["namespace"], plan.unlabel, None)
        if plan.annotation is not None:
            await self._patch_service(metadata, plan.annotation)

    async def _selected(self, service: JsonObject) -> list[JsonObject]:
        return await self._matching(selector_without_withdrawal(service), service)

    async def _matching(self, selector: Mapping[str, str], service: JsonObject) -> list[JsonObject]:
        """Pods that are being deleted get no requests anyway."""
        text = ",".join(f"{key}={value}" for key, value in selector.items())
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
