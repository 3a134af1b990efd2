"""What a cluster contains when the operator has been installed, made once for all tests of a process.

Most tests are about what happens after that. A cluster that begins with these objects starts as after a restart of its
server, with half the processor time; the operator still compares its definitions and registers its webhooks.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

from kohort.cluster.apiserver.storage.model import Stored
from kohort.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from kohort.operator import register
from kohort.testing import Cluster, virtual_time

WEBHOOKS = (MUTATING_WEBHOOKS.qualified, VALIDATING_WEBHOOKS.qualified)
"""Left out: they lead to a port of the operator that wrote them."""
SEED = 1_000_000_007
"""Not that of any test: uids follow from it, and two objects of one cluster must not have the same."""


@cache
def installed(*parts: str, rollouts: bool = True) -> tuple[Stored, ...]:
    """The objects of a cluster with these parts and the operator, before it has any node."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_made, parts, rollouts).result()


def _made(parts: tuple[str, ...], rollouts: bool) -> tuple[Stored, ...]:
    return virtual_time.run(_contents(parts, rollouts), seed=SEED)


async def _contents(parts: tuple[str, ...], rollouts: bool) -> tuple[Stored, ...]:
    operator = {"operator": lambda manager: register(manager, rollouts=rollouts)}
    async with Cluster(parts=parts, extra=operator) as cluster:
        return tuple(one for one in cluster.contents() if one.bucket not in WEBHOOKS)
