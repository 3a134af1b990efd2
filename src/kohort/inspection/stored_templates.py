"""The templates of a set as the API server stores the pods that are made of them.

A template keeps what its author wrote, but a pod does not: limits become requests (the usual way to ask for
accelerators), a LimitRange or a runtime class adds more. So requests of pods must be counted in the stored form.

| source | what it knows |
|---|---|
| `pods_for_dry_run`, sent to the server as a dry run | everything that this cluster adds |
| `with_pod_defaults` | the defaults that are the same on every cluster; enough if the server cannot be asked |
"""

import copy
from collections.abc import Mapping

import msgspec

from kohort.cluster.apiserver.kinds.pod.defaults import default_pod
from kohort.cluster.apiserver.kinds.pod.pod_level_resources import default_levels
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.stored_requests import spell_amounts

ROLES = ("leaderTemplate", "workerTemplate")


def with_pod_defaults(group_set: LeaderWorkerSet) -> LeaderWorkerSet:
    """The set with templates that carry the defaults of a pod. Applying it twice changes nothing more."""
    return _with_specs(group_set, {role: _defaulted(spec) for role, spec in _specs(group_set).items()})


def pods_for_dry_run(group_set: LeaderWorkerSet) -> dict[str, JsonObject]:
    """A pod per template, to be created as a dry run. It does not carry the label of the set, so that no controller and
    no webhook of groups takes it for one of a group; claims are replaced, because their names are not known yet."""
    found: dict[str, JsonObject] = {}
    for role, spec in _specs(group_set).items():
        metadata = group_set.template.raw[role].get("metadata") or {}
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != group_labels.NAME}
        claims = [{"name": one["metadata"]["name"], "emptyDir": {}} for one in group_set.template.claims]
        named = {one["name"] for one in claims}
        volumes = [one for one in spec.get("volumes") or () if one.get("name") not in named]
        found[role] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "plan-",
                "labels": labels,
                "annotations": dict(metadata.get("annotations") or {}),
            },
            "spec": {**spec, "volumes": [*volumes, *claims]},
        }
    return found


def with_stored_pods(group_set: LeaderWorkerSet, stored: Mapping[str, JsonObject]) -> LeaderWorkerSet:
    """The set with the specs of pods as a server would store them; `stored` has those that it could be asked about."""
    before = _specs(group_set)
    specs = {role: {**pod["spec"], "volumes": before[role].get("volumes") or []} for role, pod in stored.items()}
    return with_pod_defaults(_with_specs(group_set, specs))


def _specs(group_set: LeaderWorkerSet) -> dict[str, JsonObject]:
    templates = group_set.template.raw
    return {role: templates[role].get("spec") or {} for role in ROLES if templates.get(role)}


def _with_specs(group_set: LeaderWorkerSet, specs: Mapping[str, JsonObject]) -> LeaderWorkerSet:
    templates = dict(group_set.template.raw)
    for role, spec in specs.items():
        templates[role] = {**templates[role], "spec": spec}
    return msgspec.structs.replace(group_set, spec={**group_set.spec, "leaderWorkerTemplate": templates})


def _defaulted(spec: JsonObject) -> JsonObject:
    pod: JsonObject = {"spec": copy.deepcopy(spec)}
    spell_amounts(pod["spec"])
    default_pod(pod)
    default_levels(pod["spec"])
    result: JsonObject = pod["spec"]
    return result
