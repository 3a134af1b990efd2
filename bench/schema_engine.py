"""What the schema engine costs per object: decoding, conforming, protobuf, custom resources.

    python -m bench.schema_engine

The pod is a realistic one of about 6 KB. Figures are CPU time per operation, the best of several runs.
"""

import base64
import copy
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.decode import complete, conform, decode_body
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.protobuf_decode import decode as decode_protobuf
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.validate import validate
from kohort.objects.json_types import Json, JsonObject

VECTORS = Path(__file__).parent.parent / "tests/cluster/apiserver/schema/vectors.json"


def container(name: str) -> JsonObject:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:v1.2.3",
        "command": ["/bin/server", "--config=/etc/config/server.yaml"],
        "args": ["--port=8080", "--log-level=info", "--shards=4"],
        "ports": [
            {"containerPort": 8080, "name": "http", "protocol": "TCP"},
            {"containerPort": 9090, "name": "metrics"},
        ],
        "env": [
            *({"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(8)),
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "credentials", "key": "token"}}},
        ],
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "8"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config", "readOnly": True},
            {"name": "data", "mountPath": "/var/lib/data"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "initialDelaySeconds": 5},
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
    }


def pod_spec() -> JsonObject:
    return {
        "serviceAccountName": "server",
        "terminationGracePeriodSeconds": 60,
        "containers": [container("server"), container("sidecar")],
        "initContainers": [container("prepare")],
        "volumes": [
            {"name": "config", "configMap": {"name": "server-config"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-server-0"}},
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["server"]}]},
                        "topologyKey": "topology.kubernetes.io/zone",
                    }
                ]
            }
        },
    }


def pod() -> JsonObject:
    labels = {f"example.com/label-{i}": f"value-{i}" for i in range(8)}
    metadata = {"name": "server-0", "namespace": "default", "labels": labels, "annotations": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()}


def schema_of(value: Json) -> JsonObject:
    """A structural schema that fits a value."""
    match value:
        case dict():
            return {"type": "object", "properties": {key: schema_of(inner) for key, inner in value.items()}}
        case list():
            merged: JsonObject = {}
            for item in value:
                merged = schema_of(item) if not merged else merge(merged, schema_of(item))
            return {"type": "array", "items": merged or {"type": "string"}}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer", "format": "int32", "minimum": 0}
    return {"type": "string", "maxLength": 1000}


def merge(one: JsonObject, other: JsonObject) -> JsonObject:
    if "properties" not in one or "properties" not in other:
        return one
    properties = {**other["properties"], **one["properties"]}
    for key in one["properties"].keys() & other["properties"].keys():
        properties[key] = merge(one["properties"][key], other["properties"][key])
    return {**one, "properties": properties}


def measure(label: str, run: Callable[[Json], object], make: Callable[[], Json]) -> None:
    """The best of seven batches; making the input is not counted."""
    best = float("inf")
    for _ in range(7):
        inputs = [make() for _ in range(200)]
        start = time.process_time()
        for item in inputs:
            run(item)
        best = min(best, (time.process_time() - start) / len(inputs))
    print(f"{label:44} {best * 1e6:8.1f} µs")


def main() -> None:
    node = kind_node("", "v1", "Pod")
    body = msgspec.json.encode(pod())
    spaced = json.dumps(pod()).encode()
    print(f"Python {sys.version.split()[0]}, pod of {len(body)} bytes")
    measure("JSON only (msgspec)", msgspec.json.decode, lambda: body)
    measure("decode_body, compact JSON", lambda text: decode_body(text, "application/json"), lambda: body)
    measure("decode_body, spaced JSON", lambda text: decode_body(text, "application/json"), lambda: spaced)
    measure("conform", lambda obj: conform(obj, node), pod)

    def conformed() -> JsonObject:
        obj = pod()
        conform(obj, node)
        return obj

    measure("complete", lambda obj: complete(obj, node), conformed)

    vectors = {vector["kind"]: base64.b64decode(vector["protobuf"]) for vector in json.loads(VECTORS.read_text())}
    for kind in ("Pod", "StatefulSet"):
        wire = vectors[kind]
        measure(f"protobuf, {kind} of {len(wire)} bytes", decode_protobuf, partial(bytes, wire))

    custom = {**pod(), "apiVersion": "example.com/v1", "kind": "Server"}
    schema = schema_of(custom)
    crd = compile_crd_schema(schema)
    measure("custom resource: conform", lambda obj: conform(obj, crd), lambda: copy.deepcopy(custom))
    measure("custom resource: defaults", lambda obj: apply_defaults(obj, crd), lambda: copy.deepcopy(custom))
    measure("custom resource: validate", lambda obj: validate(obj, crd), lambda: copy.deepcopy(custom))


if __name__ == "__main__":
    main()
