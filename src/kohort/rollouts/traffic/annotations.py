"""Annotations on Services and routes that record how they were before a release."""

from typing import Final

ADDED_SELECTOR: Final = "rollouts.kruise.io/added-selector"
"""On the stable Service: JSON `{"key", "value"}` of the pin, and `before` if the key had a value of the user."""
ORIGINAL_SPEC: Final = "rollouts.kruise.io/original-spec-configuration"
"""On custom network objects: JSON `{"spec", "labels", "annotations"}` from before the release."""
WRITTEN_SPEC: Final = "rollouts.kruise.io/routed-spec-configuration"
"""On custom network objects: the same as we made it, so that edits of other clients can be told from ours."""
ORIGINAL_RULES: Final = "rollouts.kruise.io/original-rules"
"""On HTTPRoutes: JSON list, `spec.rules` from before the release."""
GRACE_TIMES: Final = "rollouts.kruise.io/traffic-marks"
"""On TrafficRoutings: JSON map of when which change was made. An annotation, since a strict definition would prune an
unknown field of the status, and then no grace period would ever begin."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NOT_COPIED: Final = frozenset({ADDED_SELECTOR, ORIGINAL_SPEC, WRITTEN_SPEC, ORIGINAL_RULES, LAST_APPLIED})
"""A copy that carries them would be taken for the original, by us or by kubectl."""

SERVICE_NAME: Final = "kubernetes.io/service-name"
CONFIGURATION: Final = "kruise-rollout-configuration"
CONFIGURATION_NAMESPACE: Final = "kruise-rollout"
