"""Which keys must be reconciled when an object changes, for typed views and for plain documents."""

import msgspec
import pytest

from kohort.kube.event_mapping import (
    controller_of,
    index_by_controller_uid,
    is_controlled_by,
    map_to_controller_owner,
    own_key,
    owner_reference,
)
from kohort.kube.resources import STATEFUL_SETS, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject


def reference(kind: str, name: str, *, controller: bool, api_version: str = "apps/v1") -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


def document(*owners: JsonObject) -> JsonObject:
    return {"metadata": {"name": "pod", "namespace": "ns", "ownerReferences": [*owners]}}


SET = reference("StatefulSet", "web", controller=True)
OTHER = reference("Node", "n1", controller=False, api_version="v1")


@pytest.fixture(params=["document", "view"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def subject(form: str, *owners: JsonObject) -> PartialObject | JsonObject:
    return document(*owners) if form == "document" else msgspec.convert(document(*owners), PartialObject)


def test_the_controller_is_found_among_other_owners(form: str) -> None:
    found = controller_of(subject(form, OTHER, SET))
    assert found is not None
    assert (found.api_version, found.kind, found.name, found.uid) == ("apps/v1", "StatefulSet", "web", "uid-web")


def test_an_owner_that_does_not_control_is_not_the_controller(form: str) -> None:
    assert controller_of(subject(form, OTHER)) is None
    assert controller_of(subject(form)) is None


def test_only_the_controller_with_the_uid_controls(form: str) -> None:
    owned = subject(form, OTHER, SET)
    assert is_controlled_by(owned, "uid-web")
    assert not is_controlled_by(owned, "uid-n1"), "an owner that does not control"
    assert not is_controlled_by(owned, "uid-of-another-web")
    assert not is_controlled_by(subject(form), "")


def test_a_document_with_null_owners_has_no_controller() -> None:
    assert controller_of({"metadata": {"name": "pod", "ownerReferences": None}}) is None


@pytest.mark.parametrize(
    ("kind", "group", "expected"),
    [
        ("StatefulSet", None, [Key("ns", "web")]),
        ("StatefulSet", "apps", [Key("ns", "web")]),
        ("StatefulSet", "other.example.com", []),
        ("Deployment", None, []),
    ],
)
def test_mapping_to_the_controller(form: str, kind: str, group: str | None, expected: list[Key]) -> None:
    assert list(map_to_controller_owner(kind, group)(subject(form, SET))) == expected


def test_mapping_to_a_cluster_scoped_controller(form: str) -> None:
    owner = reference("Node", "n1", controller=True, api_version="v1")
    assert list(map_to_controller_owner("Node", "", namespaced=False)(subject(form, owner))) == [Key("", "n1")]


def test_mapping_to_the_object_itself(form: str) -> None:
    assert list(own_key(subject(form))) == [Key("ns", "pod")]


def test_the_index_has_the_uid_of_the_controller(form: str) -> None:
    assert list(index_by_controller_uid(subject(form, OTHER, SET))) == ["uid-web"]
    assert list(index_by_controller_uid(subject(form, OTHER))) == []


def test_references_of_controllers_block_foreground_deletion() -> None:
    assert owner_reference(STATEFUL_SETS, "web", "u") == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "web",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    plain = owner_reference(STATEFUL_SETS, "web", "u", controller=False)
    assert "controller" not in plain and "blockOwnerDeletion" not in plain
