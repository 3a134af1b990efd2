"""Where the API server is, as pods of a node are told."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

import pytest
from tests.builders import pod, service

from kohort.kube.informer import Informer
from kohort.node.names.name_directory import NameDirectory
from kohort.node.service_network import ServiceNetwork
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.node_pods import NodePod

T = TypeVar("T")


class Known(Generic[T]):
    """What an informer has, without anybody who changes it."""

    def __init__(self, *objects: T) -> None:
        self._objects = objects

    def list(self, namespace: str = "") -> "list[T]":
        return [*self._objects]

    def on_change(self, handler: Callable[[T | None, T | None], None]) -> None: ...


def directory(network: ServiceNetwork | None) -> NameDirectory:
    kubernetes = service("kubernetes").namespaced("default").but("spec.clusterIP", "10.96.0.1").as_view(Service)
    return NameDirectory(
        cast("Informer[Service]", Known(kubernetes)),
        cast("Informer[EndpointSlice]", Known[EndpointSlice]()),
        list,
        lambda: ("127.0.0.1", "6443"),
        lambda: None,
        None,
        network,
    )


@pytest.mark.parametrize(("own_network", "expected"), [(True, "10.96.0.1"), (False, "127.0.0.1")])
async def test_the_api_server_is_at_its_cluster_ip_where_pods_can_reach_that(own_network: bool, expected: str) -> None:
    found = directory(cast(ServiceNetwork, object()) if own_network else None)
    text = found.hosts(pod("p").namespaced("default").as_view(NodePod), "198.18.0.2")
    (line,) = (line for line in text.split("\n") if "kubernetes.default.svc" in line.split())
    address, *names = line.split()
    assert (address, "kubernetes" in names) == (expected, True)
    assert found._current_zone().addresses["kubernetes.default.svc.cluster.local"] == [expected]
