"""Objects written as protobuf, against the bytes that Go wrote for the same objects."""

import base64
import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.schema import protobuf, protowriting
from kohort.kube import errors
from kohort.kube.errors import StatusCause
from kohort.objects.jsontypes import JsonObject

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['apiVersion']}-{v['kind']}-{i}" for i, v in enumerate(VECTORS)])
def test_the_same_bytes(vector: JsonObject) -> None:
    assert protowriting.encode(vector["json"]) == base64.b64decode(vector["protobuf"])


def test_a_status_reads_back_as_it_was() -> None:
    error = errors.failure(
        429, "TooManyRequests", "not now", name="p", kind="pods", causes=[StatusCause("A", "b", "c")], retry_after=300
    )
    document = {"kind": "Status", "apiVersion": "v1", **error.to_json()}
    assert {"metadata": {}, **protobuf.decode(protowriting.encode(document))} == document


def test_what_is_of_no_built_in_kind() -> None:
    with pytest.raises(KeyError):
        protowriting.encode({"kind": "Widget", "apiVersion": "example.com/v1"})
