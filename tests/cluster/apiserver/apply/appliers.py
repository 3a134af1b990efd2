"""Objects to apply, managers that apply them, and who owns what afterwards."""

from copy import deepcopy

import pytest

from kohort.cluster.apiserver.apply import serverside
from kohort.cluster.apiserver.apply.managed import record_update
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

CONFIG_MAP = kind_node("", "v1", "ConfigMap")
DEPLOYMENT = kind_node("apps", "v1", "Deployment")
SERVICE = kind_node("", "v1", "Service")
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
C = 'k:{"name":"c"}'


def config_map(data: Json = None, **metadata: Json) -> JsonObject:
    obj: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    return obj if data is None else {**obj, "data": data}


def workload(containers: list[JsonObject] | None = None, **spec: Json) -> JsonObject:
    template = {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"containers": containers or [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "w"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}


def apply(
    live: JsonObject | None, intent: JsonObject, manager: str = "m1", node: Node = CONFIG_MAP, **options: Json
) -> JsonObject:
    options = {"force": False, "time": T1, "api_version": intent.get("apiVersion", ""), **options}
    before = deepcopy(live), deepcopy(intent)
    try:
        return serverside.apply(live, intent, node, manager=manager, **options)
    finally:
        assert (live, intent) == before


def deploy(live: JsonObject | None, intent: JsonObject, manager: str = "m1", **options: Json) -> JsonObject:
    return apply(live, intent, manager, DEPLOYMENT, ignored=("status",), **options)


def patched(live: JsonObject, change: JsonObject, manager: str = "upd", node: Node = CONFIG_MAP) -> JsonObject:
    obj = {**deepcopy(live), **deepcopy(change)}
    record_update(live, obj, node, manager=manager, api_version=live["apiVersion"], time=T0)
    return obj


def refusal(
    live: JsonObject | None, intent: JsonObject, manager: str = "m1", node: Node = CONFIG_MAP, **o: Json
) -> ApiError:
    with pytest.raises(ApiError) as raised:
        apply(live, intent, manager, node, **o)
    return raised.value


def owners(obj: JsonObject) -> dict[str, Json]:
    return {f"{e['manager']} {e['operation']}": e["fieldsV1"] for e in obj["metadata"].get("managedFields", [])}
