"""Which versions of a resource stand in for each other, and where a namespace lies; as in Kubernetes 1.36."""

import pytest

from kohort.cluster.apiserver.admission.matching import equivalents
from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.reviews import request_namespace
from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.crd.definitions import kinds_of
from kohort.kube.resources import NAMESPACES
from kohort.objects.json_types import JsonObject


class NoObjects:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        raise AssertionError("not asked")

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        raise AssertionError("not asked")


def test_a_version_without_the_subresource_is_no_equivalent() -> None:
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [
        {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
        {"name": "v2", "served": True, "storage": False},
    ]
    kinds = kinds_of(
        {
            "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
        }
    )
    assert [one.version for one in equivalents(kinds, "")] == ["v1", "v2"]
    assert [one.version for one in equivalents(kinds, "status")] == ["v1"]


@pytest.mark.parametrize(("metadata", "namespace"), [({"name": "x"}, "x"), ({"generateName": "x-"}, "")])
def test_a_new_namespace_lies_in_itself_if_it_has_a_name(metadata: JsonObject, namespace: str) -> None:
    attributes = Attributes(
        operation="CREATE",
        resource=NAMESPACES,
        name=metadata.get("name", "x-12345"),
        namespace="",
        user=ADMIN,
        reader=NoObjects(),
        object={"metadata": metadata},
    )
    assert request_namespace(attributes) == namespace
