"""Traffic on a cluster: the operations of `model.Traffic`.

Each operation plans what is missing from what the cluster says now, and carries the plan out when the pace allows it.
Reads are a handful per call; a step that is done is only looked at (`astray`), for as long as it waits.

A step that routes has three stages, each with a mark of its own, so that each has its own grace period:

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
from kohort.objects.json_types import Json
from kohort.rollouts.traffic import httproute, ingress, services
from kohort.rollouts.traffic.annotations import CONFIGURATION, CONFIGURATION_NAMESPACE
from kohort.rollouts.traffic.custom_objects import CustomRefs
from kohort.rollouts.traffic.ingress_classes import IngressClasses
from kohort.rollouts.traffic.lookup import Found, UserScripts
from kohort.rollouts.traffic.lua.sandbox import Sandbox
from kohort.rollouts.traffic.model import (
    Answer,
    Asking,
    Note,
    RouteRef,
    TrafficStep,
    finalising_grace,
    pace,
    routing_grace,
)
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, NotYet, Plan, TrafficProblem, Write
from kohort.rules import rollout_labels

RECHECK: Final = rollout_labels.RECHECK
EVERYTHING: Final = TrafficStep(weight=100)

SCRIPTS: Final = Key(CONFIGURATION_NAMESPACE, CONFIGURATION)

PIN: Final = "pin"
PREPARE: Final = "services"
OPEN: Final = "open"
ROUTES: Final = "routes"
RESTORE_ROUTES: Final = "restoreRoutes"
RESTORE_SERVICE: Final = "restoreService"
REMOVE_SERVICE: Final = "removeCanaryService"

ENDS: Final[Mapping[str, frozenset[str]]] = {
    RESTORE_ROUTES: frozenset({PREPARE, OPEN, ROUTES}),
    RESTORE_SERVICE: frozenset({PIN}),
    ROUTES: frozenset({RESTORE_ROUTES}),
}
"""Actions whose marks mean nothing any more once another has begun."""

REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest)
P = ParamSpec("P")
Planner = Callable[[RouteRef], Awaitable[Plan]]


def _answering(operation: Callable[P, Awaitable[Answer]]) -> Callable[P, Coroutine[Json, Json, Answer]]:
    """Turn what went wrong into an answer. Conflicts and lost connections stay exceptions: the caller looks again."""

    async def guarded(*given: P.args, **named: P.kwargs) -> Answer:
        asking = cast(Asking, named["asking"] if "asking" in named else given[1])
        if not asking.refs:
            return Answer("done", marks=asking.marks)
        try:
            return await operation(*given, **named)
        except NotYet as wait:
            return Answer("wait", RECHECK, str(wait), asking.marks)
        except TrafficProblem as problem:
            # A TrafficRouting has the same references under another name.
            text = str(problem).replace("trafficRoutings[", "objectRef[") if asking.only_traffic else str(problem)
            return Answer("problem", RECHECK, text, asking.marks, reason=problem.reason)
        except REFUSALS as refusal:
            return Answer("problem", RECHECK, refusal.message, asking.marks)

    guarded.__doc__ = operation.__doc__
    return guarded


class ClusterTraffic:
    def __init__(
        self,
        client: Client,
        *,
        sandbox: Sandbox | None = None,
        configuration: Key = SCRIPTS,
    ) -> None:
        """`configuration` is the ConfigMap with scripts of the user."""
        self.client = client
        self._found = Found(client)
        self.sandbox = sandbox or Sandbox()
        scripts = UserScripts(client, configuration)
        self._classes = IngressClasses(self.sandbox, scripts)
        self._custom = CustomRefs(client, self.sandbox, scripts)

    async def close(self) -> None:
        await self.sandbox.close()

    # The operations

    @_answering
    async def check(self, asking: Asking) -> Answer:
        notes: tuple[Note, ...] = ()
        problems: list[TrafficProblem] = []
        for ref in asking.refs:
            try:
                notes += await self._check_service(ref, asking)
            except TrafficProblem as problem:
                problems.append(problem)
            for check in self._route_checks(ref, asking):
                try:
                    await check
                except TrafficProblem as problem:
                    problems.append(problem)
        if problems:
            raise TrafficProblem("; ".join(map(str, problems)), problems[0].reason)
        return Answer("done", marks=asking.marks, notes=notes)

    async def _check_service(self, ref: RouteRef, asking: Asking) -> tuple[Note, ...]:
        stable = await self._found.stable(ref, asking)
        if asking.only_traffic:
            return ()
        selected = await self._found.selected(stable)
        groups = asking.selectors.revision_key == rollout_labels.GROUP_REVISION
        notes = services.check_leaders(stable, selected) if groups else ()
        if asking.serving is not None:
            notes += services.check_selection(stable, selected, asking.serving)
        return notes

    async def _check_ingress(self, ref: RouteRef, asking: Asking) -> None:
        assert ref.ingress is not None
        await self._found.ingress(ref, asking)
        await self._classes.check(ref.ingress)

    def _route_checks(self, ref: RouteRef, asking: Asking) -> Iterator[Awaitable[object]]:
        if ref.ingress is not None:
            yield self._check_ingress(ref, asking)
        if ref.gateway is not None:
            yield self._found.route(ref, asking)
        for network in ref.custom_network_refs:
            yield self._custom.check(network, asking)

    @_answering
    async def pin_stable(self, asking: Asking) -> Answer:
        if _shares_service(asking):
            return Answer("done", marks=asking.marks)
        if not asking.selectors.stable_revision:
            raise NotYet("waiting for the stable revision to be known")

        async def pin(ref: RouteRef) -> Plan:
            return services.plan_pin(await self._found.stable(ref, asking), asking)

        return await self._paced(PIN, asking, finalising_grace(asking.refs), pin)

    @_answering
    async def route(self, asking: Asking) -> Answer:
        if not asking.step.routes:
            return Answer("done", marks=asking.marks)
        grace = routing_grace(asking.refs)
        if asking.since is not None and (early := _early(asking, grace)) > 0:
            text = f"waiting for proxies to know the new pods (grace period of {grace:g} s)"
            return Answer("wait", early, text, asking.marks)
        return await self._routed(asking, grace)

    async def astray(self, asking: Asking) -> str:
        """Grace periods are none of it: the routes were as they should be before. Nor is any script run: what it made
        of an object is known."""
        if not asking.step.routes:
            return ""
        try:
            found = [await self._astray(ref, asking) for ref in asking.refs]
        except NotYet:
            return ""
        except TrafficProblem as problem:
            return str(problem)
        except REFUSALS as refusal:
            return refusal.message
        return "; ".join(filter(None, found))

    async def _astray(self, ref: RouteRef, asking: Asking) -> str:
        plan = await self._plan_services(ref, asking)
        plan += await self._plan_opening(ref, asking)
        plan += await self._reachable(await self._plan_own_routes(ref, asking), ref, asking)
        edited = [await self._custom.edited(network, asking) for network in ref.custom_network_refs]
        return "; ".join(filter(None, (plan.text, *edited)))

    @_answering
    async def route_all_to_new(self, asking: Asking) -> Answer:
        refs = [await self._existing(ref, asking) for ref in asking.refs]
        kept = tuple(ref for ref in refs if ref is not None)
        everything = msgspec.structs.replace(asking, refs=kept, step=EVERYTHING)
        return await self._routed(everything, finalising_grace(asking.refs))

    @_answering
    async def route_all_to_stable(self, asking: Asking) -> Answer:
        async def restore(ref: RouteRef) -> Plan:
            canary = asking.canary_service(ref)
            plan = NOTHING_TO_DO
            for network in ref.custom_network_refs:
                plan += await self._custom.plan_restore(network, ref, asking)
            if ref.ingress is not None:
                copy = await self._found.find(INGRESSES, ingress.canary_name(ref.ingress), asking)
                plan += ingress.plan_deletion(copy, asking)
            if ref.gateway is not None:
                route = await self._found.http_route(ref.gateway.http_route_name or "", asking)
                plan += httproute.plan_restore(route, ref.service, canary)
            return plan

        return await self._paced(RESTORE_ROUTES, asking, finalising_grace(asking.refs), restore)

    @_answering
    async def restore_stable(self, asking: Asking) -> Answer:
        if asking.only_traffic:
            return Answer("done", marks=asking.marks)

        async def unpin(ref: RouteRef) -> Plan:
            return services.plan_unpin(await self._found.find(SERVICES, ref.service, asking), asking.selectors)

        return await self._paced(RESTORE_SERVICE, asking, finalising_grace(asking.refs), unpin)

    @_answering
    async def remove_canary_service(self, asking: Asking) -> Answer:
        if _shares_service(asking):
            return Answer("done", marks=asking.marks)

        async def remove(ref: RouteRef) -> Plan:
            existing = await self._found.find(SERVICES, asking.canary_service(ref), asking)
            return services.plan_removal(existing, asking)

        return await self._paced(REMOVE_SERVICE, asking, finalising_grace(asking.refs), remove)

    # The stages of routing

    async def _routed(self, asking: Asking, grace: float) -> Answer:
        answer = Answer("done", marks=asking.marks)
        stages: tuple[tuple[str, Planner], ...] = (
            (PREPARE, lambda ref: self._plan_services(ref, asking)),
            (OPEN, lambda ref: self._plan_opening(ref, asking)),
            (ROUTES, lambda ref: self._plan_routes(ref, asking)),
        )
        notes: tuple[Note, ...] = ()
        for action, planner in stages:
            asking = msgspec.structs.replace(asking, marks=answer.marks)
            answer = await self._paced(action, asking, grace, planner)
            notes += answer.notes
            if not answer.done:
                break
        return msgspec.structs.replace(answer, notes=notes)

    async def _plan_services(self, ref: RouteRef, asking: Asking) -> Plan:
        stable = await self._found.stable(ref, asking)
        if _shares_service(asking):
            return NOTHING_TO_DO
        for revision, whose in (
            (asking.selectors.stable_revision, "stable"),
            (asking.selectors.canary_revision, "new"),
        ):
            if not revision:
                raise NotYet(f"waiting for the {whose} revision to be known")
        existing = await self._found.find(SERVICES, asking.canary_service(ref), asking)
        return services.plan_canary(stable, existing, ref, asking) + services.plan_pin(stable, asking)

    async def _plan_opening(self, ref: RouteRef, asking: Asking) -> Plan:
        """An Ingress for the canary, where the step wants traffic for it and there is none yet."""
        step = asking.step
        if ref.ingress is None or not (step.weight or step.matches):
            return NOTHING_TO_DO
        if await self._found.find(INGRESSES, ingress.canary_name(ref.ingress), asking) is not None:
            return NOTHING_TO_DO
        desired = ingress.canary_ingress(await self._found.ingress(ref, asking), ref, asking)
        silent = TrafficStep(weight=0)
        annotations = desired["metadata"]["annotations"]
        return ingress.plan_creation(
            desired, await self._classes.annotations(ref.ingress, annotations, silent, asking.canary_service(ref))
        )

    async def _plan_routes(self, ref: RouteRef, asking: Asking) -> Plan:
        plan = NOTHING_TO_DO
        for network in ref.custom_network_refs:
            plan += await self._custom.plan_step(network, ref, asking)
        return await self._reachable(plan + await self._plan_own_routes(ref, asking), ref, asking)

    async def _plan_own_routes(self, ref: RouteRef, asking: Asking) -> Plan:
        """Of the kinds that need no script of the user."""
        plan = NOTHING_TO_DO
        if ref.ingress is not None:
            plan += await self._plan_ingress(ref, asking)
        if ref.gateway is not None:
            route = await self._found.route(ref, asking)
            plan += httproute.plan_step(route, ref.service, asking.canary_service(ref), asking.step)
        return plan

    async def _reachable(self, plan: Plan, ref: RouteRef, asking: Asking) -> Plan:
        """The plan, if there is somebody to route to."""
        step, canary = asking.step, asking.canary_service(ref)
        if not (step.weight or step.matches) or _shares_service(asking):
            return plan
        if await self._found.has_ready_endpoint(canary, asking):
            return plan
        if plan.writes:
            raise NotYet(f"Service {canary} has no ready endpoint yet; traffic is not moved before it has one")
        text = f"Service {canary} has no ready endpoint, and requests are routed to it"
        return Plan(plan.writes, (*plan.notes, Note("CanaryUnavailable", text, warning=True)))

    async def _plan_ingress(self, ref: RouteRef, asking: Asking) -> Plan:
        assert ref.ingress is not None
        existing = await self._found.find(INGRESSES, ingress.canary_name(ref.ingress), asking)
        if existing is None:
            return NOTHING_TO_DO
        known: Mapping[str, str] = existing["metadata"].get("annotations") or {}
        desired = await self._classes.annotations(ref.ingress, known, asking.step, asking.canary_service(ref))
        plan = ingress.plan_annotations(existing, desired, asking)
        if not plan.writes or not await self._classes.is_built_in(ref.ingress):
            return plan
        return Plan(plan.writes, ingress.not_expressible(ref.ingress, asking.step))

    # Pace

    async def _paced(self, action: str, asking: Asking, grace: float, planner: Planner) -> Answer:
        """Carry out what is planned, when it is time, by the table of `model`. The time is that of the question:
        however long the planning takes (a script's process may have to start), a mark noted just before stays fresh."""
        now = clock.now()
        plan = NOTHING_TO_DO
        for ref in asking.refs:
            plan += await planner(ref)
        what, seconds = pace(needed=bool(plan.writes), mark=asking.marks.get(action), now=now, grace=grace)
        over = ENDS.get(action, frozenset()) | {action}
        without = {name: mark for name, mark in asking.marks.items() if name not in over}
        if what == "done":
            return Answer("done", marks=without, notes=plan.notes)
        if what == "wait":
            text = f"waiting for proxies to see the change (grace period of {grace:g} s)"
            return Answer("wait", seconds, text, asking.marks, notes=plan.notes)
        if what == "note":
            return Answer("wait", 0.0, plan.text, {**without, action: clock.micro_timestamp()}, notes=plan.notes)
        await self._carry_out(plan)
        notes = (*plan.notes, *(Note("TrafficChanged", write.text) for write in plan.writes))
        if grace <= 0:
            return Answer("done", 0.0, plan.text, without, True, notes)
        return Answer("wait", grace, plan.text, {**without, action: clock.micro_timestamp()}, True, notes)

    async def _carry_out(self, plan: Plan) -> None:
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
            pass  # by an answer that was lost; the next pass looks at it

    # Looking

    async def _existing(self, ref: RouteRef, asking: Asking) -> RouteRef | None:
        """What is still there of what carries the traffic. A release must be able to end without the rest."""
        if await self._found.find(SERVICES, ref.service, asking) is None:
            return None
        if ref.ingress is not None and await self._found.find(INGRESSES, ref.ingress.name, asking) is None:
            ref = msgspec.structs.replace(ref, ingress=None)
        if ref.gateway is not None:
            route = await self._found.http_route(ref.gateway.http_route_name or "", asking)
            ref = ref if route is not None else msgspec.structs.replace(ref, gateway=None)
        networks = tuple([one for one in ref.custom_network_refs if await self._custom.exists(one, asking)])
        return msgspec.structs.replace(ref, custom_network_refs=networks)


def _shares_service(asking: Asking) -> bool:
    return asking.only_traffic or not asking.generates_canary_service


def _early(asking: Asking, grace: float) -> float:
    """Seconds until routing may begin. A time in the future (a clock that was set back) does not stop it for longer
    than the grace period."""
    assert asking.since is not None
    rest = (asking.since + timedelta(seconds=grace) - clock.now()).total_seconds()
    return min(rest, grace)
