"""RolloutHistory objects: what `history` writes, and commands read."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from collections.abc import Sequence
from typing import Final

from kohort.kube.client import Client
from kohort.kube.resources import ROLLOUT_HISTORIES
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels

RELEASED_BY: Final = "kohort.dev/released-by"
"""On a record: the client that wrote the template that is released."""
COMPLETED: Final = "completed"


class HistoryStatus(View, frozen=True):
    phase: str = ""
    canary_steps: tuple[JsonObject, ...] = ()


class RecordedObject(View, frozen=True):
    data: JsonObject = {}
    """Its spec as it was recorded; empty before that."""


class HistorySpec(View, frozen=True):
    rollout: RecordedObject = RecordedObject()
    workload: RecordedObject = RecordedObject()


class History(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: HistoryStatus = HistoryStatus()
    spec: HistorySpec = HistorySpec()

    @property
    def release(self) -> str:
        """The id of the release."""
        return self.metadata.labels.get(rollout_labels.ROLLOUT_ID, "")

    @property
    def released_by(self) -> str:
        return self.metadata.annotations.get(RELEASED_BY, "")

    @property
    def outcome(self) -> str:
        """A `ReleaseOutcome`; empty while the release is under way."""
        return str(self.spec.rollout.data.get("outcome") or "")

    @property
    def template(self) -> JsonObject | None:
        """The template of a Deployment or StatefulSet that was released."""
        found: JsonObject | None = self.spec.workload.data.get("template")
        return found


async def recorded_releases(client: Client, rollout: Rollout) -> Sequence[History]:
    """The oldest first."""
    selector = f"{rollout_labels.ROLLOUT_NAME}={rollout.metadata.name}"
    page = await client.list(ROLLOUT_HISTORIES, rollout.metadata.namespace, type=History, label_selector=selector)
    return sorted(page.items, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
