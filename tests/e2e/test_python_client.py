"""The official Python client: typed calls, watches that resume, dynamic resources."""

import threading
from typing import TYPE_CHECKING

from kohort.objects.json_types import Json
from kubernetes import client, config, dynamic, watch

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort


def _core(kohort: "Kohort") -> Json:
    kohort.up("--parts", "apiserver")
    config.load_kube_config(str(kohort.kubeconfig))
    return client.CoreV1Api()


def _config_map(name: str) -> Json:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"a": "1"})


def test_typed_objects_come_back_as_they_were_sent(kohort: "Kohort") -> None:
    core = _core(kohort)
    core.create_namespaced_config_map("default", _config_map("one"))
    assert core.read_namespaced_config_map("one", "default").data == {"a": "1"}
    core.patch_namespaced_config_map("one", "default", {"data": {"b": "2"}})
    names = [one.metadata.name for one in core.list_namespaced_config_map("default").items]
    assert "one" in names
    core.delete_namespaced_config_map("one", "default")
    assert "one" not in [one.metadata.name for one in core.list_namespaced_config_map("default").items]


def test_a_watch_sees_what_happens(kohort: "Kohort") -> None:
    core = _core(kohort)
    seen: list[tuple[str, str]] = []

    def look() -> None:
        start = core.list_namespaced_config_map("default").metadata.resource_version
        ready.set()
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=start, timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    ready = threading.Event()
    watching = threading.Thread(target=look)
    watching.start()
    ready.wait(10)
    core.create_namespaced_config_map("default", _config_map("two"))
    core.patch_namespaced_config_map("two", "default", {"data": {"b": "2"}})
    core.delete_namespaced_config_map("two", "default")
    watching.join(20)
    assert seen == [("ADDED", "two"), ("MODIFIED", "two"), ("DELETED", "two")]


def test_the_dynamic_client_finds_and_applies(kohort: "Kohort") -> None:
    _core(kohort)
    resources = dynamic.DynamicClient(client.ApiClient())
    maps = resources.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}, "data": {"a": "1"}}
    maps.server_side_apply(body=body, name="three", namespace="default", field_manager="test")
    found = maps.get(name="three", namespace="default")
    assert found.data.a == "1"
    assert found.metadata.managedFields[0].manager == "test"
