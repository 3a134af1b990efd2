"""Labels and annotations of simulated nodes and of their pods that more than one part reads.

Those that only the simulation reads are in `cluster/simulation/annotations.py`.
"""

from typing import Final

PREFIX: Final = "simulation.kohort.dev/"

SIMULATED: Final = f"{PREFIX}node"
"""The label of simulated nodes: every node with `simulation.kohort.dev/node: "true"` is simulated."""
USAGE: Final = f"{PREFIX}usage"
"""On pods: what they use of cpu and memory, `cpu=900m,memory=2Gi`."""
METRICS: Final = f"{PREFIX}metrics"
"""On pods: what they report to autoscalers, `requests_waiting=12,other=3`."""
