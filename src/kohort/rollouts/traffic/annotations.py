"""Annotations that must not be copied with an object, and names of objects that traffic routing reads."""

from typing import Final

from kohort.objects import well_known_names
from kohort.rules.group_labels import LAST_APPLIED
from kohort.rules.rollout_labels import ADDED_SELECTOR, ORIGINAL_RULES, ORIGINAL_SPEC, WITHDRAWN_PODS, WRITTEN_SPEC

NOT_COPIED: Final = frozenset(
    {ADDED_SELECTOR, ORIGINAL_SPEC, WRITTEN_SPEC, ORIGINAL_RULES, LAST_APPLIED, WITHDRAWN_PODS}
)
"""A copy that carries them would be taken for the original, by us or by kubectl."""

SERVICE_NAME: Final = well_known_names.SERVICE_NAME
CONFIGURATION: Final = "kruise-rollout-configuration"
CONFIGURATION_NAMESPACE: Final = "kruise-rollout"
