"""HTTPRoute: weights and matches written into the user's own route, and taken out again without a trace.

The rules from before the release are kept in an annotation. Each pass begins from them, never from what an earlier
step has made of them, so the order of steps does not matter: a weight after a match leaves no match behind, and a match
after a weight loses no rule.

The user may edit the route meanwhile. What is left of the live rules after everything of the canary is taken out is
compared with the kept ones, weights of the stable Service aside; where they differ, the user's new rules are the
original from now on. Where the canary has no Service of its own its parts cannot be recognised in the live rules; then
the kept rules count.

| step              | a rule with the stable Service                                                           |
|-------------------|------------------------------------------------------------------------------------------|
| weight w          | stable 100-w, canary w; other backends of the rule keep their share                      |
| matches           | untouched; after all original rules a copy for the canary only, narrowed by the matches  |
| header modifier   | with matches a filter of the canary's rule, with a weight a filter of the canary's backend |
"""

import copy
from collections.abc import Iterable, Mapping
from math import gcd

import msgspec

from kohort.kube.merge_patch import equal, locked, merge_patch
from kohort.kube.resources import HTTP_ROUTE_VERSIONS, HTTP_ROUTES, Resource
from kohort.objects.counted_nouns import agreeing
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts.reference_problems import NoBackend, ObjectMissing, RefField
from kohort.rollouts.traffic.model import HeaderModifier, Match, RouteRef, TrafficRequest, TrafficStep
from kohort.rollouts.traffic.pending_writes import NOTHING_TO_DO, TrafficPlan, Write, unusable
from kohort.rules.rollout_labels import ORIGINAL_RULES

Rules = list[JsonObject]
_MODIFIER = "RequestHeaderModifier"


def is_service(ref: Mapping[str, Json], name: str) -> bool:
    return ref.get("name") == name and ref.get("kind", "Service") == "Service" and not ref.get("group")


def _stable_refs(rule: JsonObject, stable: str) -> list[int]:
    return [number for number, ref in enumerate(rule.get("backendRefs") or ()) if is_service(ref, stable)]


# Building


def routed(original: Rules, stable: str, canary: str, step: TrafficStep) -> Rules:
    """The rules of a step. Matches count before a weight."""
    if step.matches:
        return [*copy.deepcopy(original), *_matched_rules(original, stable, canary, step)]
    weight = step.weight if step.weight is not None else 0
    if weight == 0 and stable == canary:
        return copy.deepcopy(original)
    return [_weighted(rule, stable, canary, weight, step.header_modifier) for rule in original]


def _weighted(rule: JsonObject, stable: str, canary: str, weight: int, modifier: HeaderModifier | None) -> JsonObject:
    result: JsonObject = copy.deepcopy(rule)
    places = _stable_refs(rule, stable)
    if not places:
        return result
    refs = [ref for ref in result["backendRefs"] if stable == canary or not is_service(ref, canary)]
    place = next(number for number, ref in enumerate(refs) if is_service(ref, stable))
    ref = refs[place]
    others = [other for other in refs if other is not ref and other.get("weight", 1)]
    # Alone, the stable Service has all of the rule's share; beside others, each of its parts is divided in hundreds.
    share = ref.get("weight", 1) if others else 1
    moved = {**copy.deepcopy(ref), "name": canary, "weight": share * weight}
    if modifier is not None:
        moved["filters"] = with_modifier(moved.get("filters"), modifier)
    ref["weight"] = share * (100 - weight)
    for other in others:
        other["weight"] = other.get("weight", 1) * 100
    refs.insert(place + 1, moved)
    if others:
        _reduce(refs)
    result["backendRefs"] = refs
    return result


def _reduce(refs: list[JsonObject]) -> None:
    """Weights have an upper bound; shares are all that matters."""
    divisor = gcd(*(ref.get("weight", 1) for ref in refs)) or 1
    for ref in refs:
        ref["weight"] = ref.get("weight", 1) // divisor


def _matched_rules(original: Rules, stable: str, canary: str, step: TrafficStep) -> Rules:
    added: Rules = []
    with_path = [match for match in step.matches if match.path is not None]
    without_path = [match for match in step.matches if match.path is None]
    for rule in original:
        places = _stable_refs(rule, stable)
        if not places:
            continue
        matches = [_whole(match) for match in with_path] if not added else []
        for before in rule.get("matches") or [{}]:
            matches += [narrowed for match in without_path if (narrowed := _narrowed(before, match)) is not None]
        if not matches:
            continue
        backend = {**copy.deepcopy(rule["backendRefs"][places[0]]), "name": canary}
        backend.pop("weight", None)
        narrow = {key: copy.deepcopy(value) for key, value in rule.items() if key not in ("name", "backendRefs")}
        narrow |= {"matches": matches, "backendRefs": [{**backend, "weight": 1}]}
        if step.header_modifier is not None:
            narrow["filters"] = with_modifier(narrow.get("filters"), step.header_modifier)
        added.append(narrow)
    return added


def _whole(match: Match) -> JsonObject:
    return _narrowed({}, match) or {}


def _narrowed(before: JsonObject, match: Match) -> JsonObject | None:
    """Both at once; None if no request can satisfy both."""
    result: JsonObject = copy.deepcopy(before)
    if match.path is not None:
        result["path"] = {"type": match.path.type, "value": match.path.value}
    for field, wanted in (("headers", match.headers), ("queryParams", match.query_params)):
        if not wanted:
            continue
        present = {_folded(field, entry["name"]): entry for entry in result.get(field) or ()}
        entries = list(result.get(field) or ())
        for one in wanted:
            entry = {"type": one.type, "name": one.name, "value": one.value}
            known = present.get(_folded(field, one.name))
            if known is None:
                entries.append(entry)
            elif (known.get("type", "Exact"), known.get("value")) != (one.type, one.value):
                return None
        result[field] = entries
    return result


def _folded(field: str, name: str) -> str:
    return name.lower() if field == "headers" else name


def with_modifier(filters: Iterable[JsonObject] | None, modifier: HeaderModifier) -> list[JsonObject]:
    """The filters with ours; there may only be one of its type, so it goes into one that is there."""
    result = copy.deepcopy(list(filters or ()))
    ours: JsonObject = {
        **({"set": [{"name": one.name, "value": one.value} for one in modifier.set]} if modifier.set else {}),
        **({"add": [{"name": one.name, "value": one.value} for one in modifier.add]} if modifier.add else {}),
        **({"remove": list(modifier.remove)} if modifier.remove else {}),
    }
    for one in result:
        if one.get("type") == _MODIFIER:
            theirs = one.setdefault("requestHeaderModifier", {})
            for field, entries in ours.items():
                names = {_name(entry) for entry in entries}
                kept = [entry for entry in theirs.get(field) or () if _name(entry) not in names]
                theirs[field] = kept + entries
            return result
    return [*result, {"type": _MODIFIER, "requestHeaderModifier": ours}]


def _name(entry: str | JsonObject) -> str:
    return (entry if isinstance(entry, str) else str(entry["name"])).lower()


# Finding back


def original_rules(route: JsonObject, stable: str, canary: str) -> Rules:
    """The user's rules, by the annotation and by what the live rules have become."""
    live: Rules = (route.get("spec") or {}).get("rules") or []
    text = (route["metadata"].get("annotations") or {}).get(ORIGINAL_RULES)
    kept = _decoded(text)
    if kept is None:
        return live if stable == canary else _cleaned(live, stable, canary)
    if stable == canary:
        return kept
    cleaned = stripped(live, canary)
    if equal(_comparable(cleaned, stable), _comparable(stripped(kept, canary), stable)):
        return kept
    return [_unweighted(rule, stable) for rule in cleaned]


def _cleaned(live: Rules, stable: str, canary: str) -> Rules:
    """Rules that were divided and whose original is lost (by another implementation, or with the annotation). Rules
    without the canary are the user's."""
    return [
        rule if rule is before else _unweighted(rule, stable) for before in live for rule in stripped([before], canary)
    ]


def _decoded(text: str | None) -> Rules | None:
    return None if text is None else read_recorded(text, list[JsonObject])


def stripped(rules: Rules, canary: str) -> Rules:
    """Without the canary: its backends, and rules that had no other."""
    result = []
    for rule in rules:
        refs = rule.get("backendRefs") or []
        kept = [ref for ref in refs if not is_service(ref, canary)]
        if kept or not refs:
            result.append(rule if len(kept) == len(refs) else {**rule, "backendRefs": kept})
    return result


def _comparable(rules: Rules, stable: str) -> Rules:
    """Weights in rules with the stable Service are ours while a release runs."""
    return [
        {**rule, "backendRefs": [{**ref, "weight": 0} for ref in rule["backendRefs"]]}
        if _stable_refs(rule, stable)
        else rule
        for rule in rules
    ]


def _unweighted(rule: JsonObject, stable: str) -> JsonObject:
    """A rule that the user has edited: the share of the stable Service is whole again."""
    refs = rule.get("backendRefs") or []
    if len(refs) != 1 or not is_service(refs[0], stable):
        return rule
    return {**rule, "backendRefs": [{**refs[0], "weight": 1}]}


# Plans


def check_route(route: JsonObject | None, ref: RouteRef, request: TrafficRequest) -> JsonObject:
    assert ref.gateway is not None
    named = request.reference(HTTP_ROUTES.kind, ref.gateway.http_route_name or "", RefField.HTTP_ROUTE)
    if route is None:
        raise unusable(ObjectMissing(named))
    if not any(_stable_refs(rule, ref.service) for rule in (route.get("spec") or {}).get("rules") or ()):
        raise unusable(NoBackend(named, ref.service))
    return route


def plan_step(route: JsonObject, stable: str, canary: str, step: TrafficStep) -> TrafficPlan:
    """A step that gives the canary nothing leaves an untouched route alone."""
    live: Rules = (route.get("spec") or {}).get("rules") or []
    annotated = ORIGINAL_RULES in (route["metadata"].get("annotations") or {})
    original = original_rules(route, stable, canary)
    if not annotated and original == live and not step.matches and not step.weight:
        return NOTHING_TO_DO
    desired = routed(original, stable, canary, step)
    text = msgspec.json.encode(original).decode()
    return _change(route, live, desired, text, f"route {_described(step, canary)}")


def plan_restore(route: JsonObject | None, stable: str, canary: str) -> TrafficPlan:
    if route is None:
        return NOTHING_TO_DO
    live: Rules = (route.get("spec") or {}).get("rules") or []
    return _change(route, live, original_rules(route, stable, canary), None, "restore the rules")


def _change(route: JsonObject, live: Rules, desired: Rules, kept: str | None, what: str) -> TrafficPlan:
    metadata = route["metadata"]
    known = (metadata.get("annotations") or {}).get(ORIGINAL_RULES)
    before: JsonObject = {"metadata": {"annotations": {ORIGINAL_RULES: known}}, "spec": {"rules": live}}
    after: JsonObject = {"metadata": {"annotations": {ORIGINAL_RULES: kept}}, "spec": {"rules": desired}}
    patch = merge_patch(before, after)
    if patch is None:
        return NOTHING_TO_DO
    body = locked(patch, metadata["resourceVersion"])
    text = f"HTTPRoute {metadata['name']}: {what}"
    return TrafficPlan((Write("patch", version_of(route), metadata["namespace"], metadata["name"], text, body),))


def version_of(route: JsonObject) -> Resource:
    """The version that a route was read in, and is written in: what the cluster serves."""
    version = str(route.get("apiVersion") or "").rpartition("/")[2]
    return next((one for one in HTTP_ROUTE_VERSIONS if one.version == version), HTTP_ROUTES)


def _described(step: TrafficStep, canary: str) -> str:
    if not step.matches:
        return f"{step.weight or 0}% to {canary}"
    return f"{len(step.matches)} {agreeing(len(step.matches), 'match', 'matches')} to {canary}"
