"""The API reference: fields, types, defaults and rules from the definitions; what they mean from the table below."""

from collections.abc import Iterator

from kohort.groups import crd as groups
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import crd as rollouts

MEANING = {
    "spec.replicas": "How many groups.",
    "spec.startupPolicy": "When workers are made: with their leader, or once it is ready.",
    "spec.rolloutStrategy": "How groups are replaced when the template changes.",
    "spec.rolloutStrategy.type": "Always RollingUpdate.",
    "spec.rolloutStrategy.rollingUpdateConfiguration": "Its limits.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.partition": "Groups below this index keep their revision.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable": "Groups that may be away; number or percentage.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge": "Groups that may exist on top meanwhile.",
    "spec.networkConfig": "Names of pods.",
    "spec.networkConfig.subdomainPolicy": "One headless Service for all groups, or one for each.",
    "spec.leaderWorkerTemplate": "What a group is made of.",
    "spec.leaderWorkerTemplate.leaderTemplate": "Template of leaders; that of workers if absent.",
    "spec.leaderWorkerTemplate.workerTemplate": "Template of workers.",
    "spec.leaderWorkerTemplate.size": "Pods of a group, its leader included.",
    "spec.leaderWorkerTemplate.restartPolicy": "What the restart of one pod means for its group. Default is None.",
    "spec.leaderWorkerTemplate.resizePolicy": "Whether a change of size recreates groups (Recreate) or is refused.",
    "spec.leaderWorkerTemplate.subGroupPolicy": "Divides a group.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize": "Pods of a subgroup.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType": "Whether the leader belongs to the first subgroup.",
    "spec.leaderWorkerTemplate.schedulingPolicy": "Nodes that belong to one group alone.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueNodeSelector": "Node label that holds the leader's name.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration": "Taint that holds the leader's name.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.key": "Its key.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.effect": "Its effect.",
    "spec.leaderWorkerTemplate.volumeClaimTemplates": "A claim of each for every pod.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy": "What becomes of claims.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenDeleted": (
        "Retain or Delete. Delete also takes workers' claims whenever their group is recreated."
    ),
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain or Delete, of leaders.",
    "status.replicas": "Groups that exist.",
    "status.readyReplicas": "Groups of which all pods are ready.",
    "status.updatedReplicas": "Groups of the wanted revision.",
    "status.updatedReadyReplicas": "Those of them that are ready.",
    "status.stableRevision": "Key of the revision that the last finished roll brought.",
    "status.updateRevision": "Key of the wanted revision.",
    "status.hpaPodSelector": "Selects leaders, for autoscalers.",
    "status.observedGeneration": "The edit that this status is about.",
    "status.conditions": "Available, Progressing, UpdateInProgress.",
}
"""Fields of a LeaderWorkerSet."""

TEMPLATES = {"leaderTemplate": "PodTemplateSpec", "workerTemplate": "PodTemplateSpec"}
"""Kinds of Kubernetes are named, not repeated."""


def page() -> str:
    lines = [
        "# API reference",
        "",
        "Made from the definitions in the code. `kubectl explain lws.spec` shows the same on a cluster.",
        "",
    ]
    lines += _section(groups.definition(), MEANING)
    for definition in rollouts.definitions():
        lines += _section(definition, {})
    return "\n".join(lines) + "\n"


def _section(definition: JsonObject, meaning: dict[str, str]) -> Iterator[str]:
    spec = definition["spec"]
    for version in spec["versions"]:
        yield f"## {spec['names']['kind']} ({spec['group']}/{version['name']})"
        yield ""
        schema = version["schema"]["openAPIV3Schema"]
        header = ["field", "type", "default", *(["meaning"] if meaning else [])]
        yield f"| {' | '.join(header)} |"
        yield f"|{'---|' * len(header)}"
        for path, field, required in _fields(schema):
            cells = [f"`{path}`", _type(path, field) + (", required" if required else ""), _default(field)]
            yield f"| {' | '.join([*cells, *([meaning[path]] if meaning else [])])} |"
        yield ""
        rules = [rule for rule in _rules(schema) if rule]
        if rules:
            yield "Rules beyond the types:"
            yield ""
            yield from (f"- {rule}" for rule in dict.fromkeys(rules))
            yield ""


def fields_of_sets() -> set[str]:
    (version,) = groups.definition()["spec"]["versions"]
    return {path for path, _, _ in _fields(version["schema"]["openAPIV3Schema"])}


def _fields(schema: JsonObject, prefix: str = "") -> Iterator[tuple[str, JsonObject, bool]]:
    required = schema.get("required") or ()
    for name, field in (schema.get("properties") or {}).items():
        if not prefix and name in ("apiVersion", "kind", "metadata"):
            continue
        path = f"{prefix}{name}"
        if path not in ("spec", "status"):
            yield path, field, name in required
        if name in TEMPLATES or name in ("volumeClaimTemplates", "conditions"):
            continue
        inner = field.get("items") if field.get("type") == "array" else field
        if inner and inner.get("properties"):
            yield from _fields(inner, f"{path}[]." if inner is not field else f"{path}.")


def _type(path: str, field: JsonObject) -> str:
    name = path.rsplit(".", 1)[-1]
    if name in TEMPLATES:
        return TEMPLATES[name]
    if name == "volumeClaimTemplates":
        return "list of PersistentVolumeClaim"
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if "enum" in field:
        return " / ".join(str(value) or '""' for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {(field.get('items') or {}).get('type', 'object')}"
    limits = [f"{word} {field[key]}" for word, key in (("≥", "minimum"), ("≤", "maximum")) if key in field]
    return ", ".join([str(field.get("type", "object")), *limits])


def _default(field: JsonObject) -> str:
    return f"`{field['default']}`" if "default" in field else ""


def _rules(schema: JsonObject) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations") or ():
        yield rule.get("message") or rule["rule"]
    for name, field in (schema.get("properties") or {}).items():
        if name not in TEMPLATES and name != "volumeClaimTemplates":
            yield from _rules(field.get("items") or field)
