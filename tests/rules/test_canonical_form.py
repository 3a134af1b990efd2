"""Documents as Go's typed structs would write them."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.canonical_form import CLAIM, POD_TEMPLATE, canonical_struct, encode, without_nulls


def template(**spec: Json) -> JsonObject:
    return {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [{"name": "main"}], **spec}}


def canonical_spec(**spec: Json) -> JsonObject:
    found: JsonObject = canonical_struct(template(**spec), POD_TEMPLATE)["spec"]
    return found


def container(**fields: Json) -> JsonObject:
    found: JsonObject = canonical_spec(containers=[{"name": "main", **fields}])["containers"][0]
    return found


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"hostNetwork": False}, id="false is left out"),
        pytest.param({"nodeName": ""}, id="empty text is left out"),
        pytest.param({"nodeSelector": {}}, id="empty map is left out"),
        pytest.param({"tolerations": []}, id="empty list is left out"),
        pytest.param({"volumes": None}, id="null is left out"),
        pytest.param({"activeDeadlineSeconds": None}, id="null pointer is left out"),
    ],
)
def test_fields_that_go_leaves_out_make_no_difference(spec: JsonObject) -> None:
    assert canonical_spec(**spec) == canonical_spec()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"terminationGracePeriodSeconds": 0}, id="zero behind a pointer"),
        pytest.param({"automountServiceAccountToken": False}, id="false behind a pointer"),
        pytest.param({"securityContext": {}}, id="empty struct behind a pointer"),
        pytest.param({"hostNetwork": True}, id="true"),
        pytest.param({"nodeSelector": {"gpu": ""}}, id="map with an empty value"),
    ],
)
def test_fields_that_go_writes_make_a_difference(spec: JsonObject) -> None:
    assert canonical_spec(**spec) == {**canonical_spec(), **spec}


def test_structs_that_go_always_writes_are_added() -> None:
    """`resources` of a container and `metadata` of a template are structs and no pointers."""
    assert container() == {"name": "main", "resources": {}}
    assert container(resources=None) == container()
    assert "metadata" in canonical_struct({"spec": {"containers": []}}, POD_TEMPLATE)


def test_a_list_without_omitempty_is_null_when_it_is_absent() -> None:
    assert canonical_struct({"spec": {}}, POD_TEMPLATE)["spec"]["containers"] is None
    assert canonical_struct({"spec": {"containers": []}}, POD_TEMPLATE)["spec"]["containers"] == []


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("1000m", "1"), ("1", "1"), (1, "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1e3", "1e3")],
)
def test_quantities_have_one_spelling(written: str | int, canonical: str) -> None:
    found = container(resources={"limits": {"cpu": written}})
    assert found["resources"]["limits"]["cpu"] == canonical


def test_ports_keep_numbers_and_names() -> None:
    for port in (8080, "http"):
        probe = {"httpGet": {"path": "/", "port": port}}
        assert container(readinessProbe=probe)["readinessProbe"]["httpGet"]["port"] == port


def test_fields_of_a_newer_kubernetes_are_kept_without_their_nulls() -> None:
    found = canonical_spec(aFieldOfTomorrow={"on": True, "off": None, "list": [{"x": None}]}, another=None)
    assert found["aFieldOfTomorrow"] == {"on": True, "list": [{}]}
    assert "another" not in found


def test_claims_have_a_canonical_form_too() -> None:
    claim: JsonObject = {
        "metadata": {"name": "data", "creationTimestamp": None},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Gi"}}},
    }
    found = canonical_struct(claim, CLAIM)
    assert found["spec"]["resources"]["requests"] == {"storage": "1Ti"}
    assert found["status"] == {}
    assert "creationTimestamp" not in found["metadata"]


def test_the_document_itself_is_not_changed() -> None:
    before = template(hostNetwork=False, volumes=None)
    kept = copy.deepcopy(before)
    canonical_struct(before, POD_TEMPLATE)
    assert before == kept


def test_the_canonical_form_of_a_canonical_form_is_the_same() -> None:
    once = canonical_spec(
        hostNetwork=False,
        containers=[{"name": "main", "resources": {"requests": {"cpu": "1500m"}}, "ports": [{"containerPort": 80}]}],
        volumes=[{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}}],
    )
    assert canonical_struct({"spec": once, "metadata": {}}, POD_TEMPLATE)["spec"] == once


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"b": 1, "a": [2, None]}, b'{"a":[2,null],"b":1}'),
        ({"a": "<&>"}, b'{"a":"\\u003c\\u0026\\u003e"}'),
        ({"a": "\u2028\u2029"}, b'{"a":"\\u2028\\u2029"}'),
        ({"a": "ü"}, '{"a":"ü"}'.encode()),
        ({}, b"{}"),
    ],
)
def test_text_is_sorted_compact_and_escaped_as_go_does_it(document: JsonObject, text: bytes) -> None:
    assert encode(document) == text


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(DOCUMENTS)
def test_no_null_stays_in_a_map(document: Json) -> None:
    def nulls(value: Json) -> bool:
        if isinstance(value, dict):
            return any(item is None or nulls(item) for item in value.values())
        return isinstance(value, list) and any(nulls(item) for item in value)

    assert not nulls(without_nulls(document))
    assert without_nulls(without_nulls(document)) == without_nulls(document)
