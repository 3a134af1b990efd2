"""Ingress: the canary is a second Ingress beside the user's, marked by annotations of its class.

The user's Ingress is never touched, so restoring it is deleting ours.

| class      | switch, weight, header, cookie        | besides                                              |
|------------|---------------------------------------|------------------------------------------------------|
| nginx      | `nginx.ingress.kubernetes.io/canary*` |                                                      |
| higress    | the same                              | every match needs a header                           |
| aliyun-alb | `alb.ingress.kubernetes.io/canary*`   | every match needs a header; `order: "1"`             |
| mse        | as nginx                              | one query parameter; subset; headers set on requests |

These classes can say one header per canary: of each match the first header counts, and of several matches the last.
What they cannot express is reported by an event.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Final

from kohort.kube.merge_patch import merge_patch
from kohort.kube.resources import INGRESSES
from kohort.objects.json_types import JsonObject
from kohort.rollouts.messages import EventReason, ReleaseEvent
from kohort.rollouts.reference_problems import NoBackend, ObjectMissing, RefField
from kohort.rollouts.traffic.annotations import NOT_COPIED
from kohort.rollouts.traffic.model import HeaderMatch, IngressRef, RouteRef, TrafficRequest, TrafficStep
from kohort.rollouts.traffic.pending_writes import (
    NOTHING_TO_DO,
    TrafficNotReady,
    TrafficPlan,
    TrafficProblem,
    Write,
    belongs_to,
    is_going,
    labels_of_copy,
    refuse_foreign,
    unusable,
)
from kohort.rules.nginx_annotations import CANARY, COOKIE, HEADER, HEADER_PATTERN, HEADER_VALUE, WEIGHT
from kohort.rules.nginx_annotations import PREFIX as NGINX

ALB: Final = "alb.ingress.kubernetes.io/"
MSE: Final = "mse.ingress.kubernetes.io/"
_RULES: Final = (COOKIE, HEADER, HEADER_PATTERN, HEADER_VALUE, WEIGHT)
_QUERIES: Final = ("canary-by-query", "canary-by-query-pattern", "canary-by-query-value")
REGULAR: Final = "RegularExpression"

WITHOUT_TRAFFIC: Final = TrafficStep(weight=0)
"""How the canary's Ingress is created: its weight is changed in one place later, at once."""

Annotations = dict[str, str]
ClassRule = Callable[[Mapping[str, str], TrafficStep], Annotations]
"""From the canary's annotations and a step to all annotations that it shall have."""


def _common(prefix: str, annotations: Mapping[str, str], step: TrafficStep, *, headers_needed: str = "") -> Annotations:
    cleared = {prefix + key for key in _RULES}
    result = {key: value for key, value in annotations.items() if key not in cleared}
    result[prefix + CANARY] = "true"
    if step.weight is not None:
        result[prefix + WEIGHT] = str(step.weight)
    for number, match in enumerate(step.matches):
        if match.headers:
            result.update(_header(prefix, match.headers[0]))
        elif headers_needed:
            raise TrafficProblem(
                f"matches[{number}] has no headers, and an Ingress of class {headers_needed} can match nothing else; "
                "give it a header or use traffic instead"
            )
    return result


def _header(prefix: str, header: HeaderMatch) -> Annotations:
    if header.name == COOKIE:
        return {prefix + COOKIE: header.value}
    kind = HEADER_PATTERN if header.type == REGULAR else HEADER_VALUE
    return {prefix + HEADER: header.name, prefix + kind: header.value}


def nginx(annotations: Mapping[str, str], step: TrafficStep) -> Annotations:
    return _common(NGINX, annotations, step)


def higress(annotations: Mapping[str, str], step: TrafficStep) -> Annotations:
    return _common(NGINX, annotations, step, headers_needed="higress")


def aliyun_alb(annotations: Mapping[str, str], step: TrafficStep) -> Annotations:
    return _common(ALB, annotations, step, headers_needed="aliyun-alb") | {ALB + "order": "1"}


def mse(annotations: Mapping[str, str], step: TrafficStep) -> Annotations:
    """Query rules are written under both prefixes: one is what the gateway documents, the other what scripts of
    existing users have always seen."""
    cleared = {prefix + key for prefix in (NGINX, MSE) for key in _QUERIES}
    result = _common(NGINX, {key: text for key, text in annotations.items() if key not in cleared}, step)
    for match in step.matches:
        for query in match.query_params[:1]:
            kind = "pattern" if query.type == REGULAR else "value"
            for prefix in (NGINX, MSE):
                result |= {f"{prefix}canary-by-query": query.name, f"{prefix}canary-by-query-{kind}": query.value}
    if MSE + "service-subset" in result:
        result[MSE + "service-subset"] = "gray"
    if step.header_modifier is not None and step.header_modifier.set:
        lines = (f"{header.name} {header.value}" for header in step.header_modifier.set)
        result[MSE + "request-header-control-update"] = "\n".join(lines)
    return result


CLASSES: Final[Mapping[str, ClassRule]] = {
    "nginx": nginx,
    "higress": higress,
    "aliyun-alb": aliyun_alb,
    "mse": mse,
}


def not_expressible(ref: IngressRef, step: TrafficStep) -> tuple[ReleaseEvent, ...]:
    """Parts of a step that the built-in rules of a class leave out."""
    lost = []
    used = [match for match in step.matches if match.headers or (match.query_params and ref.class_type == "mse")]
    if len(used) > 1:
        lost.append(f"only the last of {len(used)} matches")
    for match in step.matches:
        if len(match.headers) > 1:
            lost.append(f"only header {match.headers[0].name} of a match with {len(match.headers)}")
        if match.path is not None:
            lost.append("no path")
        if match.query_params and ref.class_type != "mse":
            lost.append("no queryParams")
    if step.header_modifier is not None and ref.class_type != "mse":
        lost.append("no requestHeaderModifier")
    if not lost:
        return ()
    text = f"Ingress {ref.name} of class {ref.class_type} can use {', '.join(dict.fromkeys(lost))}"
    return (ReleaseEvent(EventReason.MATCH_NOT_EXPRESSIBLE, text),)


# The canary's Ingress


def canary_name(ref: IngressRef) -> str:
    return f"{ref.name}-canary"


def canary_rules(ingress: JsonObject, stable: str, canary: str) -> list[JsonObject]:
    """The rules that lead to the stable Service, leading to the canary's instead."""
    rules = []
    for rule in ingress["spec"].get("rules") or ():
        paths = [
            path for path in (rule.get("http") or {}).get("paths") or () if _service(path.get("backend")) == stable
        ]
        if paths:
            canary_paths = copy.deepcopy(paths)
            for path in canary_paths:
                path["backend"]["service"]["name"] = canary
            rules.append({**rule, "http": {"paths": canary_paths}})
    return rules


def _service(backend: JsonObject | None) -> str:
    return str(((backend or {}).get("service") or {}).get("name", ""))


def canary_ingress(ingress: JsonObject, ref: RouteRef, request: TrafficRequest) -> JsonObject:
    """Without the annotations of its class yet."""
    assert ref.ingress is not None
    metadata, spec = ingress["metadata"], ingress["spec"]
    kept = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in NOT_COPIED}
    return {
        "apiVersion": INGRESSES.api_version,
        "kind": INGRESSES.kind,
        "metadata": {
            "name": canary_name(ref.ingress),
            "namespace": metadata["namespace"],
            "ownerReferences": [dict(request.owner)],
            "annotations": kept,
            "labels": labels_of_copy(metadata.get("labels"), request.owner),
        },
        "spec": {
            **{field: copy.deepcopy(spec[field]) for field in ("ingressClassName", "tls") if field in spec},
            "rules": canary_rules(ingress, ref.service, request.canary_service(ref)),
        },
    }


def check_ingress(ingress: JsonObject | None, ref: RouteRef, request: TrafficRequest) -> JsonObject:
    assert ref.ingress is not None
    named = request.reference(INGRESSES.kind, ref.ingress.name, RefField.INGRESS)
    if ingress is None:
        raise unusable(ObjectMissing(named))
    if not canary_rules(ingress, ref.service, ref.service):
        raise unusable(NoBackend(named, ref.service))
    return ingress


def is_missing(canary: JsonObject | None, step: TrafficStep) -> bool:
    """Whether the canary's Ingress has to be created. Whose an existing one is, and whether it is being deleted, is
    decided when its annotations are set.

    | step               | canary's Ingress | create it |
    |--------------------|------------------|-----------|
    | no weight, or 0    | any              | no        |
    | weight or matches  | exists           | no        |
    | weight or matches  | does not exist   | yes       |
    """
    return step.serves_canary and canary is None


def plan_creation(canary: JsonObject, annotations: Annotations) -> TrafficPlan:
    metadata = {**canary["metadata"], "annotations": annotations}
    text = f"create Ingress {metadata['name']} without traffic"
    body = {**canary, "metadata": metadata}
    return TrafficPlan((Write("create", INGRESSES, metadata["namespace"], metadata["name"], text, body),))


def plan_annotations(existing: JsonObject, desired: Annotations, request: TrafficRequest) -> TrafficPlan:
    metadata = existing["metadata"]
    if is_going(existing):
        raise TrafficNotReady(f"Ingress {metadata['name']} of an earlier release is still being deleted")
    refuse_foreign(existing, "Ingress", request.owner)
    patch = merge_patch({"annotations": metadata.get("annotations") or {}}, {"annotations": desired})
    if patch is None:
        return NOTHING_TO_DO
    text = f"set Ingress {metadata['name']}: {_described(patch['annotations'])}"
    return TrafficPlan((Write("patch", INGRESSES, request.namespace, metadata["name"], text, {"metadata": patch}),))


def _described(changes: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"no {key.rpartition('/')[2]}" if value is None else f"{key.rpartition('/')[2]}={value}"
        for key, value in sorted(changes.items())
    )


def plan_deletion(existing: JsonObject | None, request: TrafficRequest) -> TrafficPlan:
    if existing is None or is_going(existing) or not belongs_to(existing, request.owner):
        return NOTHING_TO_DO
    metadata = existing["metadata"]
    text = f"delete Ingress {metadata['name']}"
    return TrafficPlan((Write("delete", INGRESSES, request.namespace, metadata["name"], text, uid=metadata["uid"]),))
