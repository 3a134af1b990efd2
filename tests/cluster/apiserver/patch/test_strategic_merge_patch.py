"""Strategic merge patch: lists by key, directives, and what is refused."""

from copy import deepcopy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kohort.cluster.apiserver.patch import strategic
from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

DEPLOYMENT = kind_node("apps", "v1", "Deployment")
CONFIG_MAP = kind_node("", "v1", "ConfigMap")


def deployment() -> JsonObject:
    return {
        "metadata": {"name": "w", "finalizers": ["a", "b"]},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {
                "metadata": {"annotations": {"a": "1", "b": "2"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "img:1",
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
                            "args": ["x", "y"],
                        },
                        {"name": "d", "image": "img:1"},
                    ],
                    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "cm"}}],
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                },
            },
        },
    }


def patched(patch: Json, document: JsonObject | None = None) -> JsonObject:
    live = deployment() if document is None else document
    before, patch_before = deepcopy(live), deepcopy(patch)
    result = strategic.apply(live, patch, DEPLOYMENT)
    assert (live, patch) == (before, patch_before)
    return result


def pod_spec(**patch: Json) -> JsonObject:
    spec: JsonObject = patched({"spec": {"template": {"spec": patch}}})["spec"]["template"]["spec"]
    return spec


def names(items: list[JsonObject]) -> list[str]:
    return [item["name"] for item in items]


def test_containers_and_their_variables_are_merged_by_name() -> None:
    changed = {"name": "c", "image": "img:2", "env": [{"name": "B", "value": "22"}, {"name": "C", "value": "3"}]}
    containers = pod_spec(containers=[changed, {"name": "new", "image": "img:3"}])["containers"]
    assert names(containers) == ["c", "new", "d"]
    assert containers[0]["image"] == "img:2"
    assert containers[0]["args"] == ["x", "y"]
    assert containers[0]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "22"},
        {"name": "C", "value": "3"},
    ]


def test_ports_are_merged_by_container_port() -> None:
    ports = [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]
    merged = pod_spec(containers=[{"name": "c", "ports": ports}])["containers"][0]["ports"]
    assert merged == [{"containerPort": 80, "name": "web", "protocol": "TCP"}, {"containerPort": 81}]


def test_lists_without_a_merge_strategy_are_replaced() -> None:
    assert pod_spec(tolerations=[{"key": "z"}])["tolerations"] == [{"key": "z"}]
    assert pod_spec(containers=[{"name": "c", "args": ["q"]}])["containers"][0]["args"] == ["q"]


def test_null_deletes_a_field_and_is_dropped_where_there_was_none() -> None:
    assert "volumes" not in pod_spec(volumes=None)
    assert pod_spec(securityContext={"runAsUser": None, "fsGroup": 1})["securityContext"] == {"fsGroup": 1}


def test_a_value_of_another_type_replaces() -> None:
    assert pod_spec(containers="none")["containers"] == "none"


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"name": "d", "$patch": "delete"}], ["c"]),
        ([{"name": "nobody", "$patch": "delete"}], ["c", "d"]),
        ([{"name": "z"}, {"$patch": "replace"}], ["z"]),
        ([{"$patch": "replace"}], []),
        ([{"name": "c", "$patch": "delete"}, {"name": "e"}], ["e", "d"]),
        ([{"name": "d"}, {"name": "c"}], ["d", "c"]),
        ([{"name": "z"}, {"name": "d"}], ["z", "c", "d"]),
    ],
)
def test_directives_and_order_in_a_list(items: list[JsonObject], expected: list[str]) -> None:
    assert names(pod_spec(containers=items)["containers"]) == expected


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"only": "1", "$patch": "replace"}, {"only": "1"}),
        ({"only": "1", "$patch": "delete"}, {}),
        ({"only": "1", "a": None}, {"b": "2", "only": "1"}),
    ],
)
def test_directives_in_a_map(patch: JsonObject, expected: JsonObject) -> None:
    result = patched({"spec": {"template": {"metadata": {"annotations": patch}}}})
    assert result["spec"]["template"]["metadata"]["annotations"] == expected


def test_a_directive_for_a_map_that_is_not_there_leaves_nothing() -> None:
    result = patched({"spec": {"template": {"metadata": {"labels": {"x": "1", "$patch": "replace"}}}}})
    assert "labels" not in result["spec"]["template"]["metadata"]


def test_retain_keys_drops_what_is_not_listed() -> None:
    volume = {"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}
    assert pod_spec(volumes=[volume])["volumes"][0] == {"name": "v", "secret": {"secretName": "s"}}
    strategy = patched({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})["spec"]["strategy"]
    assert strategy == {"type": "Recreate"}


def test_without_retain_keys_a_second_volume_source_stays_beside_the_first() -> None:
    assert pod_spec(volumes=[{"name": "w", "emptyDir": {}}])["volumes"][1] == {
        "name": "w",
        "configMap": {"name": "cm"},
        "emptyDir": {},
    }


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"finalizers": ["c"]}, ["c", "a", "b"]),
        ({"finalizers": ["b", "c"]}, ["a", "b", "c"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}, ["c", "b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["missing"]}, ["a", "b"]),
        ({"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"]),
        ({"$setElementOrder/finalizers": ["b", "c", "a"], "finalizers": ["c"]}, ["b", "c", "a"]),
    ],
)
def test_lists_of_scalars(metadata: JsonObject, expected: list[str]) -> None:
    live = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic.apply(live, {"metadata": metadata}, CONFIG_MAP)["metadata"]["finalizers"] == expected


def test_the_order_directive_without_a_list_of_its_own_only_sorts() -> None:
    order = {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]}
    assert names(pod_spec(**order)["containers"]) == ["d", "c"]


def test_items_that_only_the_server_has_keep_their_place() -> None:
    live = deployment()
    live["spec"]["template"]["spec"]["containers"] = [{"name": name} for name in "abcd"]
    order = [{"name": "c"}, {"name": "new"}, {"name": "a"}]
    patch = {"$setElementOrder/containers": order, "containers": [{"name": "new"}]}
    result = patched({"spec": {"template": {"spec": patch}}}, live)
    assert names(result["spec"]["template"]["spec"]["containers"]) == ["b", "c", "new", "a", "d"]


def test_a_new_item_takes_the_place_of_a_deleted_one() -> None:
    live = deployment()
    live["spec"]["template"]["spec"]["containers"] = [{"name": name} for name in "ebc"]
    patch = {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "d"}, {"name": "c"}],
        "containers": [{"name": "d"}, {"name": "e", "$patch": "delete"}, {"name": "c"}],
    }
    result = patched({"spec": {"template": {"spec": patch}}}, live)
    assert names(result["spec"]["template"]["spec"]["containers"]) == ["b", "d", "c"]


def test_owner_references_are_merged_by_uid() -> None:
    live = {"metadata": {"ownerReferences": [{"name": "n1", "uid": "u1"}, {"name": "n2", "uid": "u2"}]}}
    patch = {"metadata": {"ownerReferences": [{"uid": "u1", "$patch": "delete"}, {"uid": "u2", "controller": True}]}}
    assert strategic.apply(live, patch, CONFIG_MAP)["metadata"]["ownerReferences"] == [
        {"name": "n2", "uid": "u2", "controller": True}
    ]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"containers": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"containers": [{"$patch": "bogus", "name": "c"}]},
            500,
            "unknown patch type: bogus in map: map[$patch:bogus name:c]",
        ),
        (
            {"$patch": "merge", "hostname": "h"},
            500,
            "unknown patch type: merge in map: map[$patch:merge hostname:h]",
        ),
        ({"containers": [{"name": "c", "$patch": "merge"}]}, 500, "merging lists cannot yet be specified in the patch"),
        (
            {"containers": [{"$patch": "delete"}]},
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            {"$setElementOrder/containers": [{"name": "z"}], "containers": [{"name": "c", "image": "q"}]},
            500,
            "The order in patch list:\n[map[image:q name:c]]\n doesn't match $setElementOrder list:\n[map[name:z]]\n",
        ),
        (
            {"initContainers": [], "$setElementOrder/initContainers": []},
            500,
            "no elements in any of the given slices",
        ),
        (
            {"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "c"}, {"$patch": "replace"}]},
            500,
            "The order in patch list:\n[map[name:c] map[$patch:replace]]\n"
            " doesn't match $setElementOrder list:\n[map[name:c]]\n",
        ),
        ({"$setElementOrder/containers": "a"}, 500, "expected a []interface {}, but received a string"),
        ({"$setElementOrdercontainers": []}, 400, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveListx": ["a"]}, 400, "invalid patch format of primitive list"),
        ({"$retainKeys": 5}, 400, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["containers"], "hostname": "h"}, 400, "invalid patch format of retainKeys"),
    ],
)
def test_malformed_directives(patch: JsonObject, code: int, message: str) -> None:
    with pytest.raises(ApiError) as raised:
        pod_spec(**patch)
    assert (raised.value.code, raised.value.message) == (code, message)


def test_lists_of_lists_and_mixed_lists_are_refused() -> None:
    live: JsonObject = {"metadata": {"finalizers": [["nested"]]}}
    with pytest.raises(ApiError) as raised:
        strategic.apply(live, {"metadata": {"finalizers": [["x"]]}}, CONFIG_MAP)
    assert raised.value.code == 422
    with pytest.raises(ApiError) as raised:
        strategic.apply({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [["x"]]}}, CONFIG_MAP)
    assert (raised.value.code, raised.value.message) == (500, "list element types are not identical: [[a] [[x]]]")


def test_a_patch_must_be_an_object_and_null_is_none() -> None:
    assert patched(None) == deployment()
    with pytest.raises(ApiError) as raised:
        patched([])
    assert raised.value.code == 400


letters = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


@given(live=letters, items=letters, extra=letters)
def test_an_order_directive_loses_and_doubles_nothing(live: list[str], items: list[str], extra: list[str]) -> None:
    order = items + [name for name in extra if name not in items]
    assume(live or items)
    document = deployment()
    document["spec"]["template"]["spec"]["containers"] = [{"name": name, "image": "old"} for name in live]
    spec: JsonObject = {"$setElementOrder/containers": [{"name": name} for name in order]}
    spec["containers"] = [{"name": name, "image": "new"} for name in items]
    result = patched({"spec": {"template": {"spec": spec}}}, document)["spec"]["template"]["spec"]["containers"]
    found = names(result)
    assert sorted(found) == sorted({*live, *items})
    assert [name for name in found if name in order] == [name for name in order if name in found]
    assert [name for name in found if name not in order] == [name for name in live if name not in order]
    assert {item["name"] for item in result if item["image"] == "new"} == set(items)


@given(live=letters, items=letters)
def test_an_empty_patch_of_items_changes_only_their_order(live: list[str], items: list[str]) -> None:
    document: JsonObject = {"spec": {"template": {"spec": {"containers": [{"name": name} for name in live]}}}}
    shared = [{"name": name} for name in items if name in live]
    result = patched({"spec": {"template": {"spec": {"containers": shared}}}}, document)
    assert sorted(names(result["spec"]["template"]["spec"]["containers"])) == sorted(live)
