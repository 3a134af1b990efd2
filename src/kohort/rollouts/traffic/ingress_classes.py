"""The annotations of a canary Ingress: by a script of the user, or by the built-in rule of its class."""

from collections.abc import Mapping

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.custom_scripts import is_text_map
from kohort.rollouts.traffic.ingress import CLASSES
from kohort.rollouts.traffic.lookup import UserScripts
from kohort.rollouts.traffic.lua.sandbox import Sandbox, ScriptProblem
from kohort.rollouts.traffic.model import IngressRef, TrafficStep
from kohort.rollouts.traffic.pending_writes import TrafficProblem


class IngressClasses:
    def __init__(self, sandbox: Sandbox, scripts: UserScripts) -> None:
        self._sandbox = sandbox
        self._scripts = scripts

    async def check(self, ref: IngressRef) -> None:
        if ref.class_type not in CLASSES and await self._scripts.find(_key(ref)) is None:
            raise TrafficProblem(
                f"{ref.class_type} lua script is not found: ingress.classType must be one of {', '.join(CLASSES)}, "
                f"or the {self._scripts.place} must have the key {_key(ref)}"
            )

    async def is_built_in(self, ref: IngressRef) -> bool:
        return await self._scripts.find(_key(ref)) is None

    async def annotations(
        self, ref: IngressRef, known: Mapping[str, str], step: TrafficStep, canary: str
    ) -> dict[str, str]:
        """All annotations that the canary's Ingress shall have. A script of the user counts before ours."""
        script = await self._scripts.find(_key(ref))
        if script is not None:
            return await self._by_script(script, ref, known, step, canary)
        await self.check(ref)
        return CLASSES[ref.class_type](known, step)

    async def _by_script(
        self, script: str, ref: IngressRef, known: Mapping[str, str], step: TrafficStep, canary: str
    ) -> dict[str, str]:
        given: JsonObject = {
            "annotations": dict(known),
            "weight": "-1" if step.weight is None else str(step.weight),
            "canaryService": canary,
        }
        if step.matches:
            given["matches"] = msgspec.to_builtins(step.matches)
        if step.header_modifier is not None:
            given["requestHeaderModifier"] = msgspec.to_builtins(step.header_modifier)
        try:
            result = await self._sandbox.run(script, given)
        except ScriptProblem as problem:
            raise TrafficProblem(
                f"the script {_key(ref)} of the user: {problem}; correct it in the {self._scripts.place}"
            ) from None
        if result in (None, [], {}):
            return {}
        if not is_text_map(result):
            raise TrafficProblem(f"the script {_key(ref)} must return a table of texts by name, all annotations")
        return dict(result)


def _key(ref: IngressRef) -> str:
    return f"lua.traffic.routing.ingress.{ref.class_type}"
