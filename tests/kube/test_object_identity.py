"""Key and resource version of views and documents."""

import msgspec
import pytest

from kohort.kube.object_identity import key_of, newer, version_of
from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject


@pytest.mark.parametrize(
    ("metadata", "key", "version"),
    [
        ({"name": "a", "namespace": "ns", "resourceVersion": "7"}, Key("ns", "a"), "7"),
        ({"name": "n1"}, Key("", "n1"), ""),
    ],
)
def test_views_and_documents_have_the_same_identity(metadata: JsonObject, key: Key, version: str) -> None:
    document: JsonObject = {"metadata": metadata}
    view = msgspec.convert(document, PartialObject)
    assert key_of(document) == key_of(view) == key
    assert version_of(document) == version_of(view) == version


def test_a_document_without_metadata_has_no_version() -> None:
    assert version_of({}) == ""


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("10", "10", False),
        ("b", "a", True),
        ("a", "b", True),
        ("a", "a", False),
        ("5", "", True),
    ],
)
def test_versions_are_compared_as_numbers_where_they_are_numbers(version: str, than: str, expected: bool) -> None:
    assert newer(version, than) is expected
