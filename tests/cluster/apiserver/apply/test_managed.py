"""Who owns what after plain updates: the entries of managedFields."""

from copy import deepcopy

import pytest

from kohort.cluster.apiserver.apply.managed import is_noop, record_update
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.node import ANY, Node
from kohort.objects.json_types import Json, JsonObject

CONFIG_MAP = kind_node("", "v1", "ConfigMap")
DEPLOYMENT = kind_node("apps", "v1", "Deployment")
POD = kind_node("", "v1", "Pod")
T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"


def config_map(data: dict[str, str] | None = None, **metadata: Json) -> JsonObject:
    obj: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", **metadata}}
    return obj if data is None else {**obj, "data": data}


def created(obj: JsonObject, node: Node = CONFIG_MAP, manager: str = "creator", **options: Json) -> JsonObject:
    result = deepcopy(obj)
    record_update(None, result, node, manager=manager, api_version=obj["apiVersion"], time=T0, **options)
    return result


def updated(
    live: JsonObject, obj: JsonObject, manager: str = "writer", node: Node = CONFIG_MAP, **options: Json
) -> JsonObject:
    result, before = deepcopy(obj), deepcopy(live)
    options.setdefault("time", T1)
    record_update(live, result, node, manager=manager, api_version=obj["apiVersion"], **options)
    assert live == before
    return result


def entries(obj: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = obj["metadata"].get("managedFields", [])
    return found


def owners(obj: JsonObject) -> dict[str, Json]:
    return {entry["manager"]: entry["fieldsV1"] for entry in entries(obj)}


def test_the_creator_owns_what_it_set() -> None:
    obj = created(config_map({"x": "1"}, labels={"l": "1"}, resourceVersion="1", generation=1))
    assert entries(obj) == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:x": {}},
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            },
        }
    ]


def test_a_deployment_as_the_api_server_records_it() -> None:
    container = {
        "name": "c",
        "image": "i",
        "imagePullPolicy": "Always",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container], "dnsPolicy": "ClusterFirst", "securityContext": {}},
        },
    }
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": spec,
        "status": {"replicas": 3},
    }
    assert owners(created(obj, DEPLOYMENT, ignored=("status",)))["creator"] == {
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:image": {},
                            "f:imagePullPolicy": {},
                            "f:name": {},
                            "f:resources": {},
                            "f:terminationMessagePath": {},
                            "f:terminationMessagePolicy": {},
                        }
                    },
                    "f:dnsPolicy": {},
                    "f:securityContext": {},
                },
            },
        }
    }


def test_a_written_field_changes_hands_and_the_rest_stays() -> None:
    live = created(config_map({"x": "1", "y": "1"}))
    obj = updated(live, config_map({"x": "2", "y": "1", "z": "1"}))
    assert owners(obj) == {
        "creator": {"f:data": {".": {}, "f:y": {}}},
        "writer": {"f:data": {"f:x": {}, "f:z": {}}},
    }
    assert [entry["time"] for entry in entries(obj)] == [T0, T1]


def test_a_removed_field_has_no_owner() -> None:
    live = created(config_map({"x": "1", "y": "1"}))
    assert owners(updated(live, config_map({"y": "1"}))) == {"creator": {"f:data": {".": {}, "f:y": {}}}}
    assert owners(updated(live, config_map())) == {}


def test_a_write_that_changes_nothing_keeps_entries_and_times() -> None:
    live = created(config_map({"x": "1"}))
    assert entries(updated(live, config_map({"x": "1"}), "creator")) == entries(live)


def test_only_removing_does_not_move_the_time_of_the_writer() -> None:
    live = created(config_map({"x": "1", "y": "1"}))
    obj = updated(live, config_map({"x": "1"}), "creator")
    assert [entry["time"] for entry in entries(obj)] == [T0]
    assert owners(obj) == {"creator": {"f:data": {".": {}, "f:x": {}}}}


def test_the_same_manager_has_an_entry_for_each_version_and_subresource() -> None:
    live = created(config_map({"x": "1"}))
    obj = updated(live, config_map({"x": "1", "y": "1"}), "creator", subresource="status")
    assert [(entry["manager"], entry.get("subresource")) for entry in entries(obj)] == [
        ("creator", None),
        ("creator", "status"),
    ]


@pytest.mark.parametrize("given", [[], [{}]])
def test_empty_managed_fields_end_tracking_until_the_first_apply(given: list[JsonObject]) -> None:
    live = created(config_map({"x": "1"}))
    obj = updated(live, config_map({"x": "2"}, managedFields=given))
    assert "managedFields" not in obj["metadata"]
    assert "managedFields" not in updated(obj, config_map({"x": "3"}))["metadata"]
    assert owners(created(config_map({"x": "1"}, managedFields=given))) == {"creator": {"f:data": {".": {}, "f:x": {}}}}


def test_entries_in_the_object_replace_those_of_the_live_one() -> None:
    live = created(config_map({"a": "1", "b": "1"}))
    own = {
        "manager": "own",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "time": "2020-01-01T00:00:00+02:00",
        "fieldsV1": {"f:data": {"f:a": {}, 'k:{ "b":1,"a":2}': {}}},
    }
    obj = updated(live, config_map({"a": "1", "b": "1", "new": "1"}, managedFields=[own]))
    assert owners(obj) == {
        "own": {"f:data": {"f:a": {}, 'k:{"a":2,"b":1}': {}}},
        "writer": {"f:data": {"f:new": {}}},
    }
    assert entries(obj)[0]["time"] == "2019-12-31T22:00:00Z"


@pytest.mark.parametrize(
    "given",
    [
        [{"manager": "own", "operation": "Bogus", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"manager": "own", "operation": "Update", "fieldsType": "FieldsV1"}],
        [{"manager": "own", "operation": "Update", "apiVersion": "v1"}],
        [
            {
                "manager": "own",
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"x": {}},
            }
        ],
        [{"manager": "own", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "noon"}],
        ["text"],
    ],
)
def test_malformed_entries_are_ignored(given: list[Json]) -> None:
    live = created(config_map({"a": "1"}))
    assert entries(updated(live, config_map({"a": "1"}, managedFields=given))) == entries(live)


def test_entries_cannot_be_set_through_a_subresource() -> None:
    live = created(config_map({"a": "1"}))
    obj = updated(live, config_map({"a": "1"}, managedFields=[]), subresource="status")
    assert entries(obj) == entries(live)


def test_a_manager_without_a_name_is_called_unknown() -> None:
    assert list(owners(created(config_map({"x": "1"}), manager=""))) == ["unknown"]


def test_fields_that_the_endpoint_resets_are_not_recorded() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}}
    live = created(pod, POD)
    changed = {**live, "spec": {"nodeName": "m"}, "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]}}
    obj = updated(live, changed, "kubelet", POD, subresource="status", ignored=("spec", "metadata.ownerReferences"))
    assert owners(obj) == {
        "creator": {"f:spec": {"f:nodeName": {}}},
        "kubelet": {"f:status": {"f:phase": {}, "f:podIPs": {".": {}, 'k:{"ip":"1.2.3.4"}': {".": {}, "f:ip": {}}}}},
    }


def test_fields_that_are_written_as_null_are_owned_although_they_were_not_set() -> None:
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    tracked = created({**pod, "spec": {"nodeName": "n"}, "status": {}}, POD)
    changed = {**deepcopy(tracked), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    obj = updated(tracked, changed, "kubelet", POD)
    every: JsonObject = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    assert owners(obj)["kubelet"] == {"f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': every}}}
    stored = deepcopy(obj)
    stored["status"]["conditions"][0] |= {"lastProbeTime": None, "lastTransitionTime": None}
    assert entries(updated(stored, obj, node=POD)) == entries(obj)


def test_an_endpoint_may_track_only_some_fields() -> None:
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    live = created({**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}}, POD)
    resources = {"requests": {"cpu": "2"}}
    changed = {**pod, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "j", "resources": resources}]}}
    obj = updated(live, changed, "resizer", POD, subresource="resize", tracked=("spec.containers.*.resources",))
    assert owners(obj)["resizer"] == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {"f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}}}},
            }
        }
    }


def test_more_than_ten_updaters_are_folded_into_ancient_changes() -> None:
    obj = created(config_map({"k0": "0"}), manager="mga")
    for number in range(12):
        data = {**obj["data"], f"k{number}": f"v{number}"}
        obj = updated(obj, config_map(data), f"mgr{number:02}", time=f"2026-01-01T00:01:{number:02}Z")
    assert [entry["manager"] for entry in entries(obj)] == ["ancient-changes", *(f"mgr{n:02}" for n in range(3, 12))]
    assert owners(obj)["ancient-changes"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}}
    assert entries(obj)[0]["time"] == "2026-01-01T00:01:02Z"


def test_appliers_come_first_then_the_oldest_then_by_name() -> None:
    def entry(manager: str, operation: str, time: str | None, key: str) -> JsonObject:
        made: JsonObject = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
        return {**made, "fieldsV1": {"f:data": {f"f:{key}": {}}}} | ({"time": time} if time else {})

    given = [
        entry("b", "Update", T0, "1"),
        entry("a", "Update", T1, "2"),
        entry("c", "Apply", T2, "3"),
        entry("d", "Apply", None, "4"),
        entry("a", "Update", T0, "5") | {"subresource": "status"},
    ]
    live = created(config_map({"x": "1"}))
    obj = updated(live, config_map({"x": "1"}, managedFields=given))
    assert [(e["manager"], e.get("time")) for e in entries(obj)] == [
        ("d", None),
        ("c", T2),
        ("a", T0),
        ("b", T0),
        ("a", T1),
    ]


def test_of_entries_with_the_same_identity_the_last_counts() -> None:
    live = created(config_map({"x": "1", "y": "1"}))
    first = {**entries(live)[0], "fieldsV1": {"f:data": {"f:x": {}}}}
    second = {**entries(live)[0], "fieldsV1": {"f:data": {"f:y": {}}}}
    live["metadata"]["managedFields"] = [first, second]
    assert owners(updated(live, config_map({"x": "1", "y": "1", "z": "1"}))) == {
        "creator": {"f:data": {"f:y": {}}},
        "writer": {"f:data": {"f:z": {}}},
    }


def test_versions_that_are_gone_lose_their_entries_and_others_are_compared_converted() -> None:
    """v2 keeps in `words` what v1 keeps in `text`."""
    v1 = Node("object", fields={"text": Node("string"), "n": Node("integer")})
    v2 = Node("object", fields={"words": Node("string"), "n": Node("integer")})

    def at_version(obj: JsonObject, api_version: str) -> tuple[JsonObject, Node] | None:
        if api_version == "g/v2":
            return {("words" if key == "text" else key): value for key, value in obj.items()}, v2
        return (obj, v1) if api_version == "g/v1" else None

    def entry(manager: str, api_version: str, fields: JsonObject) -> JsonObject:
        made: JsonObject = {"manager": manager, "operation": "Update", "apiVersion": api_version}
        return {**made, "fieldsType": "FieldsV1", "fieldsV1": fields}

    known = [entry("old", "g/v0", {"f:n": {}}), entry("other", "g/v2", {"f:n": {}, "f:words": {}})]
    live = {"apiVersion": "g/v1", "kind": "K", "metadata": {"managedFields": known}, "text": "a", "n": 1}
    changed = {"apiVersion": "g/v1", "kind": "K", "metadata": {}, "text": "b", "n": 1}
    obj = updated(live, changed, node=v1, at_version=at_version)
    assert owners(obj) == {"other": {"f:n": {}}, "writer": {"f:text": {}}}


def test_an_object_whose_items_cannot_be_named_is_written_untracked() -> None:
    node = kind_node("", "v1", "ServiceAccount")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    live = created(account, node)
    assert entries(updated(live, {**account, "secrets": [{"kind": "no name"}]}, node=node)) == []


def test_custom_resources_own_their_structs() -> None:
    node = Node("object", fields={"spec": Node("object", fields={"n": Node("integer"), "free": ANY})})
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k"}, "spec": {"n": 1, "free": {"a": [1]}}}
    assert owners(created(obj, node))["creator"] == {
        "f:spec": {".": {}, "f:n": {}, "f:free": {".": {}, "f:a": {}}},
    }


def test_a_write_that_differs_only_in_times_is_no_write() -> None:
    live = created(config_map({"x": "1"}))
    again = deepcopy(live)
    again["metadata"]["managedFields"][0]["time"] = T2
    assert is_noop(live, again)
    assert again == live


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"x": "2"}},
        {"metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}}},
        {"metadata": {"name": "a", "uid": "u", "managedFields": []}},
        {"immutable": True},
        {"data": {"x": 1.0}},
        {"data": {"x": True}},
    ],
)
def test_any_other_difference_is_a_write(change: JsonObject) -> None:
    live = created({**config_map(), "data": {"x": 1}})
    assert not is_noop(live, {**deepcopy(live), **change})
