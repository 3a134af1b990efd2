"""Hashes that decide whether a plan or a template has changed.

The hashes of plans are stored in objects and compared with what other implementations stored there, so they are
computed from exactly the text that Go's encoder would write: fields in the order of their declaration, empty optional
ones left out, `<`, `>` and `&` escaped. In the plan of a Rollout, pauses and the failure threshold do not count: they
may be edited at any time.

The hash of a Deployment's template is that of `template_hash`.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.rollout_types import ReleasePlan, RolloutStrategy
from kohort.rules.safe_text import safe_text

_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def plan_hash(strategy: JsonObject) -> str:
    """Of `spec.strategy` (or of its `canary` or `blueGreen`), as stored in the annotation `rollouts.kruise.io/hash`."""
    if strategy.get("blueGreen") is not None:
        ordered = _strategy(strategy["blueGreen"], _BLUE_GREEN_FIELDS)
    else:
        ordered = _strategy(strategy.get("canary") or {}, _CANARY_FIELDS)
    return safe_text(hashlib.sha256(go_json(ordered).encode()).hexdigest())


def hash_of(strategy: RolloutStrategy) -> str:
    """The same of a strategy that was read into its view, which leaves out what the schema's defaults had filled in."""
    document: JsonObject = msgspec.to_builtins(strategy)
    for chosen in document.values():
        if not isinstance(chosen, dict):
            continue
        for ref in chosen.get("trafficRoutings") or ():
            ref.setdefault("gracePeriodSeconds", 3)
            if "ingress" in ref:
                ref["ingress"].setdefault("classType", "nginx")
        for step in chosen.get("steps") or ():
            for match in step.get("matches") or ():
                _fill_match(match)
    return plan_hash(document)


def _fill_match(match: JsonObject) -> None:
    if "path" in match:
        match["path"] = {"type": "PathPrefix", "value": "/", **match["path"]}
    for pair in (*match.get("headers", ()), *match.get("queryParams", ())):
        pair.setdefault("type", "Exact")


def release_plan_hash(plan: ReleasePlan) -> str:
    """As stored in `status.observedReleasePlanHash`; the view has its fields in the order of their declaration."""
    document = plan.document()
    if plan.patch_pod_template_metadata is not None:
        document["patchPodTemplateMetadata"] = _patched(document["patchPodTemplateMetadata"])
    return hashlib.sha256(go_json(document).encode()).hexdigest()


def fingerprint(value: Json) -> str:
    """Ten letters that are equal for equal documents, whatever the order of their members."""
    return safe_text(hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:10])


def go_json(value: Json) -> str:
    """A document as Go's `json.Marshal` writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    return text


_CANARY_FIELDS: Final = (
    "steps",
    "trafficRoutings",
    "patchPodTemplateMetadata",
    "enableExtraWorkloadForCanary",
    "trafficRoutingRef",
    "disableGenerateCanaryService",
)
_BLUE_GREEN_FIELDS: Final = ("steps", "trafficRoutings", "trafficRoutingRef", "disableGenerateCanaryService")


def _strategy(strategy: JsonObject, fields: Iterable[str]) -> JsonObject:
    result: JsonObject = {}
    for name in fields:
        value = strategy.get(name)
        if name == "patchPodTemplateMetadata" and value is not None:
            result[name] = _patched(value)
        elif name == "steps" and value:
            result[name] = [_step(step) for step in value]
        elif name == "trafficRoutings" and value:
            result[name] = [_route(ref) for ref in value]
        elif value:
            result[name] = value
    return result


def _patched(metadata: JsonObject) -> JsonObject:
    """A pointer: present although empty. Go sorts the keys of a map."""
    return {part: dict(sorted(metadata[part].items())) for part in ("annotations", "labels") if metadata.get(part)}


def _step(step: JsonObject) -> JsonObject:
    result: JsonObject = {}
    if step.get("traffic") is not None:
        result["traffic"] = step["traffic"]
    modifier = step.get("requestHeaderModifier")
    if modifier is not None:
        result["requestHeaderModifier"] = {
            name: [_members(one, ("name", "value")) if isinstance(one, dict) else one for one in modifier[name]]
            for name in ("set", "add", "remove")
            if modifier.get(name)
        }
    if step.get("matches"):
        result["matches"] = [_match(match) for match in step["matches"]]
    if step.get("replicas") is not None:
        result["replicas"] = step["replicas"]
    return result | {"pause": {}}


def _match(match: JsonObject) -> JsonObject:
    result: JsonObject = {}
    if match.get("path") is not None:
        result["path"] = _members(match["path"], ("type", "value"))
    for name in ("headers", "queryParams"):
        if match.get(name):
            result[name] = [_members(one, ("type", "name", "value")) for one in match[name]]
    return result


def _route(ref: JsonObject) -> JsonObject:
    result: JsonObject = {"service": ref.get("service", "")}
    if ref.get("gracePeriodSeconds"):
        result["gracePeriodSeconds"] = ref["gracePeriodSeconds"]
    ingress = ref.get("ingress")
    if ingress is not None:
        named = {"name": ingress.get("name", "")}
        result["ingress"] = ({"classType": ingress["classType"]} if ingress.get("classType") else {}) | named
    if ref.get("gateway") is not None:
        result["gateway"] = _members(ref["gateway"], ("httpRouteName",))
    if ref.get("customNetworkRefs"):
        result["customNetworkRefs"] = [
            {name: one.get(name, "") for name in ("apiVersion", "kind", "name")} for one in ref["customNetworkRefs"]
        ]
    return result


def _members(document: JsonObject, names: Iterable[str]) -> JsonObject:
    return {name: document[name] for name in names if document.get(name) is not None}
