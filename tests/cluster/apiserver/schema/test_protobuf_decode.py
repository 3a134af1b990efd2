"""Protobuf bodies that Go encoded, against the JSON that Go wrote for the same objects.

`vectors.json` is made by `tools/schemas/vectors`: objects of every kind with random contents.
"""

import base64
import json
from pathlib import Path

import pytest

from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.decode import complete, conform, decode_body
from kohort.cluster.apiserver.schema.protobuf_decode import MAGIC, decode
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())
KUBECTL = json.loads(Path(__file__).with_name("vectors_kubectl.json").read_text())
"""What kubectl 1.36.4 sent for a command, and what it printed for the same command with `--dry-run=client -o json` (the
last three have no dry run: their objects are written from the command)."""


def completed(obj: JsonObject) -> JsonObject:
    group, _, version = obj["apiVersion"].rpartition("/")
    node = kind_node(group, version, obj["kind"])
    assert conform(obj, node) == []
    complete(obj, node)
    return obj


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['apiVersion']}-{v['kind']}-{i}" for i, v in enumerate(VECTORS)])
def test_a_protobuf_body_gives_the_object_of_its_json(vector: JsonObject) -> None:
    from_protobuf = completed(decode(base64.b64decode(vector["protobuf"])))
    assert from_protobuf == vector["json"]


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['apiVersion']}-{v['kind']}-{i}" for i, v in enumerate(VECTORS)])
def test_a_round_trip_changes_nothing_that_go_wrote(vector: JsonObject) -> None:
    obj = json.loads(json.dumps(vector["json"]))
    assert completed(obj) == vector["json"]


@pytest.mark.parametrize("vector", KUBECTL, ids=lambda vector: vector["command"])
def test_what_kubectl_sends_is_what_it_says_it_would_send(vector: JsonObject) -> None:
    assert completed(decode(base64.b64decode(vector["protobuf"]))) == completed(vector["json"])


def test_unknown_field_numbers_are_ignored() -> None:
    namespace = b"\x0a\x06\x0a\x04name" + b"\xfa\x3f\x03abc" + b"\xf8\x3f\x01" + b"\xf1\x3f12345678"
    assert decode(envelope("v1", "Namespace", namespace)) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "name"},
    }


def test_the_zero_of_a_pointer_is_kept_and_that_of_a_value_is_not() -> None:
    # DeploymentSpec: replicas is field 1 and a pointer, minReadySeconds is field 5 and a value
    assert decode(envelope("apps/v1", "Deployment", b"\x12\x04\x08\x00\x28\x00"))["spec"] == {"replicas": 0}


def test_a_negative_number_uses_ten_bytes() -> None:
    minus_one = b"\xff" * 9 + b"\x01"
    obj = decode(envelope("scheduling.k8s.io/v1", "PriorityClass", b"\x10" + minus_one))
    assert obj["value"] == -1


def test_delete_options_come_in_the_version_of_any_group() -> None:
    for api_version in ("v1", "apps/v1", "meta.k8s.io/v1", "coordination.k8s.io/v1"):
        assert decode(envelope(api_version, "DeleteOptions", b"\x08\x00"))["gracePeriodSeconds"] == 0


@pytest.mark.parametrize("cut", range(5, 60, 5))
def test_a_truncated_body_is_a_bad_request(cut: int) -> None:
    body = base64.b64decode(next(v["protobuf"] for v in VECTORS if v["kind"] == "StatefulSet"))
    with pytest.raises(ApiError) as refused:
        decode(body[:-cut])
    assert refused.value.code == 400


@pytest.mark.parametrize("body", [b"", b"{}", MAGIC, MAGIC + b"\x0a\xff", MAGIC + b"\xff" * 20], ids=repr)
def test_what_is_not_protobuf_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(body, "application/vnd.kubernetes.protobuf")
    assert refused.value.code == 400


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)
