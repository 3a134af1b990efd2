"""Feature gates of a node: what it can be configured not to do, by the names that the gates have in Kubernetes.

| off                                       | what follows on this node                                                |
|-------------------------------------------|--------------------------------------------------------------------------|
| `PodLevelResources`                       | pods with resources of their own are not taken in                        |
| `InPlacePodVerticalScaling`               | every resize is infeasible, and containers do not report their resources |
| `InPlacePodLevelResourcesVerticalScaling` | resizes of pods are infeasible, and pods do not report their resources   |
| `InPlacePodVerticalScalingInitContainers` | not declared: an API server refuses to resize regular init containers    |

The third needs the first two, the fourth the second. An older node is one that has them off.
"""

from typing import Final, NamedTuple

from kohort.objects import feature_gates

POD_LEVEL_RESOURCES: Final = "PodLevelResources"
RESIZE: Final = "InPlacePodVerticalScaling"
POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
INIT_RESIZE: Final = "InPlacePodVerticalScalingInitContainers"
WEB_SOCKETS: Final = "ExtendWebSocketsToKubelet"
"""Always there: an API server of 1.36 passes WebSockets straight on to nodes that declare it."""

_FIELDS: Final = {
    POD_LEVEL_RESOURCES: "pod_level_resources",
    RESIZE: "resize",
    POD_LEVEL_RESIZE: "pod_level_resize",
    INIT_RESIZE: "init_resize",
}
NEEDS: Final = {POD_LEVEL_RESIZE: (RESIZE, POD_LEVEL_RESOURCES), INIT_RESIZE: (RESIZE,)}


class NodeGates(NamedTuple):
    pod_level_resources: bool = True
    resize: bool = True
    pod_level_resize: bool = True
    init_resize: bool = True

    @staticmethod
    def parse(text: str) -> "NodeGates":
        """`Name=true,Name=false`; what needs a gate that is off is off too, unless it was asked for. ValueError says
        what is wrong.

        >>> NodeGates.parse("PodLevelResources=false").pod_level_resize
        False
        """
        chosen = feature_gates.parse(text)
        feature_gates.check_known(chosen, _FIELDS)
        settled = feature_gates.with_needs(chosen, NEEDS, dict.fromkeys(_FIELDS, True))
        return NodeGates(**{_FIELDS[name]: value for name, value in settled.items()})

    def declared(self, *, limits: bool) -> list[str]:
        """What the node object says it can do; pods can be resized only where `limits` can be set."""
        found = {WEB_SOCKETS: True, INIT_RESIZE: self.init_resize, POD_LEVEL_RESIZE: self.pod_level_resize and limits}
        return sorted(name for name, on in found.items() if on)


ALL_ON: Final = NodeGates()
