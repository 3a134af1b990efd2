"""Builders make what their steps say, and objects that the API accepts."""

import pytest
from tests.builders import Built, container, deployment, job, lws, pod, service, stateful_set

from kohort.kube.resources import DEPLOYMENTS, JOBS, PODS, SERVICES, STATEFUL_SETS, Resource
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
        (PODS, pod().init_container("setup").tolerates("gpu", "NoSchedule").volume("scratch", emptyDir={})),
        (STATEFUL_SETS, stateful_set().replicas(3).parallel().partition(1)),
        (DEPLOYMENTS, deployment().replicas(2).rolling(surge=1, unavailable=0)),
        (JOBS, job().completions(3, parallelism=2)),
        (SERVICES, service().selecting(app="web").port(80, "http", 8080).headless()),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_the_api_server_accepts_what_is_built(resource: Resource, made: Built) -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            stored = await cluster.client.create(resource, made)
            assert stored["metadata"]["name"] == made.name

    virtual_time.run(story())
