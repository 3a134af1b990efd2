"""Custom network objects on a cluster: found by kind, changed by their script."""

from kohort.kube.client import Client
from kohort.kube.discovery import served_resources
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages
from kohort.rollouts.reference_problems import KindNotServed, ObjectMissing, Reference, RefField, ScriptMissing
from kohort.rollouts.traffic import custom_scripts
from kohort.rollouts.traffic.lookup import UserScripts
from kohort.rollouts.traffic.lua.sandbox import Sandbox, ScriptProblem
from kohort.rollouts.traffic.model import NetworkRef, RouteRef, TrafficRequest
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, TrafficPlan, TrafficProblem, unusable
from kohort.rollouts.traffic.scripts import built_in


class CustomNetworkObjects:
    def __init__(self, client: Client, sandbox: Sandbox, scripts: UserScripts) -> None:
        self._client = client
        self._sandbox = sandbox
        self._scripts = scripts
        self._resources: dict[tuple[str, str], Resource] = {}

    async def check(self, ref: NetworkRef, request: TrafficRequest) -> None:
        await self._object(ref, request)
        await self._script(ref, request)

    async def plan_step(self, network: NetworkRef, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        if not request.step.routes:
            return NOTHING_TO_DO
        resource, obj = await self._object(network, request)
        script = await self._script(network, request)
        original = custom_scripts.as_it_was(obj)
        given = custom_scripts.script_input(original, request.step, ref.service, request.canary_service(ref))
        where = f"the script for {messages.reference(_reference(network, request))}"
        try:
            result = await self._sandbox.run(script, given)
        except ScriptProblem as problem:
            raise TrafficProblem(
                f"{where}: {problem}; correct it in the {self._scripts.place}, or the object it works on"
            ) from None
        return custom_scripts.plan_change(obj, resource, original, custom_scripts.checked(result, where))

    async def exists(self, network: NetworkRef, request: TrafficRequest) -> bool:
        resource = await self._resource(network)
        return resource is not None and await self._client.find(resource, network.name, request.namespace) is not None

    async def edited(self, network: NetworkRef, request: TrafficRequest) -> str:
        """What to do about an object that is not any more what its script made of it; nothing when it is."""
        _, obj = await self._object(network, request)
        return "" if custom_scripts.is_as_written(obj) else f"route {network.kind} {network.name}"

    async def plan_restore(self, network: NetworkRef, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
        """An object or a whole kind that is gone needs no restoring."""
        resource = await self._resource(network)
        obj = None if resource is None else await self._client.find(resource, network.name, request.namespace)
        if resource is None or obj is None:
            return NOTHING_TO_DO
        canary = request.canary_service(ref)
        return custom_scripts.plan_restore(obj, resource, canary if canary != ref.service else "")

    async def _object(self, ref: NetworkRef, request: TrafficRequest) -> tuple[Resource, JsonObject]:
        resource = await self._resource(ref)
        if resource is None:
            raise unusable(KindNotServed(_reference(ref, request), ref.api_version))
        obj = await self._client.find(resource, ref.name, request.namespace)
        if obj is None:
            raise unusable(ObjectMissing(_reference(ref, request)))
        return resource, obj

    async def _script(self, ref: NetworkRef, request: TrafficRequest) -> str:
        group = ref.api_version.rpartition("/")[0]
        key = f"lua.traffic.routing.{ref.kind}.{group}"
        script = built_in(group, ref.kind) or await self._scripts.find(key)
        if script is None:
            raise unusable(ScriptMissing(_reference(ref, request), self._scripts.place, key))
        return script

    async def _resource(self, ref: NetworkRef) -> Resource | None:
        known = self._resources.get((ref.api_version, ref.kind))
        if known is None:
            served = await served_resources(self._client, all_versions=True)
            self._resources = {(one.resource.api_version, one.resource.kind): one.resource for one in served}
            known = self._resources.get((ref.api_version, ref.kind))
        return known


def _reference(ref: NetworkRef, request: TrafficRequest) -> Reference:
    return request.reference(ref.kind, ref.name, RefField.CUSTOM)
