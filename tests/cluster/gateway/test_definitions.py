"""The definitions of the Gateway API on a cluster that has none."""

import pytest

from kohort.cluster.gateway.registration import install_definitions
from kohort.cluster.gateway.views import GATEWAY_CLASSES, GATEWAYS
from kohort.kube.resources import HTTP_ROUTES, Resource
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster, virtual_time

SPECS: dict[Resource, JsonObject] = {
    GATEWAY_CLASSES: {"controllerName": "example.com/other"},
    GATEWAYS: {"gatewayClassName": "kohort", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    HTTP_ROUTES: {"parentRefs": [{"name": "g"}], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]},
}


@pytest.mark.parametrize("resource", list(SPECS), ids=lambda one: str(one.kind))
def test_versions_v1_and_v1beta1_are_the_same_objects(resource: Resource) -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            assert await install_definitions(cluster.client)
            beta = Resource(resource.group, "v1beta1", resource.plural, resource.kind, resource.namespaced)
            namespace = "default" if resource.namespaced else ""
            body = {"metadata": {"name": "x"}, "spec": SPECS[resource]}
            made = await cluster.client.create(beta, body, namespace)
            assert made["apiVersion"] == f"{resource.group}/v1beta1"
            found = await cluster.client.get(resource, "x", namespace)
            assert (found["apiVersion"], found["spec"]) == (f"{resource.group}/v1", made["spec"])

    virtual_time.run(story())
