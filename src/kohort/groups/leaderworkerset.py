"""A LeaderWorkerSet as the controllers see it.

Templates stay raw dictionaries: fields that a newer Kubernetes adds pass through untouched, and a revision is exactly
what the user wrote.
"""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from collections.abc import Sequence

import msgspec

from kohort.groups.disruption_budget import DisruptionBudget
from kohort.groups.restart_budget import RestartBudget
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, controller_reference
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.group_template import leader_template
from kohort.rules.rolling_limits import RollLimits, group_limits

API_VERSION = LEADER_WORKER_SETS.api_version
KIND = "LeaderWorkerSet"


class UniqueToleration(View, frozen=True):
    key: str = ""
    effect: str = ""


class SchedulingPolicy(View, frozen=True):
    replica_unique_node_selector: str = ""
    replica_unique_toleration: UniqueToleration | None = None


class SubGroupPolicy(View, frozen=True):
    sub_group_size: int | None = None
    sub_group_policy_type: str | None = None


class LeaderWorkerTemplate(msgspec.Struct, frozen=True):
    """`spec.leaderWorkerTemplate`, read from the raw dictionary that it keeps."""

    raw: JsonObject

    @property
    def size(self) -> int:
        size = self.raw.get("size")
        return 1 if size is None else size

    @property
    def leader(self) -> JsonObject:
        return leader_template(self.raw)

    @property
    def worker(self) -> JsonObject:
        template: JsonObject = self.raw.get("workerTemplate") or {}
        return template

    @property
    def restart_policy(self) -> str:
        return self.raw.get("restartPolicy") or group_labels.RECREATE_ON_RESTART

    @property
    def resize_policy(self) -> str | None:
        return self.raw.get("resizePolicy")

    @property
    def restart_budget(self) -> RestartBudget | None:
        budget = self.raw.get("restartBudget")
        return None if budget is None else msgspec.convert(budget, RestartBudget)

    @property
    def subgroups(self) -> SubGroupPolicy | None:
        policy = self.raw.get("subGroupPolicy")
        return None if policy is None else msgspec.convert(policy, SubGroupPolicy)

    @property
    def scheduling(self) -> SchedulingPolicy | None:
        policy = self.raw.get("schedulingPolicy")
        return None if policy is None else msgspec.convert(policy, SchedulingPolicy)

    @property
    def claims(self) -> Sequence[JsonObject]:
        return self.raw.get("volumeClaimTemplates") or ()

    @property
    def retention(self) -> JsonObject | None:
        return self.raw.get("persistentVolumeClaimRetentionPolicy")


class LeaderWorkerSetStatus(View, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    stable_revision: str = ""
    update_revision: str = ""
    hpa_pod_selector: str = ""
    observed_generation: int = 0
    conditions: tuple[JsonObject, ...] = ()
    resize: JsonObject | None = None
    restarts: dict[str, JsonObject] = {}
    """By the index of a group, see `restart_budget.GroupRestarts`."""
    disrupted_groups: dict[str, JsonObject] = {}
    """By the index of a group, see `disruption_budget.DisruptedGroup`."""
    disruptions_allowed: int | None = None


class LeaderWorkerSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    status: LeaderWorkerSetStatus = LeaderWorkerSetStatus()

    @property
    def replicas(self) -> int:
        replicas = self.spec.get("replicas")
        return 1 if replicas is None else replicas

    @property
    def template(self) -> LeaderWorkerTemplate:
        return LeaderWorkerTemplate(self.spec.get("leaderWorkerTemplate") or {})

    @property
    def disruption_budget(self) -> DisruptionBudget | None:
        budget = self.spec.get("disruptionBudget")
        return None if budget is None else msgspec.convert(budget, DisruptionBudget)

    @property
    def subdomain_policy(self) -> str:
        return (self.spec.get("networkConfig") or {}).get("subdomainPolicy") or group_labels.SHARED

    @property
    def startup_policy(self) -> str:
        return self.spec.get("startupPolicy") or group_labels.LEADER_CREATED

    @property
    def _rolling(self) -> JsonObject:
        strategy = self.spec.get("rolloutStrategy") or {}
        return strategy.get("rollingUpdateConfiguration") or {}

    @property
    def partition(self) -> int:
        return self._rolling.get("partition") or 0

    @property
    def limits(self) -> RollLimits:
        """maxSurge and maxUnavailable in groups."""
        return group_limits(self._rolling, self.replicas)

    @property
    def surge(self) -> int:
        return self.limits.surge

    @property
    def unavailable(self) -> int:
        return self.limits.unavailable

    @property
    def exclusive_topology(self) -> str:
        return self.metadata.annotations.get(group_labels.EXCLUSIVE, "")

    @property
    def subgroup_exclusive_topology(self) -> str:
        return self.metadata.annotations.get(group_labels.SUBGROUP_EXCLUSIVE, "")

    @property
    def placement_annotations(self) -> dict[str, str]:
        """Annotations of the set that its pod templates repeat, outside of any revision."""
        found: dict[str, str] = {}
        if self.exclusive_topology:
            found[group_labels.EXCLUSIVE] = self.exclusive_topology
        if self.template.subgroups is not None and self.subgroup_exclusive_topology:
            found[group_labels.SUBGROUP_EXCLUSIVE] = self.subgroup_exclusive_topology
        if found and self.metadata.annotations.get(group_labels.EXCLUSIVE_EVERYWHERE) == "true":
            found[group_labels.EXCLUSIVE_EVERYWHERE] = "true"
        return found

    def owner_reference(self) -> JsonObject:
        return controller_reference(API_VERSION, KIND, self.metadata.name, self.metadata.uid)

    def at(self, template: JsonObject, network: JsonObject | None) -> "LeaderWorkerSet":
        """This set as it was at a revision: everything but the template and the network is as today."""
        spec = {**self.spec, "leaderWorkerTemplate": template}
        if network is not None:
            spec["networkConfig"] = network
        return msgspec.structs.replace(self, spec=spec)
