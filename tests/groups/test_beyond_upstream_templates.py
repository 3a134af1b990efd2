"""What is done better than the implementation that others have, row by row of its known flaws (F19 to F32)."""

import asyncio

import msgspec
from tests.groups.bare import (
    NAME,
    NAMESPACE,
    bare,
    leader_image,
    rolling,
    sample,
    worker_image,
)
from tests.groups.test_pod_mutation import env, hosts, leader, with_tpus, worker
from tests.groups.test_revisions import group_set as revised
from tests.groups.test_revisions import stored

from kohort.groups.child_objects import worker_stateful_set
from kohort.groups.pod_mutation import mutated
from kohort.groups.revisions import build, content
from kohort.kube import errors
from kohort.kube.resources import NODES, PODS, STATEFUL_SETS
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels
from kohort.rules.group_template import content_hash
from kohort.testing.request_matching import writes


def test_f19_an_extra_leader_with_tpus_is_counted_in() -> None:
    """Size 5 in subgroups of 2: leader, 1 and 2 are the first, 3 and 4 the second."""
    first = ["test-1.default", "test-1-1.default", "test-1-2.default"]
    second = ["test-1-3.default", "test-1-4.default"]
    assert hosts(leader(size=5, subgroup_size="2")) == first
    for number, (expected, identity) in {1: (first, 1), 2: (first, 2), 3: (second, 0), 4: (second, 1)}.items():
        subject = worker(f"test-1-{number}", 5, subgroup_size="2", leader_requests_tpus="true")
        assert hosts(subject) == expected
        assert env(subject)["TPU_WORKER_ID"] == str(identity)


def test_f19_a_leader_in_no_subgroup_keeps_its_tpus_to_itself() -> None:
    excluded = {"subgroup_size": "2", "subgroup_policy": "LeaderExcluded"}
    assert hosts(leader(size=5, **excluded)) == ["test-1.default"]
    subject = worker("test-1-3", 5, leader_requests_tpus="true", **excluded)
    assert hosts(subject) == ["test-1-3.default", "test-1-4.default"]
    assert env(with_tpus(subject))["TPU_WORKER_ID"] == "0"


def test_f20_exclusive_placement_may_reach_across_namespaces() -> None:
    subject = leader(exclusive="rack", exclusive_everywhere="true")
    affinity = mutated(subject, "default")["spec"]["affinity"]
    (near,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (far,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "namespaceSelector" not in near
    assert far["namespaceSelector"] == {}
    plain = mutated(leader(exclusive="rack"), "default")["spec"]["affinity"]["podAntiAffinity"]
    assert "namespaceSelector" not in plain["requiredDuringSchedulingIgnoredDuringExecution"][0]


async def test_f20_the_annotation_of_the_set_reaches_its_templates() -> None:
    subject = sample().exclusive("rack").annotations({group_labels.EXCLUSIVE_EVERYWHERE: "true"})
    async with bare(subject) as world:
        assert (
            world.leader_set["spec"]["template"]["metadata"]["annotations"][group_labels.EXCLUSIVE_EVERYWHERE] == "true"
        )


async def test_f21_kubectls_note_stays_with_the_set() -> None:
    async with bare(sample().annotations({group_labels.LAST_APPLIED: "{}", "note": "x"})) as world:
        assert group_labels.LAST_APPLIED not in world.leader_set["metadata"]["annotations"]
        assert world.leader_set["metadata"]["annotations"]["note"] == "x"
        workers = world.workers(0)
        assert workers is not None
        assert workers["metadata"]["annotations"] == {"note": "x"}


def test_f22_claims_are_copied_whole() -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "volumeName": "v",
        "selector": {},
        "dataSource": {"kind": "x", "name": "y"},
    }
    claim = {"metadata": {"name": "data", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    subject = revised(volumeClaimTemplates=[claim])
    found = worker_stateful_set(subject, ObjectMeta(name="llm-0", namespace="default"), leader_has_tpus=False)
    (copied,) = found["spec"]["volumeClaimTemplates"]
    assert copied["spec"] == spec
    assert copied["metadata"] == {**claim["metadata"], "namespace": "default"}


async def test_f23_a_percent_sign_in_an_error_is_told_as_it_is() -> None:
    async with bare(None) as world:
        world.cluster.faults("operator").refuse(
            errors.forbidden("statefulsets", NAME, "quota is 100%d used"), on=writes(STATEFUL_SETS)
        )
        await world.create(sample())
        assert any("quota is 100%d used" in one for one in world.events)


async def test_f24_the_missing_node_label_is_named() -> None:
    async with bare(None) as world:
        await world.cluster.client.create(NODES, {"metadata": {"name": "n"}})
        await world.create(sample().replicas(1).exclusive("example.com/rack"))
        body = {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": f"{NAME}-0"}}
        await world.cluster.client.create(PODS, body, NAMESPACE, "binding", f"{NAME}-0")
        await world.pause()
        assert any("node n has no label example.com/rack" in one for one in world.events)


async def test_f25_raising_the_partition_is_no_update() -> None:
    async with bare(sample().replicas(4)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        await world.edit(rolling(partition=4, maxUnavailable=1, maxSurge=0))
        assert world.partition == 4
        assert [one for one in world.events if "Updating replica" in one] == [
            "Normal GroupsUpdating Updating replica 3"
        ]


def test_f29_content_with_the_hash_of_other_content_gets_a_key_of_its_own() -> None:
    new = revised(size=3)
    taken = stored(revised())
    labels = {**taken.metadata.labels, group_labels.REVISION: content_hash(content(new))}
    taken = msgspec.structs.replace(taken, metadata=msgspec.structs.replace(taken.metadata, labels=labels))
    key = build(new, [taken])["metadata"]["labels"][group_labels.REVISION]
    assert key != taken.key
    assert build(new, [])["metadata"]["labels"][group_labels.REVISION] == taken.key


async def test_f30_a_pod_that_does_not_go_is_named_in_a_condition() -> None:
    async with bare(sample().replicas(1)) as world:
        await world.ready(0)
        await world.make_workers(0)
        await world.delete_worker(0, 1)
        await asyncio.sleep(30)
        (condition,) = [one for one in world.subject["status"]["conditions"] if one["type"] == "Waiting"]
        assert (condition["status"], condition["reason"]) == ("True", "PodTerminating")
        assert f"group 0: pod {NAME}-0" in condition["message"]
        assert "node.kubernetes.io/out-of-service" in condition["message"]
        await world.remove(f"{NAME}-0")
        await world.make_leader(0)
        await world.pause()
        await world.ready(0)
        (condition,) = [one for one in world.subject["status"]["conditions"] if one["type"] == "Waiting"]
        assert (condition["status"], condition["reason"]) == ("False", "NothingToWaitFor")


async def test_f32_a_leader_set_without_its_notes_is_repaired() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        body = {
            "metadata": {"annotations": {group_labels.REPLICAS: None}},
            "spec": {"updateStrategy": {"rollingUpdate": None}},
        }
        await world.cluster.client.patch(STATEFUL_SETS, NAME, NAMESPACE, body)
        await world.pause()
        assert world.leader_set["metadata"]["annotations"][group_labels.REPLICAS] == "2"
        assert world.partition == 0
        await world.edit(leader_image("new:2"))
        assert world.partition == 1
