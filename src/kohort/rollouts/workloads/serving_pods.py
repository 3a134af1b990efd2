"""Which pods of a workload should get requests, by its template: the pods that a Service must select."""

from collections.abc import Mapping
from typing import Final

from kohort.objects import well_known_names
from kohort.objects.apps import Deployment, StatefulSet
from kohort.objects.json_types import JsonObject
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.traffic.model import ServingPods
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_identity import leader_labels
from kohort.rules.group_template import leader_template

_KEYS_OF_STATEFUL_SETS: Final = frozenset(
    {
        well_known_names.POD_INDEX,
        rollout_labels.REVISION_HASH,
        well_known_names.STATEFUL_SET_POD_NAME,
    }
)
_KEYS_OF_LEADERS: Final = _KEYS_OF_STATEFUL_SETS | frozenset(
    {
        group_labels.GROUP_INDEX,
        group_labels.REVISION,
        group_labels.GROUP_KEY,
        group_labels.SUBGROUP_INDEX,
        group_labels.SUBGROUP_KEY,
    }
)


def of_group_set(subject: GroupSet) -> ServingPods:
    template = subject.spec.get("leaderWorkerTemplate") or {}
    name = subject.metadata.name
    identity = leader_labels(name)
    labels = _labels(leader_template(template))
    return ServingPods(f"LeaderWorkerSet {name}", {**labels, **identity}, _KEYS_OF_LEADERS, identity)


def of_deployment(subject: Deployment) -> ServingPods:
    labels = {**_labels(subject.spec.template)}
    labels.pop(rollout_labels.TEMPLATE_HASH, None)
    name = f"Deployment {subject.metadata.name}"
    selector = subject.spec.selector.match_labels if subject.spec.selector is not None else {}
    return ServingPods(name, labels, frozenset({rollout_labels.TEMPLATE_HASH}), selector)


def of_stateful_set(subject: StatefulSet) -> ServingPods:
    name = f"StatefulSet {subject.metadata.name}"
    selector = subject.spec.selector.match_labels if subject.spec.selector is not None else {}
    return ServingPods(name, {**_labels(subject.spec.template)}, _KEYS_OF_STATEFUL_SETS, selector)


def _labels(template: JsonObject) -> Mapping[str, str]:
    labels: dict[str, str] = (template.get("metadata") or {}).get("labels") or {}
    return labels
