"""Builders make what their steps say, and objects that the API accepts."""

import pytest
from tests import builders
from tests.builders import Built, container, lws, node, pod, service, stateful_set

from kohort.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.core import Pod
from kohort.testing import Cluster, virtual_time


def test_a_step_leaves_what_it_started_from_alone() -> None:
    plain = pod("a")
    labelled = plain.labels(app="web").requests(cpu="1").container("second")
    assert "labels" not in plain["metadata"]
    assert len(plain["spec"]["containers"]) == 1
    assert labelled["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert [each["name"] for each in labelled["spec"]["containers"]] == ["main", "second"]


def test_a_ready_pod() -> None:
    view = pod("a").on("node-1").ready(restarts=2).as_view(Pod)
    assert (view.spec.node_name, view.status.phase) == ("node-1", "Running")
    assert {condition.type: condition.status for condition in view.status.conditions}["Ready"] == "True"
    assert [status.restart_count for status in view.status.container_statuses] == [2]


def test_owners() -> None:
    owner = stateful_set("web").uid("u1")
    assert pod("web-0").owned_by(owner)["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": "web",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_a_template_is_made_from_a_pod() -> None:
    made = stateful_set("web").template(pod().labels(tier="gold").containers(container("server", "image:1")))
    assert made["spec"]["template"] == {
        "metadata": {"labels": {"app": "web", "tier": "gold"}},
        "spec": {"containers": [{"name": "server", "image": "image:1"}]},
    }


def test_groups() -> None:
    made = lws("g").replicas(2).size(4).max_surge(1).leader(pod().labels(role="leader")).exclusive("zone")
    assert made["spec"]["rolloutStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"maxSurge": 1},
    }
    template = made["spec"]["leaderWorkerTemplate"]
    assert (made["spec"]["replicas"], template["size"]) == (2, 4)
    assert template["leaderTemplate"]["metadata"] == {"labels": {"role": "leader"}}


@pytest.mark.parametrize(
    ("resource", "made"),
    [
        (PODS, pod().sidecar("proxy").tolerates("gpu", "NoSchedule").claims("data")),
        (NODES, node().taint("gpu").zone("a")),
        (STATEFUL_SETS, stateful_set().replicas(3).parallel().partition(1).claim_template("data").starts_at(2)),
        (DEPLOYMENTS, builders.deployment().replicas(2).rolling(surge=1, unavailable=0)),
        (REPLICA_SETS, builders.replica_set().replicas(2)),
        (JOBS, builders.job().completions(3, parallelism=2)),
        (SERVICES, service().selecting(app="web").port(80, "http", 8080).headless().publishing_not_ready()),
        (PERSISTENT_VOLUME_CLAIMS, builders.persistent_volume_claim().requesting("5Gi")),
        (POD_DISRUPTION_BUDGETS, builders.pod_disruption_budget(app="web").min_available("50%")),
        (CONFIG_MAPS, builders.config_map().data(a="b")),
        (NAMESPACES, builders.namespace("team")),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_the_api_server_accepts_what_is_built(resource: Resource, made: Built) -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            stored = await cluster.client.create(resource, made)
            assert stored["metadata"]["name"] == made.name

    virtual_time.run(story())
