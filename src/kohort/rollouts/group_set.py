"""A LeaderWorkerSet as releases see it: its size, its template, and whether a release holds it."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from collections.abc import Mapping
from typing import Final

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.recorded_json import read_recorded
from kohort.objects.view import View
from kohort.rules import rollout_labels
from kohort.rules.group_identity import parse_index
from kohort.rules.group_template import (
    earlier_fingerprint,
    has_fingerprint,
    revision_fingerprint,
    with_default_template,
)
from kohort.rules.release_hold import is_held_by_release
from kohort.rules.resource_outline import changes_only_resources
from kohort.rules.resource_update_policy import resource_update_policy

HELD_GROUPS_PARTITION: Final = 1_000_000
"""The partition of a held set: above every ordinal that can exist, so that no group is updated."""


class GroupResizeStatus(View, frozen=True):
    state: str = ""
    message: str = ""


class GroupSetStatus(View, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0
    resize: GroupResizeStatus | None = None
    restarts: dict[str, JsonObject] = {}


class GroupSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    status: GroupSetStatus = GroupSetStatus()

    @property
    def replicas(self) -> int:
        count = self.spec.get("replicas")
        return 1 if count is None else count

    @property
    def size(self) -> int:
        size = (self.spec.get("leaderWorkerTemplate") or {}).get("size")
        return 1 if size is None else size

    @property
    def has_restart_budget(self) -> bool:
        return bool((self.spec.get("leaderWorkerTemplate") or {}).get("restartBudget"))

    @property
    def observed(self) -> bool:
        return self.status.observed_generation >= self.metadata.generation

    @property
    def in_progress(self) -> bool:
        return is_held_by_release(self.metadata.annotations)

    @property
    def promoting(self) -> bool:
        """The hold is lifted, the strategy that the user wrote is not back yet."""
        return self._keeps_strategy and not is_held(self.spec)

    @property
    def left_held(self) -> bool:
        """A release was given up with the hold left on, for a person or another Rollout to decide."""
        return self._keeps_strategy and is_held(self.spec)

    @property
    def _keeps_strategy(self) -> bool:
        return not self.in_progress and rollout_labels.ORIGINAL_LWS_STRATEGY in self.metadata.annotations

    @property
    def fingerprint(self) -> str:
        return revision_fingerprint(self.spec)

    @property
    def earlier_fingerprint(self) -> str:
        """The same, as an earlier version of kohort would have recorded it."""
        return earlier_fingerprint(self.spec)

    @property
    def is_stable_again(self) -> bool:
        """Its template is the one that it had when it was held."""
        return is_stable_template(self.spec, self.metadata.annotations)

    @property
    def resizes_in_place(self) -> bool:
        """Its release changes resources alone, on the running groups (`workloads.in_place_release`)."""
        return is_released_in_place(self.spec, self.metadata.annotations)

    @property
    def step_partition(self) -> int:
        """The partition that a step of a release in place has given it."""
        return step_partition(self.metadata.annotations)

    @property
    def rolling(self) -> JsonObject:
        return rolling_configuration(self.spec)

    @property
    def is_canary(self) -> bool:
        return rollout_labels.CANARY_SET in self.metadata.labels


def rolling_configuration(spec: JsonObject) -> JsonObject:
    return (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}


def is_stable_template(spec: JsonObject, annotations: Mapping[str, str]) -> bool:
    """Whether a held set would have its stable template again, with defaults filled in or not."""
    recorded = annotations.get(rollout_labels.STABLE_FINGERPRINT, "")
    return any(has_fingerprint(one, recorded) for one in (spec, with_default_template(spec)))


def is_released_in_place(spec: JsonObject, annotations: Mapping[str, str]) -> bool:
    """Whether what a held set changes is resources alone, and its policy gives them to running groups."""
    text = annotations.get(rollout_labels.STABLE_RESOURCES)
    if not text or not resource_update_policy(spec).in_place:
        return False
    outline = read_recorded(text, dict[str, Json])
    return outline is not None and changes_only_resources(outline, spec)


def step_partition(annotations: Mapping[str, str]) -> int:
    noted = parse_index(annotations.get(rollout_labels.STEP_PARTITION))
    return HELD_GROUPS_PARTITION if noted is None else noted


def is_held(spec: JsonObject, partition: int = HELD_GROUPS_PARTITION) -> bool:
    rolling = rolling_configuration(spec)
    return rolling.get("partition") == partition and rolling.get("maxSurge") == 0
