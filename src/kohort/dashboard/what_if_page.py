"""What applying a manifest would do: `kohort plan` on a page."""

from collections.abc import Sequence

import msgspec
import yaml

from kohort.dashboard.commands import ActionRefused, Commands
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.forecast import Forecast, forecast_lines
from kohort.inspection.roll_cost import RollCost
from kohort.inspection.rollout_plan import RolloutForecast, rollout_lines
from kohort.kube.client import Client
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject

MOST_CHARACTERS = 200_000


class ForeseenSet(msgspec.Struct, frozen=True, rename="camel"):
    forecast: Forecast
    lines: Sequence[str]
    cost: RollCost | None
    """None where nothing starts, or no running group shows how long a start takes."""


class PlannedRollout(msgspec.Struct, frozen=True, rename="camel"):
    forecast: RolloutForecast
    lines: Sequence[str]


class WhatIfPage(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    manifest: str
    refused: str
    sets: Sequence[ForeseenSet] = ()
    rollouts: Sequence[PlannedRollout] = ()


async def what_if_page(commands: Commands, client: Client, namespace: str, manifest: str) -> WhatIfPage:
    if not manifest.strip():
        return WhatIfPage(namespace, "", "")
    try:
        sets, rollouts = await commands.plan(client, namespace, manifest)
    except ActionRefused as problem:
        return WhatIfPage(namespace, manifest, str(problem))
    return WhatIfPage(
        namespace,
        manifest,
        "",
        [ForeseenSet(one.forecast, forecast_lines(one.forecast), one.forecast.cost) for one in sets],
        [PlannedRollout(one, rollout_lines(one)) for one in rollouts],
    )


def manifest_of(group_set: LeaderWorkerSet) -> str:
    """A set as a person would write it, to be edited."""
    metadata: JsonObject = {"name": group_set.metadata.name, "namespace": group_set.metadata.namespace}
    if group_set.metadata.labels:
        metadata["labels"] = dict(group_set.metadata.labels)
    document = {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": metadata,
        "spec": group_set.spec,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text
