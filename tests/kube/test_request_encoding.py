"""Selections, bodies and lists as they go over the wire."""

import msgspec
import pytest

from kohort.kube.request_encoding import (
    Page,
    Selection,
    decode,
    decode_page,
    delete_options,
    document,
    namespace_of,
)
from kohort.kube.resources import PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject


@pytest.mark.parametrize(
    ("selection", "query"),
    [
        (Selection(PODS), ()),
        (Selection(PODS, "ns"), ()),
        (Selection(PODS, label_selector="a=b"), (("labelSelector", "a=b"),)),
        (
            Selection(PODS, label_selector="a", field_selector="spec.nodeName=n"),
            (("labelSelector", "a"), ("fieldSelector", "spec.nodeName=n")),
        ),
    ],
)
def test_selections_become_queries(selection: Selection, query: tuple[tuple[str, str], ...]) -> None:
    assert selection.query() == query


def test_delete_options_have_only_what_was_given() -> None:
    head = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert delete_options(None, None, None, None, False) == head
    assert delete_options("Foreground", 0, "u", "7", True) == head | {
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    assert delete_options(None, None, "u", None, False)["preconditions"] == {"uid": "u"}


@pytest.mark.parametrize("subresource", ["", "status"])
def test_kind_and_version_are_added_to_objects(subresource: str) -> None:
    body: JsonObject = {"metadata": {"name": "web"}}
    assert document(STATEFUL_SETS, body, subresource) == {"apiVersion": "apps/v1", "kind": "StatefulSet", **body}
    assert "kind" not in body, "the caller's object is not changed"


def test_subresources_with_a_kind_of_their_own_are_sent_as_they_are() -> None:
    scale: JsonObject = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}}
    assert document(STATEFUL_SETS, scale, "scale") == scale
    assert document(PODS, {"target": {}}, "binding") == {"target": {}}


def test_views_are_sent_under_their_wire_names() -> None:
    view = msgspec.convert({"metadata": {"name": "a", "resourceVersion": "3"}}, PartialObject)
    assert document(PODS, view, "")["metadata"]["resourceVersion"] == "3"


def test_the_namespace_of_a_document() -> None:
    assert namespace_of({"metadata": {"namespace": "ns"}}) == "ns"
    assert namespace_of({}) == namespace_of({"metadata": {}}) == ""


def test_whole_objects_of_a_list_get_kind_and_version_back() -> None:
    body = msgspec.json.encode(
        {"metadata": {"resourceVersion": "9", "continue": "c"}, "items": [{"metadata": {"name": "a"}}]}
    )
    page = decode_page(body, JsonObject, PODS)
    assert page.items == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]
    assert (page.resource_version, page.continue_, len(page)) == ("9", "c", 1)


def test_lists_of_views_are_decoded_into_the_view() -> None:
    body = b'{"metadata": {}, "items": [{"metadata": {"name": "a", "labels": null}, "spec": {"any": 1}}]}'
    page = decode_page(body, PartialObject, PODS)
    assert isinstance(page.items[0], PartialObject) and page.items[0].metadata.labels == {}


def test_an_empty_list_may_be_null() -> None:
    assert decode_page(b'{"metadata": {}, "items": null}', PartialObject, PODS) == Page()


def test_null_counts_as_an_absent_field() -> None:
    assert decode(b'{"metadata": {"name": "a", "finalizers": null}}', PartialObject).metadata.finalizers == ()
