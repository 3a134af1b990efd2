"""What the operator brings to a cluster that has nobody to install anything."""

import pytest

from kohort import operator
from kohort.admission.webhook_configurations import Address
from kohort.install.options import InstallOptions
from kohort.install.roles import access
from kohort.kube.resources import (
    ANALYSIS_RUNS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.well_known_names import AGGREGATE_TO
from kohort.testing import Cluster, virtual_time


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, True),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [2, 1]}, {"a": [1, 2]}, False),
        ({"a": None}, {"a": {}}, False),
    ],
)
def test_what_is_wanted_is_there_if_applying_it_would_change_nothing(live: Json, wanted: Json, expected: bool) -> None:
    assert operator.contains(live, wanted) is expected


def test_definitions_that_are_as_they_should_be_are_not_written_again() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            address = Address(b"certificate", url="https://127.0.0.1:1")
            await operator.install_definitions(cluster.client, address)
            first = (await cluster.client.list(CUSTOM_RESOURCE_DEFINITIONS)).resource_version
            await operator.install_definitions(cluster.client, address)
            assert (await cluster.client.list(CUSTOM_RESOURCE_DEFINITIONS)).resource_version == first
            await operator.install_definitions(cluster.client, Address(b"certificate", url="https://127.0.0.1:2"))
            assert (await cluster.client.list(CUSTOM_RESOURCE_DEFINITIONS)).resource_version != first

    virtual_time.run(story())


def test_an_embedded_cluster_gives_users_the_roles_that_an_installation_brings() -> None:
    """As `kubectl auth can-i` asks, by the roles that every cluster has."""

    async def story() -> None:
        async with Cluster(parts=("operator", "workloads")) as cluster:
            for name in ("view", "edit"):
                ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
                subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"{name}er"}]
                binding = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
                await cluster.client.create(CLUSTER_ROLE_BINDINGS, binding)
            await cluster.settle()
            for resource in (LEADER_WORKER_SETS, ROLLOUTS, ROLLOUT_HISTORIES, ANALYSIS_RUNS):
                assert await allowed(cluster, "viewer", "list", resource), resource
                assert not await allowed(cluster, "viewer", "patch", resource), resource
            assert await allowed(cluster, "editer", "patch", LEADER_WORKER_SETS)
            assert await allowed(cluster, "editer", "patch", ROLLOUTS)
            assert await allowed(cluster, "editer", "patch", ROLLOUTS, "status")
            assert not await allowed(cluster, "editer", "patch", ROLLOUT_HISTORIES)
            live = {one["metadata"]["name"]: one for one in (await cluster.client.list(CLUSTER_ROLES)).items}
            installed = [one for one in access(InstallOptions()) if "rules" in one and _aggregated(one)]
            assert len(installed) == 4
            for role in installed:
                assert operator.contains(live[role["metadata"]["name"]], role)

    virtual_time.run(story())


def _aggregated(role: JsonObject) -> bool:
    return any(name.startswith(AGGREGATE_TO) for name in role["metadata"]["labels"])


async def allowed(cluster: Cluster, user: str, verb: str, resource: Resource, subresource: str = "") -> bool:
    asked = {"group": resource.group, "resource": resource.plural, "subresource": subresource, "verb": verb}
    body = {"spec": {"user": user, "resourceAttributes": {**asked, "namespace": "default"}}}
    answer: JsonObject = await cluster.client.create(SUBJECT_ACCESS_REVIEWS, body)
    return bool(answer["status"]["allowed"])


def test_an_embedded_cluster_has_the_namespace_for_traffic_scripts() -> None:
    async def story() -> None:
        async with Cluster(parts=("operator",)) as cluster:
            found = await cluster.client.find(NAMESPACES, "kruise-rollout")
            assert found is not None and found["status"]["phase"] == "Active"

    virtual_time.run(story())
