"""The kinds of workloads that pages are about, and how their addresses begin.

| kind | shown |
|---|---|
| LeaderWorkerSet | all |
| Deployment, StatefulSet | those that a Rollout names |

The key of a workload is its name on the command line: `llm` for a set, `deployment/web` for others. A name of an object
has no slash, so these cannot be taken for each other.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kohort.groups.leaderworkerset import KIND
from kohort.inspection.workload import DEPLOYMENT, STATEFUL_SET
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, STATEFUL_SETS, Key, Resource
from kohort.rollouts.rollout_types import WorkloadRef


class WorkloadKind(NamedTuple):
    kind: str
    path: str
    """The first part of the addresses of its pages."""
    resource: Resource

    @property
    def grouped(self) -> bool:
        return self.kind == KIND

    def key(self, namespace: str, name: str) -> Key:
        return Key(namespace, name if self.grouped else f"{self.kind.lower()}/{name}")


GROUP_SETS: Final = WorkloadKind(KIND, "sets", LEADER_WORKER_SETS)
OTHERS: Final = (
    WorkloadKind(DEPLOYMENT, "deployments", DEPLOYMENTS),
    WorkloadKind(STATEFUL_SET, "statefulsets", STATEFUL_SETS),
)
KINDS: Final[Mapping[str, WorkloadKind]] = {one.kind: one for one in (GROUP_SETS, *OTHERS)}
BY_PATH: Final[Mapping[str, WorkloadKind]] = {one.path: one for one in KINDS.values()}


def released_key(namespace: str, ref: WorkloadRef) -> Key | None:
    """Of the workload that a Rollout names; None if pages know nothing of its kind."""
    if ref.is_group_set:
        return GROUP_SETS.key(namespace, ref.name)
    if ref.is_deployment or ref.is_stateful_set:
        return KINDS[ref.kind].key(namespace, ref.name)
    return None
