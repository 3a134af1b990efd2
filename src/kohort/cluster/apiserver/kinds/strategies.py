"""Which strategy a kind has. One module per API group (or per big kind) holds the rules themselves."""

from kohort.cluster.apiserver.kinds.model import Strategy


def strategy_for(group: str, version: str, kind: str) -> Strategy:
    return Strategy()
