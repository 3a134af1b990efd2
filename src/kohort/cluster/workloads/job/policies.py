"""podFailurePolicy and successPolicy of a Job: what a failed pod means, and when enough pods have succeeded.

The first rule of `podFailurePolicy` that matches a failed pod decides:

| action | the failure counts | then |
|---|---|---|
| FailJob | yes | the Job fails |
| FailIndex | yes | the index fails, whatever back-off it has left |
| Count, or no rule | yes | |
| Ignore | no | the pod is replaced |
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from kohort.cluster.workloads.job.indexes import parse_indexes
from kohort.objects.json_types import JsonObject

Action = Literal["FailJob", "FailIndex", "Count", "Ignore"]


class Exit(msgspec.Struct, frozen=True):
    container: str
    code: int


class FailureDecision(msgspec.Struct, frozen=True):
    """What one failed pod means for its Job."""

    action: Action = "Count"
    message: str = ""
    """DeleteReason the Job fails; only with FailJob."""

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


def failure_decision(
    policy: JsonObject | None, pod: str, exits: Sequence[Exit], conditions: Sequence[tuple[str, str]]
) -> FailureDecision:
    """`pod` is namespace/name; `conditions` are types with their status; `exits` those of ended containers."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action: Action = rule["action"]
        if rule.get("onExitCodes") is not None:
            ended = next((one for one in exits if _exit_matches(rule["onExitCodes"], one)), None)
            if ended is not None:
                text = f"Container {ended.container} for pod {pod} failed with exit code {ended.code}"
                return _decision(action, text, number)
            continue
        wanted = {(one["type"], one.get("status", "True")) for one in rule.get("onPodConditions") or ()}
        condition = next((one for one in conditions if one in wanted), None)
        if condition is not None:
            return _decision(action, f"Pod {pod} has condition {condition[0]}", number)
    return FailureDecision()


def _decision(action: Action, text: str, number: int) -> FailureDecision:
    return FailureDecision(action, f"{text} matching {action} rule at index {number}" if action == "FailJob" else "")


def _exit_matches(requirement: JsonObject, ended: Exit) -> bool:
    if ended.code == 0 or requirement.get("containerName") not in (None, ended.container):
        return False
    listed = ended.code in requirement["values"]
    return listed if requirement["operator"] == "In" else not listed


def success_rule(policy: JsonObject | None, completed: frozenset[int]) -> int | None:
    """The number of the first rule of `successPolicy` that is fulfilled."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            if completed and count is not None and len(completed) >= count:
                return number
            continue
        wanted = parse_indexes(rule["succeededIndexes"])
        done = len(wanted & completed)
        if wanted and completed and (done == len(wanted) or (count is not None and done >= count)):
            return number
    return None
