"""Feature gates that decide what an object may contain, with the defaults of Kubernetes 1.36.

Only gates that a user may want to change are listed; what is on for good is simply behaviour. `WriteContext.gates` and
the command line hold the differences from these defaults.
"""

from collections.abc import Mapping
from typing import Final

from kohort.objects import feature_gates
from kohort.rules import node_feature_gates

POD_LEVEL_RESOURCES: Final = node_feature_gates.POD_LEVEL_RESOURCES
IN_PLACE_RESIZE: Final = node_feature_gates.RESIZE
POD_LEVEL_RESIZE: Final = node_feature_gates.POD_LEVEL_RESIZE
INIT_CONTAINER_RESIZE: Final = node_feature_gates.INIT_RESIZE
MEMORY_VOLUME_RESIZE: Final = "InPlacePodVerticalScalingMemoryBackedVolumes"
FIX_POD_LEVEL_DEFAULTING: Final = "PodLevelResourcesFixDefaulting"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
TOLERATION_COMPARISON: Final = "TaintTolerationComparisonOperators"
STATEFUL_SET_MAX_UNAVAILABLE: Final = "MaxUnavailableStatefulSet"
HPA_SCALE_TO_ZERO: Final = "HPAScaleToZero"
RELAXED_SERVICE_NAMES: Final = "RelaxedServiceNameValidation"

DEFAULTS: Final[Mapping[str, bool]] = {
    POD_LEVEL_RESOURCES: True,
    IN_PLACE_RESIZE: True,
    POD_LEVEL_RESIZE: True,
    INIT_CONTAINER_RESIZE: True,
    MEMORY_VOLUME_RESIZE: False,
    FIX_POD_LEVEL_DEFAULTING: True,
    NODE_DECLARED_FEATURES: True,
    TOLERATION_COMPARISON: False,
    STATEFUL_SET_MAX_UNAVAILABLE: True,
    HPA_SCALE_TO_ZERO: False,
    RELAXED_SERVICE_NAMES: True,
}


NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: (*needed, NODE_DECLARED_FEATURES) for name, needed in node_feature_gates.NEEDS.items()},
    MEMORY_VOLUME_RESIZE: (IN_PLACE_RESIZE, NODE_DECLARED_FEATURES),
    FIX_POD_LEVEL_DEFAULTING: (POD_LEVEL_RESOURCES,),
}
"""Gates that mean nothing without others."""


def parse(text: str) -> dict[str, bool]:
    """`A=true,B=false` as on the command line, with what follows from it; ValueError says what is wrong."""
    return completed(feature_gates.parse(text))


def completed(chosen: Mapping[str, bool]) -> dict[str, bool]:
    feature_gates.check_known(chosen, DEFAULTS)
    return feature_gates.with_needs(chosen, NEEDS, DEFAULTS)


def enabled(gates: Mapping[str, bool], name: str) -> bool:
    found = gates.get(name)
    return DEFAULTS[name] if found is None else found
