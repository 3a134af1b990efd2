"""Traffic on a cluster: the operations of `model.Traffic`.

Each operation plans what is missing from what the cluster says now, and carries the plan out when the pace allows it.
Reads are a handful per call; while a step waits, its routes are only compared (`find_drift`).

A step that routes has three stages, each with a stored time of its own, so that each has its own grace period:

| stage    | what                                                      | why before the next                           |
|----------|-----------------------------------------------------------|-----------------------------------------------|
| services | canary Service, pin of the stable one                     | no route may lead to a Service without pods   |
| open     | canary Ingress, without traffic                           | a weight can be changed in one place, at once |
| routes   | weights and matches, once the canary has a ready endpoint |                                               |
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from typing import Final, ParamSpec, cast

import msgspec

from kohort.kube import clock, errors
from kohort.kube.client import Client
from kohort.kube.resources import (
    INGRESSES,
    SERVICES,
    Key,
)
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.analysis.http_fetch import Fetch, HttpFetch
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.traffic import httproute, ingress, services
from kohort.rollouts.traffic.annotations import CONFIGURATION, CONFIGURATION_NAMESPACE
from kohort.rollouts.traffic.custom_objects import CustomNetworkObjects
from kohort.rollouts.traffic.draining import Drained, DrainTimedOut, StillDraining, decide_drain, drain_timeout
from kohort.rollouts.traffic.in_flight import InFlightReader
from kohort.rollouts.traffic.ingress_classes import IngressClasses
from kohort.rollouts.traffic.lookup import ClusterLookup, UserScripts
from kohort.rollouts.traffic.lua.sandbox import Sandbox
from kohort.rollouts.traffic.model import (
    IngressRef,
    Pace,
    RouteRef,
    TrafficRequest,
    TrafficStep,
    finalising_grace,
    pace,
    routing_grace,
)
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, TrafficNotReady, TrafficPlan, TrafficProblem, Write
from kohort.rules import group_labels

EVERYTHING: Final = TrafficStep(weight=100)

SCRIPTS: Final = Key(CONFIGURATION_NAMESPACE, CONFIGURATION)

PIN: Final = "pin"
PREPARE: Final = "services"
OPEN: Final = "open"
ROUTES: Final = "routes"
RESTORE_ROUTES: Final = "restoreRoutes"
RESTORE_SERVICE: Final = "restoreService"
REMOVE_SERVICE: Final = "removeCanaryService"
DRAIN_NEW: Final = "drainCanary"
DRAIN_STABLE: Final = "drainStable"

ENDS: Final[Mapping[str, frozenset[str]]] = {
    RESTORE_ROUTES: frozenset({PREPARE, OPEN, ROUTES, DRAIN_STABLE}),
    RESTORE_SERVICE: frozenset({PIN}),
    ROUTES: frozenset({RESTORE_ROUTES, DRAIN_NEW}),
}
"""Changes whose times mean nothing any more once another has begun."""

REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest)
P = ParamSpec("P")
Planner = Callable[[RouteRef], Awaitable[TrafficPlan]]


def _returning_problems(
    operation: Callable[P, Awaitable[ActionResult]],
) -> Callable[P, Coroutine[object, None, ActionResult]]:
    """Turn what went wrong into a result. Conflicts and lost connections stay exceptions: the caller tries again."""

    async def guarded(*given: P.args, **named: P.kwargs) -> ActionResult:
        request = cast(TrafficRequest, named["request"] if "request" in named else given[1])
        if not request.refs:
            return DONE
        try:
            return await operation(*given, **named)
        except TrafficNotReady as wait:
            return Waiting(str(wait))
        except TrafficProblem as problem:
            return Problem(str(problem), problem.reason)
        except REFUSALS as refusal:
            return Problem(refusal.message)

    guarded.__doc__ = operation.__doc__
    return guarded


class ClusterTraffic:
    def __init__(
        self,
        client: Client,
        *,
        sandbox: Sandbox | None = None,
        configuration: Key = SCRIPTS,
        fetch: Fetch | None = None,
    ) -> None:
        """`configuration` is the ConfigMap with scripts of the user, `fetch` how metrics of pods are read."""
        self.client = client
        self._lookup = ClusterLookup(client)
        self.sandbox = sandbox or Sandbox()
        scripts = UserScripts(client, configuration)
        self._classes = IngressClasses(self.sandbox, scripts)
        self._custom = CustomNetworkObjects(client, self.sandbox, scripts)
        self._http = HttpFetch()
        self._in_flight = InFlightReader(client, fetch or self._http)

    async def close(self) -> None:
        await self.sandbox.close()
        await self._http.close()

    # The operations

    @_returning_problems
    async def check(self, request: TrafficRequest) -> ActionResult:
        events: tuple[ReleaseEvent, ...] = ()
        problems: list[TrafficProblem] = []
        for ref in request.refs:
            try:
                events += await self._check_service(ref, request)
            except TrafficProblem as problem:
                problems.append(problem)
            for check in self._route_checks(ref, request):
                try:
                    await check
                except TrafficProblem as problem:
                    problems.append(problem)
        if problems:
            raise TrafficProblem("; ".join(map(str, problems)), problems[0].reason)
        return Done(events=events)

    async def _check_service(self, ref: RouteRef, request: TrafficRequest) -> tuple[ReleaseEvent, ...]:
        stable = await self._lookup.stable(ref, request)
        if request.only_traffic:
            return ()
        selected = await self._lookup.selected(stable)
        groups = request.selectors.revision_key == group_labels.REVISION
        events = services.check_leaders(stable, selected) if groups else ()
        if request.serving is not None:
            named = services.service_reference(ref.service, request)
            events += services.check_selection(stable, selected, request.serving, named)
        return events

    async def _check_ingress(self, ref: RouteRef, request: TrafficRequest) -> None:
        assert ref.ingress is not None
        await self._lookup.ingress(ref, request)
        await self._classes.check(ref.ingress)

    def _route_checks(self, ref: RouteRef, request: TrafficRequest) -> Iterator[Awaitable[object]]:
        if ref.ingress is not None:
            yield self._check_ingress(ref, request)
        if ref.gateway is not None:
            yield self._lookup.route(ref, request)
        for network in ref.custom_network_refs:
            yield self._custom.check(network, request)

    @_returning_problems
    async def pin_stable(self, request: TrafficRequest) -> ActionResult:
        if _shares_service(request):
            return DONE
        services.check_stable_revision(request.selectors)

        async def pin(ref: RouteRef) -> TrafficPlan:
            return services.plan_pin(await self._lookup.stable(ref, request), request)

        return await self._apply_when_due(PIN, request, finalising_grace(request.refs), pin)

    @_returning_problems
    async def route(self, request: TrafficRequest) -> ActionResult:
        if not request.step.routes:
            return DONE
        grace = routing_grace(request.refs)
        if request.since is not None and (early := _seconds_until_routing(request, grace)) > 0:
            text = f"waiting for proxies to know the new pods (grace period of {grace:g} s)"
            return Waiting(text, early)
        return await self._routed(request, grace)

    async def find_drift(self, request: TrafficRequest) -> str:
        """Grace periods do not count: the routes were as they should be before. No script is run: an annotation of the
        object says what it wrote."""
        if not request.step.routes:
            return ""
        try:
            found = [await self._drift_of(ref, request) for ref in request.refs]
        except TrafficNotReady:
            return ""
        except TrafficProblem as problem:
            return str(problem)
        except REFUSALS as refusal:
            return refusal.message
        return "; ".join(filter(None, found))

    async def _drift_of(self, ref: RouteRef, request: TrafficRequest) -> str:
        plan = await self._plan_services(ref, request)
        plan += await self._plan_opening(ref, request)
        plan += await self._reachable(await self._plan_own_routes(ref, request), ref, request)
        edited = [await self._custom.edited(network, request) for network in ref.custom_network_refs]
        return "; ".join(filter(None, (plan.text, *edited)))

    @_returning_problems
    async def route_all_to_new(self, request: TrafficRequest) -> ActionResult:
        refs = [await self._existing(ref, request) for ref in request.refs]
        kept = tuple(ref for ref in refs if ref is not None)
        everything = msgspec.structs.replace(request, refs=kept, step=EVERYTHING)
        result = await self._routed(everything, finalising_grace(request.refs))
        return await self._drained(result, DRAIN_STABLE, request)

    @_returning_problems
    async def route_all_to_stable(self, request: TrafficRequest) -> ActionResult:
        async def restore(ref: RouteRef) -> TrafficPlan:
            canary = request.canary_service(ref)
            plan = NOTHING_TO_DO
            for network in ref.custom_network_refs:
                plan += await self._custom.plan_restore(network, ref, request)
            if ref.ingress is not None:
                plan += ingress.plan_deletion(await self._canary_ingress(ref.ingress, request), request)
            if ref.gateway is not None:
                route = await self._lookup.http_route(ref.gateway.http_route_name or "", request)
                plan += httproute.plan_restore(route, ref.service, canary)
            return plan

        result = await self._apply_when_due(RESTORE_ROUTES, request, finalising_grace(request.refs), restore)
        return await self._drained(result, DRAIN_NEW, request)

    @_returning_problems
    async def unpin_stable(self, request: TrafficRequest) -> ActionResult:
        if request.only_traffic:
            return DONE

        async def unpin(ref: RouteRef) -> TrafficPlan:
            return services.plan_unpin(await self._lookup.find(SERVICES, ref.service, request), request.selectors)

        return await self._apply_when_due(RESTORE_SERVICE, request, finalising_grace(request.refs), unpin)

    @_returning_problems
    async def remove_canary_service(self, request: TrafficRequest) -> ActionResult:
        if _shares_service(request):
            return DONE

        async def remove(ref: RouteRef) -> TrafficPlan:
            existing = await self._lookup.find(SERVICES, request.canary_service(ref), request)
            return services.plan_removal(existing, request)

        return await self._apply_when_due(REMOVE_SERVICE, request, finalising_grace(request.refs), remove)

    # Requests in flight

    async def _drained(self, result: ActionResult, action: str, request: TrafficRequest) -> ActionResult:
        """Nothing new arrives at pods that are left; wait for what is in flight there."""
        timeout = drain_timeout(request.refs)
        if timeout <= 0 or not isinstance(result, Done) or request.only_traffic:
            return result
        times = dict(request.grace_times if result.grace_times is None else result.grace_times)
        began = times.get(action) or request.grace_times.get(action)
        found = await self._requests_in_flight(action, request)
        match decide_drain(found, began, clock.now(), timeout):
            case Drained():
                times.pop(action, None)
                return msgspec.structs.replace(result, grace_times=times)
            case StillDraining(text=text, seconds=seconds, begins=begins):
                times[action] = clock.micro_timestamp() if begins or began is None else began
                return Waiting(text, seconds, result.changed, times, result.events)
            case DrainTimedOut(text=text):
                times.pop(action, None)
                events = (*result.events, messages.drain_timed_out(text))
                return msgspec.structs.replace(result, grace_times=times, events=events)

    async def _requests_in_flight(self, action: str, request: TrafficRequest) -> dict[str, float]:
        found: dict[str, float] = {}
        for ref in request.refs:
            if ref.drain_timeout_seconds <= 0:
                continue
            stable = await self._lookup.find(SERVICES, ref.service, request)
            if stable is None or not (stable.get("spec") or {}).get("selector"):
                continue
            canary = await self._lookup.find(SERVICES, request.canary_service(ref), request)
            left = services.left_pods_selector(stable, canary, request.selectors, new=action == DRAIN_NEW)
            pods = await self._lookup.selected_by(left, request.namespace) if left else []
            found |= await self._in_flight.read(request.namespace, pods, stable)
        return found

    # The stages of routing

    async def _routed(self, request: TrafficRequest, grace: float) -> ActionResult:
        stages: tuple[tuple[str, Planner], ...] = (
            (PREPARE, lambda ref: self._plan_services(ref, request)),
            (OPEN, lambda ref: self._plan_opening(ref, request)),
            (ROUTES, lambda ref: self._plan_routes(ref, request)),
        )
        result: ActionResult = DONE
        events: tuple[ReleaseEvent, ...] = ()
        for action, planner in stages:
            result = await self._apply_when_due(action, request, grace, planner)
            events += result.events
            if not isinstance(result, Done):
                break
            if result.grace_times is not None:
                request = msgspec.structs.replace(request, grace_times=result.grace_times)
        return msgspec.structs.replace(result, events=events)

    async def _plan_services(self, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        stable = await self._lookup.stable(ref, request)
        if _shares_service(request):
            return NOTHING_TO_DO
        services.check_revisions(request.selectors)
        existing = await self._lookup.find(SERVICES, request.canary_service(ref), request)
        return services.plan_canary(stable, existing, ref, request) + services.plan_pin(stable, request)

    async def _plan_opening(self, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        """An Ingress for the canary, where the step wants traffic for it and there is none yet."""
        if ref.ingress is None:
            return NOTHING_TO_DO
        if not ingress.is_missing(await self._canary_ingress(ref.ingress, request), request.step):
            return NOTHING_TO_DO
        canary = ingress.canary_ingress(await self._lookup.ingress(ref, request), ref, request)
        annotations = await self._classes.annotations(
            ref.ingress, canary["metadata"]["annotations"], ingress.WITHOUT_TRAFFIC, request.canary_service(ref)
        )
        return ingress.plan_creation(canary, annotations)

    async def _plan_routes(self, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        plan = NOTHING_TO_DO
        for network in ref.custom_network_refs:
            plan += await self._custom.plan_step(network, ref, request)
        return await self._reachable(plan + await self._plan_own_routes(ref, request), ref, request)

    async def _plan_own_routes(self, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        """Of the kinds that need no script of the user."""
        plan = NOTHING_TO_DO
        if ref.ingress is not None:
            plan += await self._plan_ingress(ref, request)
        if ref.gateway is not None:
            route = await self._lookup.route(ref, request)
            plan += httproute.plan_step(route, ref.service, request.canary_service(ref), request.step)
        return plan

    async def _reachable(self, plan: TrafficPlan, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        """The plan, if the canary has a ready endpoint."""
        canary = request.canary_service(ref)
        if not request.step.serves_canary or _shares_service(request):
            return plan
        if await self._lookup.has_ready_endpoint(canary, request):
            return plan
        return services.without_endpoint(plan, canary)

    async def _plan_ingress(self, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        assert ref.ingress is not None
        existing = await self._canary_ingress(ref.ingress, request)
        if existing is None:
            return NOTHING_TO_DO
        known: Mapping[str, str] = existing["metadata"].get("annotations") or {}
        desired = await self._classes.annotations(ref.ingress, known, request.step, request.canary_service(ref))
        plan = ingress.plan_annotations(existing, desired, request)
        if not plan.writes or not await self._classes.is_built_in(ref.ingress):
            return plan
        return TrafficPlan(plan.writes, ingress.not_expressible(ref.ingress, request.step))

    # Pace

    async def _apply_when_due(
        self, action: str, request: TrafficRequest, grace: float, planner: Planner
    ) -> ActionResult:
        """Carry out what is planned, when it is time, by the table of `model`. The time is that of the call: however
        long the planning takes (a script's process may have to start), a time stored just before stays fresh."""
        now = clock.now()
        plan = NOTHING_TO_DO
        for ref in request.refs:
            plan += await planner(ref)
        changed_at = request.grace_times.get(action)
        what, seconds = pace(needed=bool(plan.writes), changed_at=changed_at, now=now, grace=grace)
        over = ENDS.get(action, frozenset()) | {action}
        without = {name: time for name, time in request.grace_times.items() if name not in over}
        match what:
            case Pace.FINISHED:
                return Done(grace_times=without, events=plan.events)
            case Pace.WAIT:
                text = f"waiting for proxies to see the change (grace period of {grace:g} s)"
                return Waiting(text, seconds, grace_times=request.grace_times, events=plan.events)
            case Pace.RECORD_TIME:
                recorded = {**without, action: clock.micro_timestamp()}
                return Waiting(plan.text, 0.0, grace_times=recorded, events=plan.events)
            case Pace.CHANGE:
                await self._carry_out(plan)
                events = (*plan.events, *(messages.traffic_changed(write.text) for write in plan.writes))
                if grace <= 0:
                    return Done(True, without, events)
                recorded = {**without, action: clock.micro_timestamp()}
                return Waiting(plan.text, grace, True, recorded, events)

    async def _carry_out(self, plan: TrafficPlan) -> None:
        """All of it, even if one write is refused; then the first refusal."""
        refusals = []
        for write in plan.writes:
            try:
                await self._write(write)
            except errors.ApiError as refusal:
                refusals.append(refusal)
        if refusals:
            raise refusals[0]

    async def _write(self, write: Write) -> None:
        try:
            if write.verb == "create":
                await self.client.create(write.resource, write.body, write.namespace)
            elif write.verb == "patch":
                await self.client.patch(write.resource, write.name, write.namespace, write.body)
            else:
                await self.client.delete(write.resource, write.name, write.namespace, uid=write.uid or None)
        except errors.NotFound:
            if write.verb != "delete":
                raise
        except errors.AlreadyExists:
            pass  # an earlier response was lost; the next pass compares what exists

    # Reading

    async def _canary_ingress(self, ref: IngressRef, request: TrafficRequest) -> JsonObject | None:
        return await self._lookup.find(INGRESSES, ingress.canary_name(ref), request)

    async def _existing(self, ref: RouteRef, request: TrafficRequest) -> RouteRef | None:
        """What is still there of what carries the traffic. A release must be able to end without the rest."""
        if await self._lookup.find(SERVICES, ref.service, request) is None:
            return None
        if ref.ingress is not None and await self._lookup.find(INGRESSES, ref.ingress.name, request) is None:
            ref = msgspec.structs.replace(ref, ingress=None)
        if ref.gateway is not None:
            route = await self._lookup.http_route(ref.gateway.http_route_name or "", request)
            ref = ref if route is not None else msgspec.structs.replace(ref, gateway=None)
        networks = tuple([one for one in ref.custom_network_refs if await self._custom.exists(one, request)])
        return msgspec.structs.replace(ref, custom_network_refs=networks)


def _shares_service(request: TrafficRequest) -> bool:
    return request.only_traffic or not request.generates_canary_service


def _seconds_until_routing(request: TrafficRequest, grace: float) -> float:
    """Seconds until routing may begin. A time in the future (a clock that was set back) does not stop it for longer
    than the grace period."""
    assert request.since is not None
    rest = (request.since + timedelta(seconds=grace) - clock.now()).total_seconds()
    return min(rest, grace)
