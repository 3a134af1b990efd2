"""What the operator brings to a cluster that has nobody to install anything."""

import pytest

from kohort import operator
from kohort.admission.webhook_configurations import Address
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from kohort.objects.json_types import Json
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


def test_an_embedded_cluster_has_the_namespace_for_traffic_scripts() -> None:
    async def story() -> None:
        async with Cluster(parts=("operator",)) as cluster:
            found = await cluster.client.find(NAMESPACES, "kruise-rollout")
            assert found is not None and found["status"]["phase"] == "Active"

    virtual_time.run(story())
