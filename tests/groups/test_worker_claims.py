"""Claims of workers that scaling leaves behind: which are superfluous, and that no others are touched."""

import pytest
from tests.builders import LeaderWorkerSet, container, lws
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, patch, pods, settled

from kohort.groups.worker_claims import Groups, surplus_claims
from kohort.kube import errors
from kohort.kube.http import Request
from kohort.kube.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels
from kohort.testing import Cluster


def claim(name: str, group: str = "", owner: str = "llm") -> ObjectMeta:
    labels = {group_labels.NAME: owner, **({group_labels.GROUP_INDEX: group} if group else {})}
    return ObjectMeta(name=name, namespace="default", labels=labels)


GROUPS = Groups(name="llm", wanted=2, sizes={0: 3, 3: 3})


@pytest.mark.parametrize(
    ("found", "superfluous"),
    [
        (claim("data-llm-0-2", "0"), False),
        (claim("data-llm-0-3", "0"), True),
        (claim("data-llm-1-9", "1"), False),  # its leader is being recreated, with a size that is not known yet
        (claim("data-llm-2-1", "2"), True),
        (claim("data-llm-3-1", "3"), False),  # its leader has not been deleted yet: the set may grow again
        (claim("data-llm-2"), False),  # of a leader, whose StatefulSet sees to it
        (claim("other-llm-2-1", "2"), False),
        (claim("data-llm-2-1", "2", owner="other"), False),
        (claim("data-llm-2-x", "2"), False),
    ],
)
def test_which_claims_are_superfluous(found: ObjectMeta, superfluous: bool) -> None:
    assert surplus_claims([found], {"data"}, GROUPS) == ([found] if superfluous else [])


def with_claims(**retention: str) -> LeaderWorkerSet:
    mounting = container() | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = "spec.leaderWorkerTemplate"
    subject = lws("llm").replicas(3).size(3).containers(mounting).but(f"{template}.resizePolicy", "Recreate")
    subject = subject.but(f"{template}.volumeClaimTemplates", [{"metadata": {"name": "data"}, "spec": spec}])
    return subject.but(f"{template}.persistentVolumeClaimRetentionPolicy", retention) if retention else subject


def claims(cluster: Cluster) -> dict[str, str]:
    found = cluster.objects(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def of_pods(cluster: Cluster) -> set[str]:
    return {f"data-{name}" for name in pods(cluster)}


async def test_claims_survive_rolls_and_go_when_the_set_is_scaled() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, with_claims(whenDeleted="Retain", whenScaled="Delete"))
        await cluster.until(lambda: settled(cluster, 3))
        before = claims(cluster)
        mark = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01"}}}
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"workerTemplate": mark}}})
        await cluster.settle(quiet=20)
        assert settled(cluster, 3)
        assert claims(cluster) == before
        await patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"size": 2}}})
        await cluster.settle(quiet=20)
        assert settled(cluster, 3)
        assert set(claims(cluster)) == of_pods(cluster)
        await patch(cluster, "llm", {"spec": {"replicas": 1}})
        await cluster.settle(quiet=20)
        assert claims(cluster) == {name: before[name] for name in ("data-llm-0", "data-llm-0-1")}


@pytest.mark.parametrize("retention", [{}, {"whenDeleted": "Retain", "whenScaled": "Retain"}])
async def test_without_the_policy_every_claim_is_kept(retention: dict[str, str]) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, with_claims(**retention))
        await cluster.until(lambda: settled(cluster, 3))
        before = claims(cluster)
        await patch(cluster, "llm", {"spec": {"replicas": 1}})
        await cluster.settle(quiet=20)
        assert claims(cluster) == before


async def test_an_operator_that_may_not_delete_claims_says_so_and_goes_on() -> None:
    def lists_claims(request: Request) -> bool:
        return request.path.endswith("/persistentvolumeclaims")

    async with groups_cluster() as cluster:
        problem = errors.forbidden("persistentvolumeclaims", "", "no right")
        cluster.faults("operator").refuse(problem, on=lists_claims, times=100)
        await create(cluster, with_claims(whenScaled="Delete"))
        await cluster.until(lambda: settled(cluster, 3))
        await patch(cluster, "llm", {"spec": {"replicas": 1}})
        await cluster.until(lambda: settled(cluster, 1))
        await cluster.settle(quiet=20)
        assert [one["message"] for one in cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "FailedDelete"] != []
