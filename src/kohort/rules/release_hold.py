"""Does a release hold this workload? Asked by the webhook, the controls of each kind, the commands and the dashboard.

From the moment at which its template changes to the end of the release, the annotation `in-progressing` says so, before
the Rollout itself shows anything. It counts whatever its value is: a value that was emptied past the webhook names no
Rollout, and the hold is on all the same.
"""

from collections.abc import Mapping

import msgspec

from kohort.objects.recorded_json import read_recorded
from kohort.rules.rollout_labels import IN_PROGRESSING


def is_held_by_release(annotations: Mapping[str, str]) -> bool:
    return IN_PROGRESSING in annotations


def holding_rollout(annotations: Mapping[str, str]) -> str:
    """The name of the Rollout whose release holds the workload; empty if none does, or the annotation does not say."""
    return (read_recorded(annotations.get(IN_PROGRESSING, ""), dict[str, str]) or {}).get("rolloutName", "")


def hold_mark(rollout: str) -> str:
    """The value of the annotation, as Kruise Rollouts writes it."""
    return msgspec.json.encode({"rolloutName": rollout}).decode()
