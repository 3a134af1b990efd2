"""Server-side apply: what an intent adds, keeps and removes, and whose fields it may take."""

from copy import deepcopy

import pytest
from tests.cluster.apiserver.apply.appliers import (
    CONFIG_MAP,
    DEPLOYMENT,
    SERVICE,
    T0,
    T1,
    C,
    apply,
    config_map,
    deploy,
    owners,
    patched,
    refusal,
    workload,
)

from kohort.cluster.apiserver.apply.intent_validation import null_values
from kohort.cluster.apiserver.apply.managed import record_update
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json, JsonObject


def test_an_apply_creates_what_it_says_and_owns_just_that() -> None:
    obj = apply(None, config_map({"x": "1"}, labels={"l": "1"}))
    assert obj["data"] == {"x": "1"}
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:l": {}}}},
        }
    ]


def test_what_is_left_out_is_removed() -> None:
    live = apply(None, config_map({"x": "1", "y": "2"}, labels={"l": "1"}))
    obj = apply(live, config_map({"x": "1"}))
    assert obj["data"] == {"x": "1"}
    assert "labels" not in obj["metadata"]
    assert owners(obj) == {"m1 Apply": {"f:data": {"f:x": {}}}}


def test_what_is_left_out_but_owned_by_another_stays() -> None:
    live = apply(apply(None, config_map({"x": "1", "y": "2"})), config_map({"y": "2"}), "m2")
    obj = apply(live, config_map({"x": "1"}))
    assert obj["data"] == {"x": "1", "y": "2"}
    assert owners(obj) == {"m1 Apply": {"f:data": {"f:x": {}}}, "m2 Apply": {"f:data": {"f:y": {}}}}


def test_another_managers_value_is_a_conflict() -> None:
    error = refusal(apply(None, config_map({"x": "1"})), config_map({"x": "2", "z": "1"}), "m2")
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "m1": .data.x'
    assert error.status.details is not None
    assert [(cause.reason, cause.message, cause.field) for cause in error.status.details.causes] == [
        ("FieldManagerConflict", 'conflict with "m1"', ".data.x")
    ]


def test_conflicts_are_listed_by_owner() -> None:
    live = patched(apply(None, config_map({"x": "1", "y": "1"}, labels={"l": "1"})), {"data": {"x": "9", "y": "1"}})
    error = refusal(live, config_map({"x": "2", "y": "2"}, labels={"l": "2"}), "m2")
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .data.y\n- .metadata.labels.l\n'
        'conflicts with "upd" using v1:\n- .data.x'
    )


def test_force_takes_the_field() -> None:
    live = apply(None, config_map({"x": "1", "y": "1"}))
    obj = apply(live, config_map({"x": "2"}), "m2", force=True)
    assert obj["data"] == {"x": "2", "y": "1"}
    assert owners(obj) == {"m1 Apply": {"f:data": {"f:y": {}}}, "m2 Apply": {"f:data": {"f:x": {}}}}


def test_an_update_takes_a_field_from_an_applier() -> None:
    live = patched(apply(None, config_map({"x": "1", "y": "1"})), {"data": {"x": "2", "y": "1"}})
    assert owners(live) == {"m1 Apply": {"f:data": {"f:y": {}}}, "upd Update": {"f:data": {"f:x": {}}}}
    error = refusal(live, config_map({"x": "1", "y": "1"}))
    assert error.message == 'Apply failed with 1 conflict: conflict with "upd" using v1: .data.x'


def test_equal_values_are_shared_and_a_new_owner_of_unchanged_fields_has_no_time() -> None:
    live = apply(None, config_map({"x": "1"}), time=T0)
    obj = apply(live, config_map({"x": "1"}), "m2")
    assert [(entry["manager"], entry.get("time")) for entry in obj["metadata"]["managedFields"]] == [
        ("m2", None),
        ("m1", T0),
    ]


def test_applying_again_changes_nothing() -> None:
    live = apply(None, config_map({"x": "1"}, labels={"l": "1"}), time=T0)
    assert apply(live, config_map({"x": "1"}, labels={"l": "1"})) == live


def test_the_same_name_as_applier_and_updater_are_two_managers() -> None:
    live = config_map({"x": "1"})
    record_update(None, live, CONFIG_MAP, manager="m1", api_version="v1", time=T0)
    obj = apply(live, config_map({"x": "1", "y": "2"}))
    assert owners(obj) == {
        "m1 Apply": {"f:data": {"f:x": {}, "f:y": {}}},
        "m1 Update": {"f:data": {".": {}, "f:x": {}}},
    }
    error = refusal(obj, config_map({"x": "5"}))
    assert error.message == 'Apply failed with 1 conflict: conflict with "m1" using v1: .data.x'


def test_an_untracked_object_gets_an_owner_for_what_it_has() -> None:
    live = config_map({"a": "1", "b": "1"}, uid="u")
    obj = apply(live, config_map({"a": "1", "q": "1"}), "ap")
    assert obj["data"] == {"a": "1", "b": "1", "q": "1"}
    assert owners(obj) == {
        "ap Apply": {"f:data": {"f:a": {}, "f:q": {}}},
        "before-first-apply Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
    }
    error = refusal(obj, config_map({"a": "5", "q": "1"}), "ap")
    assert error.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'


def test_defaults_have_no_owner_and_survive_the_removal_of_their_neighbours() -> None:
    live = deploy(None, workload([{"name": "c", "image": "i", "args": ["x"]}], replicas=2))
    assert owners(live)["m1 Apply"]["f:spec"]["f:template"]["f:spec"] == {
        "f:containers": {C: {".": {}, "f:args": {}, "f:image": {}, "f:name": {}}}
    }
    live["spec"]["revisionHistoryLimit"] = 10
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    obj = deploy(live, workload())
    assert "replicas" not in obj["spec"]
    assert obj["spec"]["revisionHistoryLimit"] == 10
    assert obj["spec"]["template"]["spec"]["containers"] == [{"name": "c", "image": "i", "imagePullPolicy": "Always"}]


def test_replicas_set_by_a_scaler_survive_an_apply_without_them() -> None:
    live = deploy(None, workload(replicas=3))
    scaled = deepcopy(live)
    scaled["spec"]["replicas"] = 7
    record_update(live, scaled, DEPLOYMENT, manager="scaler", api_version="apps/v1", time=T0, subresource="scale")
    error = refusal(scaled, workload(replicas=3), node=DEPLOYMENT)
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas'
    )
    assert deploy(scaled, workload())["spec"]["replicas"] == 7


def test_a_container_that_is_left_out_goes_with_all_it_has_unless_another_owns_its_name() -> None:
    two = [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]
    live = deploy(None, workload(two))
    live["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always"
    injected = deepcopy(live)
    injected["spec"]["template"]["spec"]["containers"][1]["env"] = [{"name": "E", "value": "1"}]
    record_update(live, injected, DEPLOYMENT, manager="injector", api_version="apps/v1", time=T0)
    assert deploy(injected, workload())["spec"]["template"]["spec"]["containers"] == [two[0]]
    shared = deploy(live, workload([{"name": "d", "args": ["x"]}]), "m2")
    assert deploy(shared, workload())["spec"]["template"]["spec"]["containers"] == [
        {"name": "c", "image": "i"},
        {"name": "d", "imagePullPolicy": "Always", "args": ["x"]},
    ]


def test_ports_are_identified_by_port_and_protocol_which_is_tcp_by_default() -> None:
    def service(*ports: JsonObject) -> JsonObject:
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": list(ports)}}

    live = apply(None, service({"port": 80, "name": "a"}), node=SERVICE)
    live["spec"]["ports"][0] |= {"protocol": "TCP", "targetPort": 80}
    obj = apply(live, service({"port": 81, "name": "b", "protocol": "UDP"}), "m2", SERVICE)
    assert [port["name"] for port in obj["spec"]["ports"]] == ["a", "b"]
    assert owners(obj) == {
        "m1 Apply": {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}}},
        "m2 Apply": {
            "f:spec": {
                "f:ports": {'k:{"port":81,"protocol":"UDP"}': {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}}}
            }
        },
    }


def test_an_explicit_null_claims_and_unsets() -> None:
    obj = apply(None, config_map({"x": "1"}, labels=None, creationTimestamp=None))
    assert owners(obj) == {"m1 Apply": {"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {}}}}
    live = deploy(None, workload(replicas=2))
    obj = deploy(live, workload(replicas=None, strategy={}))
    assert obj["spec"]["replicas"] is None
    assert {"f:replicas", "f:strategy"} <= owners(obj)["m1 Apply"]["f:spec"].keys()


def test_an_empty_map_is_owned_as_such() -> None:
    live = apply(None, config_map({}))
    del live["data"]
    assert refusal(live, config_map({}), "m2").message.endswith('conflict with "m1": .data')
    assert refusal(live, config_map({"x": "1"}), "m2").message.endswith('conflict with "m1": .data')


def test_status_is_not_owned_where_it_is_ignored() -> None:
    obj = deploy(None, {**workload(), "status": {"replicas": 3}})
    assert "f:status" not in owners(obj)["m1 Apply"]


def test_preserved_fields_are_granular_maps_and_atomic_lists() -> None:
    node = Node("object", preserve_unknown=True)
    custom: JsonObject = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}}
    live = apply(None, {**custom, "spec": {"x": {"y": [1, 2], "z": {"q": True}}}}, node=node)
    assert owners(live) == {"m1 Apply": {"f:spec": {".": {}, "f:x": {".": {}, "f:y": {}, "f:z": {".": {}, "f:q": {}}}}}}
    assert refusal(live, {**custom, "spec": {"x": {"y": [3]}}}, "m2", node).message.endswith(": .spec.x.y")


def test_one_and_true_are_two_values_where_no_schema_tells_them_apart() -> None:
    node = Node("object", fields={"spec": Node("object", fields={"free": Node("any", preserve_unknown=True)})})
    custom: JsonObject = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}}
    live = apply(None, {**custom, "spec": {"free": {"on": 1}}}, node=node)
    obj = apply(live, {**custom, "spec": {"free": {"on": True}}}, node=node)
    assert obj["spec"]["free"]["on"] is True
    assert refusal(live, {**custom, "spec": {"free": {"on": True}}}, "m2", node).message.endswith(": .spec.free.on")


def test_what_was_applied_in_another_version_is_removed_when_it_is_left_out() -> None:
    """v2 keeps in `words` what v1 keeps in `text`."""
    nodes = {
        "g/v1": Node("object", fields={"text": Node("string"), "n": Node("integer")}),
        "g/v2": Node("object", fields={"words": Node("string"), "n": Node("integer")}),
    }

    def at_version(obj: JsonObject, api_version: str) -> tuple[JsonObject, Node] | None:
        if api_version not in nodes:
            return None
        names = {"text": "words"} if api_version == "g/v2" else {"words": "text"}
        converted = {names.get(key, key): value for key, value in obj.items()}
        return {**converted, "apiVersion": api_version}, nodes[api_version]

    def custom(api_version: str, **fields: Json) -> JsonObject:
        return {"apiVersion": api_version, "kind": "K", "metadata": {"name": "a"}, **fields}

    live = apply(None, custom("g/v1", text="t", n=1), node=nodes["g/v1"], at_version=at_version)
    seen, _ = at_version(live, "g/v2") or ({}, None)
    kept = apply(seen, custom("g/v2", words="t"), node=nodes["g/v2"], at_version=at_version)
    assert (kept["apiVersion"], kept["words"], "n" in kept) == ("g/v2", "t", False)
    gone = apply(seen, custom("g/v2", n=1), node=nodes["g/v2"], at_version=at_version)
    assert ("words" in gone, gone["n"]) == (False, 1)
    assert owners(gone) == {"m1 Apply": {"f:n": {}}}


def test_an_object_with_nothing_but_a_name_owns_nothing() -> None:
    assert "managedFields" not in apply(None, config_map())["metadata"]


@pytest.mark.parametrize(
    ("intent", "node", "message"),
    [
        (
            {**config_map({"x": "1"}), "bogus": 1},
            CONFIG_MAP,
            "(/a; /v1, Kind=ConfigMap): .bogus: field not declared in schema",
        ),
        (
            config_map({"x": 1}),
            CONFIG_MAP,
            "(/a; /v1, Kind=ConfigMap): .data.x: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            workload(replicas="three"),
            DEPLOYMENT,
            "(/w; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string",
        ),
        (workload(template=[]), DEPLOYMENT, "(/w; apps/v1, Kind=Deployment): .spec.template: expected map, got &{[]}"),
        (workload(paused=1), DEPLOYMENT, "(/w; apps/v1, Kind=Deployment): .spec.paused: expected boolean, got &{1}"),
        (
            workload([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}]),
            DEPLOYMENT,
            '(/w; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name="c"]',
        ),
        (
            workload([{"name": "c", "env": [{"name": "A"}, {"name": "A"}]}]),
            DEPLOYMENT,
            "(/w; apps/v1, Kind=Deployment): .spec.template.spec.containers"
            '[name="c"].env: duplicate entries for key [name="A"]',
        ),
        (
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "w"}, "secrets": [{}]},
            kind_node("", "v1", "ServiceAccount"),
            "(/w; /v1, Kind=ServiceAccount): .secrets: element 0: associative list with keys has "
            'an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)',
        ),
        (
            config_map({"x": 1}, labels={"l": 1}, namespace="n"),
            CONFIG_MAP,
            "(n/a; /v1, Kind=ConfigMap): errors:\n"
            "  .metadata.labels.l: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .data.x: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ],
)
def test_an_intent_must_fit_the_schema(intent: JsonObject, node: Node, message: str) -> None:
    error = refusal(None, intent, node=node)
    assert (error.code, error.reason) == (500, "")
    assert error.message == f"failed to create typed patch object {message}"


@pytest.mark.parametrize(
    ("intent", "message"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "invalid object type: /, Kind=ConfigMap"),
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "invalid object type: apps/v1, Kind=ConfigMap"),
        (config_map(managedFields=[]), "metadata.managedFields must be nil"),
    ],
)
def test_an_intent_of_another_type_or_with_owners_is_a_bad_request(intent: JsonObject, message: str) -> None:
    error = refusal(None, intent, api_version="v1", kind="ConfigMap")
    assert (error.code, error.message) == (400, message)


def test_nulls_that_an_apply_leaves_in_a_custom_resource_are_named() -> None:
    inner = Node("object", fields={"z": Node("integer")})
    spec = Node(
        "object",
        fields={
            "nested": Node("object", fields={"inner": inner}),
            "mapping": Node("map", items=inner),
            "list": Node("array", items=inner),
            "either": Node("any", format="int-or-string"),
            "free": Node("any", preserve_unknown=True),
            "maybe": Node("string", nullable=True),
            "replicas": Node("integer", default=1),
        },
    )
    node = Node("object", fields={"spec": spec})
    custom: JsonObject = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}}
    live = apply(None, {**custom, "spec": {"nested": {"inner": {"z": 1}}}}, node=node)
    obj = apply(live, {**custom, "spec": {"nested": {}}}, node=node)
    assert [str(error) for error in null_values(obj, node)] == [
        'spec.nested: Invalid value: "null": spec.nested in body must be of type object: "null"'
    ]
    nulls = dict.fromkeys(spec.fields) | {"mapping": {"a": None}, "list": [None], "nested": {"inner": None}}
    assert [error.field for error in null_values({**custom, "spec": nulls, "metadata": {"labels": None}}, node)] == [
        "spec.nested.inner",
        "spec.mapping.a",
        "spec.list[0]",
        "spec.either",
    ]
    assert 'must be of type integer,string: "null"' in null_values({"spec": {"either": None}}, node)[0].message
