"""Whether a set has the types that its schema asks for, as far as rules read it.

A webhook that mutates is asked before the schema has looked: an object can still have text where a number belongs. Such
a set is left to the schema, which names every field that is of the wrong type.
"""

import msgspec

from kohort.groups.disruption_budget import DisruptionBudget
from kohort.groups.leaderworkerset import SchedulingPolicy, SubGroupPolicy
from kohort.groups.restart_budget import RestartBudget
from kohort.objects.json_types import JsonObject
from kohort.objects.view import View


class _Named(View, frozen=True):
    name: str | None = None


class _Container(View, frozen=True):
    volume_mounts: list[_Named] | None = None
    volume_devices: list[_Named] | None = None


class _PodSpec(View, frozen=True):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _PodTemplate(View, frozen=True):
    spec: _PodSpec | None = None


class _Claim(View, frozen=True):
    metadata: _Named | None = None
    spec: JsonObject | None = None


class _Template(View, frozen=True):
    size: int | None = None
    restart_policy: str | None = None
    resize_policy: str | None = None
    leader_template: _PodTemplate | None = None
    worker_template: _PodTemplate | None = None
    sub_group_policy: SubGroupPolicy | None = None
    scheduling_policy: SchedulingPolicy | None = None
    volume_claim_templates: list[_Claim] | None = None
    restart_budget: RestartBudget | None = None


class _Rolling(View, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class _Strategy(View, frozen=True):
    type: str | None = None
    rolling_update_configuration: _Rolling | None = None


class _Network(View, frozen=True):
    subdomain_policy: str | None = None


class _Spec(View, frozen=True):
    replicas: int | None = None
    startup_policy: str | None = None
    rollout_strategy: _Strategy | None = None
    network_config: _Network | None = None
    leader_worker_template: _Template | None = None
    disruption_budget: DisruptionBudget | None = None


class _Set(View, frozen=True):
    spec: _Spec | None = None


def has_its_types(group_set: JsonObject) -> bool:
    try:
        msgspec.convert(group_set, _Set)
    except msgspec.ValidationError:
        return False
    return True
