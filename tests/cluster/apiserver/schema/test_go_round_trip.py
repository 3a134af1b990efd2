"""What a round trip through the Go types does to an object, and what it never does."""

import copy
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.schema.builtin import kind_node, type_node
from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, record
from kohort.cluster.apiserver.schema.decode import DecodingFailed, complete, conform
from kohort.objects.json_types import Json, JsonObject

POD = kind_node("", "v1", "Pod")
CONTAINER = type_node("io.k8s.api.core.v1.Container")

EFFECTS = [
    # what, before, after
    ("null", {"name": "c", "image": None}, {"name": "c"}),
    ("empty text", {"name": "c", "image": ""}, {"name": "c"}),
    ("text that is always written", {"name": ""}, {"name": ""}),
    ("false", {"name": "c", "tty": False}, {"name": "c"}),
    ("empty list", {"name": "c", "args": []}, {"name": "c"}),
    ("empty struct", {"name": "c", "resources": {}}, {"name": "c", "resources": {}}),
    ("empty pointer", {"name": "c", "securityContext": {}}, {"name": "c", "securityContext": {}}),
    (
        "zero behind a pointer",
        {"name": "c", "securityContext": {"runAsUser": 0, "privileged": False}},
        {"name": "c", "securityContext": {"runAsUser": 0, "privileged": False}},
    ),
    ("null item", {"name": "c", "args": [None, "x"]}, {"name": "c", "args": ["", "x"]}),
    ("null struct", {"name": "c", "env": [None]}, {"name": "c", "env": [{}]}),
    (
        "quantities",
        {"name": "c", "resources": {"limits": {"cpu": "1000m", "memory": 1024, "x": None}}},
        {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1024", "x": "0"}}},
    ),
    (
        "an inlined struct",
        {"name": "c", "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 0}},
        {"name": "c", "livenessProbe": {"httpGet": {"port": "http"}}},
    ),
]


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in EFFECTS], ids=[case[0] for case in EFFECTS])
def test_effects_of_a_round_trip(before: JsonObject, after: JsonObject) -> None:
    assert conform(before, CONTAINER) == []
    assert before == after


def test_unknown_fields_are_reported_in_the_order_of_the_document_and_removed() -> None:
    pod = {"spec": {"containers": [{"name": "c", "nope": True}], "bogus": 1}, "top": {}}
    assert conform(pod, POD) == [
        'unknown field "spec.containers[0].nope"',
        'unknown field "spec.bogus"',
        'unknown field "top"',
    ]
    assert pod == {"spec": {"containers": [{"name": "c"}]}}


def test_without_pruning_nothing_changes() -> None:
    pod: JsonObject = {"spec": {"bogus": 1, "hostNetwork": False, "priority": None}}
    assert conform(pod, POD, prune=False) == ['unknown field "spec.bogus"']
    assert pod == {"spec": {"bogus": 1, "hostNetwork": False, "priority": None}}


def test_a_wrong_type_carries_its_message_without_the_kind_too() -> None:
    with pytest.raises(DecodingFailed) as refused:
        conform({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"emptyDir": 5}]}}, POD)
    detail = (
        "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir "
        "of type v1.EmptyDirVolumeSource"
    )
    assert refused.value.detail == detail
    assert refused.value.message == f'Pod in version "v1" cannot be handled as a Pod: {detail}'


ALWAYS_WRITTEN = [
    (("rbac.authorization.k8s.io", "v1", "Role"), {"metadata": {}, "rules": None}),
    (("", "v1", "Service"), {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
    (
        ("", "v1", "Event"),
        {
            "metadata": {},
            "involvedObject": {},
            "source": {},
            "eventTime": None,
            "firstTimestamp": None,
            "lastTimestamp": None,
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
    (
        ("discovery.k8s.io", "v1", "EndpointSlice"),
        {"metadata": {}, "addressType": "", "endpoints": None, "ports": None},
    ),
]


@pytest.mark.parametrize(("kind", "whole"), ALWAYS_WRITTEN)
def test_zero_values_that_go_always_writes(kind: tuple[str, str, str], whole: JsonObject) -> None:
    obj: JsonObject = {}
    complete(obj, kind_node(*kind))
    assert obj == whole


def test_nulls_can_wait() -> None:
    obj: JsonObject = {}
    complete(obj, kind_node("rbac.authorization.k8s.io", "v1", "ClusterRole"), nulls=False)
    assert obj == {"metadata": {}}
    complete(obj, kind_node("rbac.authorization.k8s.io", "v1", "ClusterRole"))
    assert obj == {"metadata": {}, "rules": None}


names = st.text(string.ascii_lowercase, min_size=1, max_size=6)


def values(expression: TypeExpression, depth: int) -> st.SearchStrategy[Json]:
    """Values that a field accepts."""
    match expression.kind:
        case "struct":
            return structs(expression.word, depth + 1)
        case "list" | "wrapped-list":
            return st.lists(values(expression.item, depth + 1), max_size=2)
        case "map":
            return st.dictionaries(names, values(expression.item, depth + 1), max_size=2)
    return {
        "string": st.text(max_size=5),
        "bool": st.booleans(),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "quantity": st.sampled_from(["1000m", "0", "1.5Gi", "2e3", 5]),
        "intstr": st.one_of(st.integers(0, 9), st.text(max_size=3)),
        "time": st.sampled_from(["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.5+02:00"]),
        "bytes": st.sampled_from(["", "YQ==", "YWI="]),
    }.get(expression.word, st.none())


def structs(name: str, depth: int) -> st.SearchStrategy[JsonObject]:
    fields = record(name).fields
    chosen = st.lists(st.sampled_from(fields), max_size=max(0, 5 - depth), unique_by=lambda field: field.name)

    def fill(picked: list[FieldRecord]) -> st.SearchStrategy[JsonObject]:
        return st.fixed_dictionaries({field.name: values(field.type, depth) for field in picked})

    return chosen.flatmap(fill)


kinds = st.sampled_from(
    [("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("", "v1", "Service"), ("batch", "v1", "Job"), ("", "v1", "Node")]
)


@given(st.data())
def test_conforming_twice_is_conforming_once(data: st.DataObject) -> None:
    node = kind_node(*data.draw(kinds))
    obj = data.draw(structs(node.name, 0))
    conform(obj, node)
    once = copy.deepcopy(obj)
    assert conform(obj, node) == []
    assert obj == once
    complete(obj, node)
    completed = copy.deepcopy(obj)
    complete(obj, node)
    assert obj == completed


@given(st.data())
def test_known_fields_are_never_reported_and_only_unknown_ones_are(data: st.DataObject) -> None:
    node = kind_node(*data.draw(kinds))
    obj = data.draw(structs(node.name, 0))
    clean = copy.deepcopy(obj)
    assert conform(clean, node) == []
    with_unknown = {**obj, "zzUnknown": data.draw(st.one_of(st.none(), st.integers(), st.just({"a": [1]})))}
    assert conform(with_unknown, node) == ['unknown field "zzUnknown"']
    assert with_unknown == clean


@given(st.data())
def test_what_is_not_empty_stays(data: st.DataObject) -> None:
    node = kind_node(*data.draw(kinds))
    obj = data.draw(structs(node.name, 0))
    kept = {key for key, value in obj.items() if value not in (None, "", 0, False, [], {})}
    conform(obj, node)
    assert kept <= set(obj)
