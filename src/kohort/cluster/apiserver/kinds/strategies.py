"""Which strategy a kind has. One module per API group (or per big kind) holds the rules themselves."""

from kohort.cluster.apiserver.kinds.model import Strategy
from kohort.cluster.apiserver.kinds.pod.strategy import PodStrategy

_STRATEGIES: dict[tuple[str, str, str], Strategy] = {("", "v1", "Pod"): PodStrategy()}


def strategy_for(group: str, version: str, kind: str) -> Strategy:
    return _STRATEGIES.get((group, version, kind)) or Strategy()
