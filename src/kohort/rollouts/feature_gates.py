"""Feature gates of releases, by the names that users of Kruise Rollouts know."""

from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.objects import feature_gates
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels

HISTORY: Final = "RolloutHistory"
APPEND_POD_SELECTOR: Final = "AppendPodSelector"
KEEP_PAUSED: Final = "KeepWorkloadPausedOnRolloutDeletion"
ADVANCED_DEPLOYMENT: Final = "AdvancedDeployment"
ANALYSIS_OF_LOOPBACK: Final = "AnalysisOfLoopback"
GATES: Final = {
    HISTORY: "history",
    APPEND_POD_SELECTOR: "append_pod_selector",
    KEEP_PAUSED: "keep_workload_paused",
    ANALYSIS_OF_LOOPBACK: "analysis_of_loopback",
    ADVANCED_DEPLOYMENT: "",
}
"""Gate to field. The last one is about partition style, which is always on; its name is known so that the flags
of an existing installation can stay."""
PARTITION_PERCENT_LIMIT: Final = 50
"""Kruise Rollouts' default for the operator's flag `--partition-percent-limit`."""


class Features(msgspec.Struct, frozen=True):
    history: bool = True
    """A RolloutHistory for every release."""
    history_limit: int = 10
    """How many of them are kept for each Rollout."""
    append_pod_selector: bool = False
    """Labels of patchPodTemplateMetadata enter the selector of canary Services even where the stable one lacks them."""
    keep_workload_paused: bool = False
    """A Rollout that is deleted or disabled midway leaves its workload held, instead of letting it roll on."""
    analysis_of_loopback: bool = False
    """Metrics may be read from, and notifications posted to, addresses of the operator's own machine."""
    partition_percent_limit: int = PARTITION_PERCENT_LIMIT
    """The largest share of new pods with which a step of partition style may divide requests."""


def keeps_hold(rollout: Rollout, features: Features) -> bool:
    """Whether a release that is given up leaves its workload held."""
    return features.keep_workload_paused or rollout.metadata.annotations.get(rollout_labels.KEEP_HELD) == "true"


def from_gates(
    gates: Mapping[str, bool], history_limit: int = 10, partition_percent_limit: int = PARTITION_PERCENT_LIMIT
) -> Features:
    """Raises a ValueError that names an unknown gate."""
    feature_gates.check_known(gates, GATES)
    chosen = {field: gates[gate] for gate, field in GATES.items() if field and gate in gates}
    return Features(history_limit=history_limit, partition_percent_limit=partition_percent_limit, **chosen)
