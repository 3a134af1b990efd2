"""Descriptions of the built-in types: complete, of things that exist, and where `kubectl explain` reads them."""

from collections.abc import Iterator

import pytest

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.openapi.document import OpenApi, document, swagger
from kohort.cluster.apiserver.schema import descriptions_index
from kohort.cluster.apiserver.schema.builtin_types import has_type, record
from kohort.objects.json_types import JsonObject

KINDS = builtin_kinds()
LONGEST = 200
SPECIAL = {"io.k8s.apimachinery.pkg.apis.meta.v1.Duration", "io.k8s.apimachinery.pkg.version.Info"}
"""Types without a record that no document of a group version has."""


def schemas() -> dict[str, JsonObject]:
    """Every type in the document of any group version."""
    found: dict[str, JsonObject] = {}
    for group, version in {(kind.resource.group, kind.resource.version) for kind in KINDS}:
        found |= document(group, version, KINDS)["components"]["schemas"]
    return found


def sentences() -> Iterator[tuple[str, str]]:
    entries, _ = descriptions_index.read()
    for name, described in entries.items():
        yield name, described.text
        yield from ((f"{name}.{field}", text) for field, text in described.fields.items())


def test_every_type_and_field_is_described() -> None:
    published = schemas()
    bare = [name for name, schema in published.items() if not schema.get("description")]
    for name, schema in published.items():
        fields = schema.get("properties", {})
        bare += [f"{name}.{field}" for field, inner in fields.items() if not inner.get("description")]
    assert len(published) > 500
    assert bare == []


def test_what_is_described_exists() -> None:
    entries, endings = descriptions_index.read()
    published = schemas()
    for key, described in entries.items():
        if key.startswith("*"):
            continue
        assert has_type(key) or key in published or key in SPECIAL, key
        assert not described.like or described.like in entries, key
        if has_type(key):
            assert set(described.fields) <= {field.name for field in record(key).fields}, key
    for ending in endings:
        alike = [name for name in published if name.endswith(ending) and has_type(name)]
        assert set(entries[f"*{ending}"].fields) <= {field.name for name in alike for field in record(name).fields}


def test_a_description_is_a_short_sentence() -> None:
    wrong = [
        (name, text) for name, text in sentences() if not text.endswith(".") or len(text) > LONGEST or "  " in text
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "field", "text"),
    [
        ("io.k8s.api.core.v1.PodSpec", "nodeName", "The node that the pod runs on"),
        ("io.k8s.api.core.v1.EphemeralContainer", "image", "The image to run"),
        ("io.k8s.api.core.v1.PodList", "items", "The objects themselves."),
        ("io.k8s.api.apps.v1.DeploymentCondition", "status", "True, False or Unknown."),
        ("io.k8s.api.core.v1.NFSVolumeSource", "readOnly", "Mount it so that it cannot be written to"),
        ("io.k8s.api.core.v1.ConfigMap", "metadata", "Name, labels, annotations"),
    ],
)
def test_a_field_takes_the_nearest_description(name: str, field: str, text: str) -> None:
    assert descriptions_index.field_text(name, field).startswith(text)


def test_what_all_kinds_have_is_not_said_of_other_types() -> None:
    assert descriptions_index.field_text("io.k8s.api.core.v1.PodTemplateSpec", "apiVersion") == ""
    assert descriptions_index.type_text("com.example.Nothing") == ""


def test_a_list_says_what_it_lists() -> None:
    assert "kind Pod," in descriptions_index.type_text("io.k8s.api.core.v1.PodList")


def test_a_description_stands_beside_a_reference() -> None:
    spec = schemas()["io.k8s.api.core.v1.Pod"]["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    assert spec["description"] == descriptions_index.field_text("io.k8s.api.core.v1.Pod", "spec")


def test_swagger_has_them_too() -> None:
    pod = swagger([kind for kind in KINDS if kind.resource.plural == "pods"])["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["description"] and pod["properties"]["spec"]["description"]


def test_nothing_is_read_for_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        raise AssertionError("the sentences were read")

    monkeypatch.setattr(descriptions_index, "read", read)
    assert "api/v1" in OpenApi(KINDS).index()["paths"]
