"""Objects written as protobuf, against the bytes that Go wrote for the same objects."""

import base64
import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.schema import protobuf_decode, protobuf_encode
from kohort.kube import errors
from kohort.kube.errors import StatusCause
from kohort.objects.json_types import JsonObject

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['apiVersion']}-{v['kind']}-{i}" for i, v in enumerate(VECTORS)])
def test_the_same_bytes(vector: JsonObject) -> None:
    assert protobuf_encode.encode(vector["json"]) == base64.b64decode(vector["protobuf"])


METADATA: JsonObject = {
    "name": "one",
    "namespace": "pb",
    "uid": "30adb996-7593-4249-911f-d0d895f5e873",
    "resourceVersion": "741",
    "creationTimestamp": "2026-11-16T07:05:29Z",
    "managedFields": [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-16T07:05:29Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ],
}
METADATA_BYTES = (
    "EpwBCpkBCgNvbmUSABoCcGIiACokMzBhZGI5OTYtNzU5My00MjQ5LTkxMWYtZDBkODk1ZjVlODczMgM3NDE4AEIICLnW6tcGEACKAVIKDmt1YmVj"
    "dGwtY3JlYXRlEgZVcGRhdGUaAnYxIggIudbq1wYQADIIRmllbGRzVjE6HgoceyJmOmRhdGEiOnsiLiI6e30sImY6YSI6e319fUIAGgAiAA=="
)


@pytest.mark.parametrize(
    ("version", "head"),
    [
        ("v1", b"\n'\n\x0emeta.k8s.io/v1\x12\x15PartialObjectMetadata"),
        ("v1beta1", b"\n,\n\x13meta.k8s.io/v1beta1\x12\x15PartialObjectMetadata"),
    ],
)
def test_the_metadata_of_an_object(version: str, head: bytes) -> None:
    document = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": METADATA}
    assert protobuf_encode.encode(document) == b"k8s\0" + head + base64.b64decode(METADATA_BYTES)


def test_an_event_of_a_watch() -> None:
    metadata = {"resourceVersion": "742", "annotations": {"k8s.io/initial-events-end": "true"}}
    event = protobuf_encode.encode_event("BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    assert event == (
        b'\0\0\0a\n\x08BOOKMARK\x12U\nSk8s\0\n\x0f\n\x02v1\x12\tConfigMap\x128\n6\n\0\x12\0\x1a\0"\0*\x002\x03742'
        b'8\0B\0b!\n\x19k8s.io/initial-events-end\x12\x04true\x1a\0"\0'
    )


def test_a_status_reads_back_as_it_was() -> None:
    error = errors.failure(
        429, "TooManyRequests", "not now", name="p", kind="pods", causes=[StatusCause("A", "b", "c")], retry_after=300
    )
    document = {"kind": "Status", "apiVersion": "v1", **error.to_json()}
    assert {"metadata": {}, **protobuf_decode.decode(protobuf_encode.encode(document))} == document


def test_what_is_of_no_built_in_kind() -> None:
    with pytest.raises(KeyError):
        protobuf_encode.encode({"kind": "Widget", "apiVersion": "example.com/v1"})
