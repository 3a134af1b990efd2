"""Requests that are cheap to send and should be cheap to answer: every decoder and every walk gets bodies that grow in
one direction. `build(n)` makes a request whose size is proportional to n."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
WIDGETS: Final = "/apis/security.example.com/v1/namespaces/default/widgets"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
VICTIM: Final = f"{CONFIG_MAPS}/victim"
"""A ConfigMap that exists, for patches."""


@dataclass(frozen=True)
class Attack:
    name: str
    size: int
    """The n for a body of some hundred kilobytes."""
    build: Callable[[int], Request]

    def __str__(self) -> str:
        return self.name


def request(method: str, path: str, body: Json, media: str = JSON, query: tuple[tuple[str, str], ...] = ()) -> Request:
    sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Request(method, path, query, {"content-type": media, "user-agent": "tests/1"}, sent)


def post(path: str, body: Json, media: str = JSON, *, dry_run: bool = True, **query: str) -> Request:
    asked = (("dryRun", "All"),) if dry_run else ()
    return request("POST", path, body, media, (*asked, *query.items()))


def patch(body: Json, media: str, path: str = VICTIM, **query: str) -> Request:
    return request("PATCH", path, body, media, (("dryRun", "All"), ("fieldManager", "tests"), *query.items()))


def config_map(**fields: Json) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **fields}


def with_metadata(**metadata: Json) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **metadata}}


def pod(**spec: Json) -> JsonObject:
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers, **spec}}


def widget(**fields: Json) -> JsonObject:
    return {"apiVersion": "security.example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, **fields}


def definition(
    schema: JsonObject, group: str = "other.example.com", plural: str = "things", kind: str = "Thing"
) -> JsonObject:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


WIDGET_DEFINITION: Final = definition(
    {
        "type": "object",
        "properties": {
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "unique": {"type": "array", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                    "required": ["name"],
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "lists": {
                "type": "object",
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
            },
            "small": {"type": "string", "maxLength": 3},
        },
    },
    "security.example.com",
    "widgets",
    "Widget",
)


def owners(n: int, **fields: Json) -> list[Json]:
    return [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}", **fields} for i in range(n)]


def strings(n: int, prefix: str = "k") -> dict[str, Json]:
    return {f"{prefix}{i}": "v" for i in range(n)}


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def protobuf(kind: str, raw: bytes) -> bytes:
    type_meta = message(1, b"v1") + message(2, kind.encode())
    return b"k8s\x00" + message(1, type_meta) + message(2, raw)


def managed(fields: Json) -> list[Json]:
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return [{**entry, "time": "2024-01-01T00:00:00Z"}]


def operations(n: int, **operation: Json) -> list[Json]:
    return [operation] * n


def pod_with(container: JsonObject) -> JsonObject:
    return pod(containers=[{"name": "c", "image": "i", **container}])


GROWING: Final = [
    Attack("json: unknown keys", 20_000, lambda n: post(CONFIG_MAPS, {**config_map(), **strings(n)})),
    Attack(
        "json: unknown keys, strict",
        20_000,
        lambda n: post(CONFIG_MAPS, {**config_map(), **strings(n)}, fieldValidation="Strict"),
    ),
    Attack(
        "json: unknown keys in list items",
        5_000,
        lambda n: post(PODS, pod(containers=[{"name": f"c{i}", "image": "i", "zz": 1} for i in range(n)])),
    ),
    Attack(
        "json: duplicate keys",
        20_000,
        lambda n: post(CONFIG_MAPS, b'{"metadata":{"name":"x"},"data":{' + b",".join([b'"a":"b"'] * n) + b"}}"),
    ),
    Attack(
        "json: duplicate keys below a long key",
        10_000,
        lambda n: post(
            CONFIG_MAPS,
            b'{"metadata":{"name":"x"},"zz":{"' + b"k" * 10 * n + b'":{' + b",".join([b'"a":"b"'] * n) + b"}}}",
        ),
    ),
    Attack(
        "json: duplicate and unknown keys",
        10_000,
        lambda n: post(
            CONFIG_MAPS, b'{"metadata":{"name":"x"},' + b",".join(b'"k%d":{"a":1,"a":2}' % i for i in range(n)) + b"}"
        ),
    ),
    Attack("json: broken at the end", 20_000, lambda n: post(CONFIG_MAPS, b'{"data":{"a":"' + b"x\\n" * n + b'"')),
    Attack(
        "json: spaces",
        200_000,
        lambda n: post(CONFIG_MAPS, b'{"metadata":{"name":"x"' + b" " * n + b"}" + b" " * n + b"}"),
    ),
    Attack(
        "json: quote and spaces",
        100_000,
        lambda n: post(CONFIG_MAPS, b'{"metadata" : {"name":"x"},"data":{"a":"' + b'\\"   ' * n + b'"}}'),
    ),
    Attack("json: wrong types", 5_000, lambda n: post(CONFIG_MAPS, config_map(data=dict.fromkeys(strings(n), 1)))),
    Attack(
        "json: wrong types in structs", 3_000, lambda n: post(PODS, pod(containers=[{"name": 1, "image": "i"}] * n))
    ),
    Attack(
        "json: long integer",
        100_000,
        lambda n: post(
            WIDGETS,
            b'{"apiVersion":"security.example.com/v1","kind":"Widget","metadata":{"name":"x"},"open":{"a":'
            + b"1" * n
            + b"}}",
        ),
    ),
    Attack("json: many values", 100_000, lambda n: post(WIDGETS, widget(open={"a": [0] * n}))),
    Attack("json: wide and legal", 10_000, lambda n: post(CONFIG_MAPS, config_map(data=strings(n)))),
    Attack("metadata: owner references", 2_000, lambda n: post(CONFIG_MAPS, with_metadata(ownerReferences=owners(n)))),
    Attack(
        "metadata: equal owner references",
        2_000,
        lambda n: post(CONFIG_MAPS, with_metadata(ownerReferences=owners(1) * n)),
    ),
    Attack(
        "metadata: controllers",
        2_000,
        lambda n: post(CONFIG_MAPS, with_metadata(ownerReferences=owners(n, controller=True))),
    ),
    Attack("metadata: labels", 10_000, lambda n: post(CONFIG_MAPS, with_metadata(labels=strings(n)))),
    Attack("metadata: bad labels", 10_000, lambda n: post(CONFIG_MAPS, with_metadata(labels=strings(n, "-")))),
    Attack("metadata: annotations", 10_000, lambda n: post(CONFIG_MAPS, with_metadata(annotations=strings(n)))),
    Attack(
        "metadata: finalizers",
        10_000,
        lambda n: post(CONFIG_MAPS, with_metadata(finalizers=[f"example.com/f{i}" for i in range(n)])),
    ),
    Attack(
        "metadata: equal finalizers",
        10_000,
        lambda n: post(CONFIG_MAPS, with_metadata(finalizers=["orphan", "foregroundDeletion"] * n)),
    ),
    Attack("metadata: long name", 100_000, lambda n: post(CONFIG_MAPS, with_metadata(name="a." * n))),
    Attack(
        "metadata: long generateName",
        100_000,
        lambda n: post(CONFIG_MAPS, with_metadata(name="", generateName="a-" * n)),
    ),
    Attack(
        "managedFields: wide",
        10_000,
        lambda n: patch(
            {"metadata": {"managedFields": managed({"f:data": {f"f:{k}": {} for k in strings(n)}})}}, MERGE_PATCH
        ),
    ),
    Attack(
        "managedFields: entries",
        2_000,
        lambda n: patch({"metadata": {"managedFields": managed({"f:data": {}}) * n}}, MERGE_PATCH),
    ),
    Attack(
        "managedFields: keys of lists",
        3_000,
        lambda n: patch(
            {
                "metadata": {
                    "managedFields": managed(
                        {"f:metadata": {"f:ownerReferences": {f'k:{{"uid":"{i}"}}': {} for i in range(n)}}}
                    )
                }
            },
            MERGE_PATCH,
        ),
    ),
    Attack(
        "yaml: wide",
        10_000,
        lambda n: post(
            CONFIG_MAPS, b"metadata: {name: x}\ndata:\n" + b"".join(b"  k%d: v\n" % i for i in range(n)), YAML
        ),
    ),
    Attack(
        "yaml: duplicate keys",
        10_000,
        lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\ndata:\n" + b"  k: v\n" * n, YAML),
    ),
    Attack(
        "yaml: merge keys",
        5_000,
        lambda n: post(
            CONFIG_MAPS, b"metadata: {name: x}\ndata:\n" + b"".join(b"  <<: {k%d: v}\n" % i for i in range(n)), YAML
        ),
    ),
    Attack(
        "yaml: list of merges",
        5_000,
        lambda n: post(
            CONFIG_MAPS,
            b"metadata: {name: x}\ndata:\n  <<: [" + b",".join(b"{k%d: v}" % i for i in range(n)) + b"]\n",
            YAML,
        ),
    ),
    Attack(
        "yaml: anchors",
        5_000,
        lambda n: post(
            CONFIG_MAPS,
            b"metadata: {name: x}\nzz:\n" + b"".join(b"- &a%d v\n- *a%d\n" % (i, i) for i in range(n)),
            YAML,
        ),
    ),
    Attack(
        "yaml: anchor of a long text",
        5_000,
        lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\nzz:\n- &a " + b"v" * n + b"\n" + b"- *a\n" * n, YAML),
    ),
    Attack(
        "yaml: long plain scalar",
        100_000,
        lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\ndata: {a: " + b"v " * n + b"}", YAML),
    ),
    Attack(
        "yaml: long quoted scalar",
        50_000,
        lambda n: post(CONFIG_MAPS, b'metadata: {name: x}\ndata: {a: "' + b"\\n\\\n  " * n + b'"}', YAML),
    ),
    Attack(
        "yaml: long block scalar",
        20_000,
        lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\ndata:\n  a: |\n" + b"    v\n" * n, YAML),
    ),
    Attack("yaml: long number", 100_000, lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\nzz: " + b"1" * n, YAML)),
    Attack(
        "yaml: almost a number",
        100_000,
        lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\nzz: " + b"1_" * n + b"x", YAML),
    ),
    Attack("yaml: comments", 20_000, lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\n" + b"# c\n" * n, YAML)),
    Attack("yaml: documents", 20_000, lambda n: post(CONFIG_MAPS, b"metadata: {name: x}\n" + b"---\na: b\n" * n, YAML)),
    Attack(
        "yaml: tag directives",
        10_000,
        lambda n: post(CONFIG_MAPS, b"".join(b"%%TAG !a%d! x\n" % i for i in range(n)) + b"---\n{}", YAML),
    ),
    Attack(
        "protobuf: map entries",
        10_000,
        lambda n: post(
            CONFIG_MAPS,
            protobuf(
                "ConfigMap",
                message(1, message(1, b"x"))
                + b"".join(message(2, message(1, b"k%d" % i) + message(2, b"v")) for i in range(n)),
            ),
            PROTOBUF,
        ),
    ),
    Attack(
        "protobuf: unknown fields",
        20_000,
        lambda n: post(
            CONFIG_MAPS, protobuf("ConfigMap", message(1, message(1, b"x")) + message(99, b"zz") * n), PROTOBUF
        ),
    ),
    Attack(
        "protobuf: the same field again",
        10_000,
        lambda n: post(
            CONFIG_MAPS,
            protobuf(
                "ConfigMap",
                message(1, message(1, b"x") + message(11, message(1, b"l") + message(2, b"v")) * n)
                + message(1, message(3, b"default")) * n,
            ),
            PROTOBUF,
        ),
    ),
    Attack(
        "json patch: operations",
        5_000,
        lambda n: patch(operations(n, op="test", path="/data/k", value="v"), JSON_PATCH),
    ),
    Attack(
        "json patch: additions to a list",
        5_000,
        lambda n: patch(
            [{"op": "add", "path": "/zz", "value": []}, *operations(n, op="add", path="/zz/0", value=1)], JSON_PATCH
        ),
    ),
    Attack(
        "json patch: copies",
        2_000,
        lambda n: patch(
            [
                {"op": "add", "path": "/data/big", "value": "v" * n},
                *[{"op": "copy", "from": "/data/big", "path": f"/data/c{i}"} for i in range(n)],
            ],
            JSON_PATCH,
        ),
    ),
    Attack(
        "json patch: long pointer",
        50_000,
        lambda n: patch([{"op": "add", "path": "/data" * n, "value": 1}], JSON_PATCH),
    ),
    Attack("merge patch: wide", 10_000, lambda n: patch({"data": strings(n)}, MERGE_PATCH)),
    Attack("merge patch: nulls", 10_000, lambda n: patch({"data": dict.fromkeys(strings(n))}, MERGE_PATCH)),
    Attack("strategic: wide", 10_000, lambda n: patch({"data": strings(n)}, STRATEGIC)),
    Attack("strategic: list by key", 1_500, lambda n: patch({"metadata": {"ownerReferences": owners(n)}}, STRATEGIC)),
    Attack(
        "strategic: deletions by key",
        1_500,
        lambda n: patch(
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": f"u{i}"} for i in range(n)]}}, STRATEGIC
        ),
    ),
    Attack(
        "strategic: list of scalars",
        3_000,
        lambda n: patch({"metadata": {"finalizers": [f"example.com/f{i}" for i in range(n)]}}, STRATEGIC),
    ),
    Attack(
        "strategic: element order",
        3_000,
        lambda n: patch(
            {
                "metadata": {
                    "$setElementOrder/finalizers": [f"example.com/f{i}" for i in range(n)],
                    "finalizers": [f"example.com/f{i}" for i in range(n)],
                }
            },
            STRATEGIC,
        ),
    ),
    Attack(
        "strategic: deletions from a primitive list",
        3_000,
        lambda n: patch(
            {
                "metadata": {
                    "$deleteFromPrimitiveList/finalizers": [f"example.com/f{i}" for i in range(n)],
                    "finalizers": [f"example.com/f{i}" for i in range(n)],
                }
            },
            STRATEGIC,
        ),
    ),
    Attack(
        "strategic: retained keys",
        5_000,
        lambda n: patch({"data": {"$retainKeys": list(strings(n)), **strings(n)}}, STRATEGIC),
    ),
    Attack(
        "apply: wide",
        10_000,
        lambda n: patch(config_map(data=strings(n)) | {"metadata": {"name": "victim"}}, APPLY, force="true"),
    ),
    Attack(
        "apply: yaml",
        10_000,
        lambda n: patch(
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: victim}\ndata:\n"
            + b"".join(b"  k%d: v\n" % i for i in range(n)),
            APPLY,
            force="true",
        ),
    ),
    Attack(
        "apply: list by key",
        1_500,
        lambda n: patch(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim", "ownerReferences": owners(n)}},
            APPLY,
            force="true",
        ),
    ),
    Attack(
        "apply: equal items of a set",
        3_000,
        lambda n: patch(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "victim", "finalizers": ["example.com/f"] * n},
            },
            APPLY,
            force="true",
        ),
    ),
    Attack(
        "pod: containers",
        300,
        lambda n: post(PODS, pod(containers=[{"name": f"c{i}", "image": "i"} for i in range(n)])),
    ),
    Attack(
        "pod: equal containers",
        300,
        lambda n: post(PODS, pod(containers=[{"name": "c", "image": "i"} for i in range(n)])),
    ),
    Attack(
        "pod: environment",
        5_000,
        lambda n: post(PODS, pod_with({"env": [{"name": f"E{i}", "value": "v"} for i in range(n)]})),
    ),
    Attack(
        "pod: ports",
        3_000,
        lambda n: post(
            PODS, pod_with({"ports": [{"name": f"p{i}", "containerPort": i + 1, "hostPort": i + 1} for i in range(n)]})
        ),
    ),
    Attack(
        "pod: volumes and mounts",
        1_000,
        lambda n: post(
            PODS,
            {
                **pod_with({"volumeMounts": [{"name": f"v{i}", "mountPath": f"/m{i}"} for i in range(n)]}),
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "volumeMounts": [{"name": f"v{i}", "mountPath": f"/m{i}"} for i in range(n)],
                        }
                    ],
                    "volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(n)],
                },
            },
        ),
    ),
    Attack(
        "pod: tolerations",
        2_000,
        lambda n: post(PODS, pod(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(n)])),
    ),
    Attack(
        "pod: spread constraints",
        500,
        lambda n: post(
            PODS,
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
                    for i in range(n)
                ]
            ),
        ),
    ),
    Attack(
        "pod: affinity terms",
        1_000,
        lambda n: post(
            PODS,
            pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": f"k{i}", "operator": "In", "values": ["a", "b"]}]}
                                for i in range(n)
                            ]
                        }
                    }
                }
            ),
        ),
    ),
    Attack(
        "pod: scheduling gates", 2_000, lambda n: post(PODS, pod(schedulingGates=[{"name": f"g{i}"} for i in range(n)]))
    ),
    Attack(
        "pod: host aliases",
        2_000,
        lambda n: post(PODS, pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": [f"h{i}"]} for i in range(n)])),
    ),
    Attack(
        "pod: readiness gates",
        2_000,
        lambda n: post(PODS, pod(readinessGates=[{"conditionType": f"g{i}"} for i in range(n)])),
    ),
    Attack(
        "pod: image pull secrets",
        2_000,
        lambda n: post(PODS, pod(imagePullSecrets=[{"name": f"s{i}"} for i in range(n)])),
    ),
    Attack("pod: long quantity", 50_000, lambda n: post(PODS, pod_with({"resources": {"limits": {"cpu": "1" * n}}}))),
    Attack(
        "pod: quantity of exponents",
        6,
        lambda n: post(PODS, pod_with({"resources": {"limits": {"cpu": "1e" + "9" * n}}})),
    ),
    Attack(
        "service: ports",
        1_000,
        lambda n: post(
            "/api/v1/namespaces/default/services",
            {"metadata": {"name": "x"}, "spec": {"ports": [{"name": f"p{i}", "port": i + 1} for i in range(n)]}},
        ),
    ),
    Attack(
        "endpoint slice: addresses",
        900,
        lambda n: post(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {
                "metadata": {"name": "x"},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [f"10.0.{i // 256}.{i % 256}"]} for i in range(n)],
            },
        ),
    ),
    Attack(
        "role: rules",
        1_000,
        lambda n: post(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {
                "metadata": {"name": "x"},
                "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{i}"]} for i in range(n)],
            },
        ),
    ),
    Attack(
        "role: one rule of many words",
        3_000,
        lambda n: post(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {
                "metadata": {"name": "x"},
                "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{i}" for i in range(n)]}],
            },
        ),
    ),
    Attack(
        "binding: subjects",
        3_000,
        lambda n: post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": "x"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"u{i}"} for i in range(n)
                ],
            },
        ),
    ),
    Attack(
        "network policy: rules",
        1_000,
        lambda n: post(
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            {
                "metadata": {"name": "x"},
                "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": i + 1}]} for i in range(n)]},
            },
        ),
    ),
    Attack(
        "ingress: paths",
        1_000,
        lambda n: post(
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            {
                "metadata": {"name": "x"},
                "spec": {
                    "rules": [
                        {
                            "host": f"h{i}.example.com",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                    }
                                ]
                            },
                        }
                        for i in range(n)
                    ]
                },
            },
        ),
    ),
    Attack(
        "webhooks: entries",
        500,
        lambda n: post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "metadata": {"name": "x"},
                "webhooks": [
                    {
                        "name": f"w{i}.example.com",
                        "clientConfig": {"url": "https://127.0.0.1:1/"},
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                    }
                    for i in range(n)
                ],
            },
        ),
    ),
    Attack(
        "workload: conditions of a status",
        2_000,
        lambda n: post(
            "/apis/apps/v1/namespaces/default/deployments",
            {
                "metadata": {"name": "x"},
                "spec": {
                    "selector": {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]},
                    "template": {
                        "metadata": {"labels": strings(n)},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
        ),
    ),
    Attack(
        "signing request: usages",
        3_000,
        lambda n: post(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            {
                "metadata": {"name": "x"},
                "spec": {
                    "signerName": "example.com/s",
                    "request": base64.b64encode(b"x").decode(),
                    "usages": [f"u{i}" for i in range(n)],
                },
            },
        ),
    ),
    Attack("custom: unknown keys", 10_000, lambda n: post(WIDGETS, {**widget(), **strings(n)})),
    Attack(
        "custom: unknown keys below a long key",
        3_000,
        lambda n: post(WIDGETS, widget(lists={"k" * 20 * n: [{"zz": 1} for _ in range(n)]})),
    ),
    Attack("custom: set", 3_000, lambda n: post(WIDGETS, widget(set=list(strings(n))))),
    Attack(
        "custom: map list",
        3_000,
        lambda n: post(WIDGETS, widget(map=[{"name": f"k{i}", "value": "v"} for i in range(n)])),
    ),
    Attack(
        "custom: equal keys in a map list",
        3_000,
        lambda n: post(WIDGETS, widget(map=[{"name": "k", "value": "v"} for i in range(n)])),
    ),
    Attack("custom: wrong items", 3_000, lambda n: post(WIDGETS, widget(numbers=["x"] * n))),
    Attack("custom: long text", 100_000, lambda n: post(WIDGETS, widget(small="x" * n))),
    Attack(
        "definition: properties",
        500,
        lambda n: post(
            DEFINITIONS, definition({"type": "object", "properties": {k: {"type": "string"} for k in strings(n)}})
        ),
    ),
    Attack(
        "definition: enumeration",
        3_000,
        lambda n: post(
            DEFINITIONS,
            definition({"type": "object", "properties": {"a": {"type": "string", "enum": list(strings(n))}}}),
        ),
    ),
    Attack(
        "definition: required",
        3_000,
        lambda n: post(
            DEFINITIONS,
            definition(
                {
                    "type": "object",
                    "required": list(strings(n)),
                    "properties": {k: {"type": "string"} for k in strings(n)},
                }
            ),
        ),
    ),
    Attack(
        "definition: alternatives",
        500,
        lambda n: post(
            DEFINITIONS,
            definition(
                {
                    "type": "object",
                    "properties": {"a": {"type": "string", "anyOf": [{"minLength": i} for i in range(n)]}},
                }
            ),
        ),
    ),
    Attack(
        "definition: validations",
        100,
        lambda n: post(
            DEFINITIONS,
            definition(
                {
                    "type": "object",
                    "x-kubernetes-validations": [{"rule": f"has(self.metadata.name) && {i} == {i}"} for i in range(n)],
                }
            ),
        ),
    ),
    Attack(
        "definition: long expression",
        500,
        lambda n: post(
            DEFINITIONS,
            definition({"type": "object", "x-kubernetes-validations": [{"rule": " || ".join(["1 == 1"] * n)}]}),
        ),
    ),
    Attack(
        "definition: list in an expression",
        500,
        lambda n: post(
            DEFINITIONS,
            definition({"type": "object", "x-kubernetes-validations": [{"rule": f"1 in [{', '.join(['1'] * n)}]"}]}),
        ),
    ),
    Attack(
        "definition: long text in an expression",
        10_000,
        lambda n: post(
            DEFINITIONS, definition({"type": "object", "x-kubernetes-validations": [{"rule": f"'{'x' * n}' == ''"}]})
        ),
    ),
    Attack(
        "definition: long pattern",
        1_000,
        lambda n: post(
            DEFINITIONS, definition({"type": "object", "properties": {"a": {"type": "string", "pattern": "a?" * n}}})
        ),
    ),
    Attack("definition: printer columns", 300, lambda n: post(DEFINITIONS, _columns(n))),
    Attack("definition: versions", 200, lambda n: post(DEFINITIONS, _versions(n))),
    Attack(
        "labels: many terms",
        5_000,
        lambda n: Request("GET", CONFIG_MAPS, (("labelSelector", ",".join(f"k{i}=v" for i in range(n))),), {}),
    ),
    Attack(
        "labels: many values",
        5_000,
        lambda n: Request("GET", CONFIG_MAPS, (("labelSelector", f"k in ({','.join(strings(n))})"),), {}),
    ),
    Attack(
        "labels: broken", 50_000, lambda n: Request("GET", CONFIG_MAPS, (("labelSelector", "k in (" + "a" * n),), {})
    ),
    Attack(
        "labels: spaces", 50_000, lambda n: Request("GET", CONFIG_MAPS, (("labelSelector", "k" + " " * n + "=v"),), {})
    ),
    Attack("labels: brackets", 50_000, lambda n: Request("GET", CONFIG_MAPS, (("labelSelector", "(" * n),), {})),
    Attack(
        "fields: many terms",
        5_000,
        lambda n: Request("GET", CONFIG_MAPS, (("fieldSelector", ",".join(["metadata.name!=a"] * n)),), {}),
    ),
    Attack(
        "fields: escapes",
        50_000,
        lambda n: Request("GET", CONFIG_MAPS, (("fieldSelector", "metadata.name=" + "\\\\" * n),), {}),
    ),
    Attack(
        "continue token",
        50_000,
        lambda n: Request(
            "GET",
            CONFIG_MAPS,
            (("continue", base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","start":"' + b"x" * n + b'"}').decode()),),
            {},
        ),
    ),
    Attack("path: segments", 20_000, lambda n: Request("GET", "/api/v1/namespaces/default/pods" + "/a" * n, (), {})),
    Attack(
        "accept: clauses",
        5_000,
        lambda n: Request("GET", CONFIG_MAPS, (), {"accept": ",".join(["application/x;q=0.1"] * n)}),
    ),
    Attack(
        "impersonation: groups",
        3_000,
        lambda n: Request("GET", CONFIG_MAPS, (), {"impersonate-user": "u", "impersonate-group": ",".join(["g"] * n)}),
    ),
    Attack(
        "table",
        5_000,
        lambda n: Request(
            "POST",
            CONFIG_MAPS,
            (("dryRun", "All"),),
            {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io", "content-type": JSON},
            msgspec.json.encode(config_map(data=strings(n))),
        ),
    ),
    Attack(
        "review: long names",
        50_000,
        lambda n: post(REVIEWS, {"spec": {"resourceAttributes": {"verb": "v" * n, "resource": "r" * n}}}),
    ),
    Attack(
        "review: selector requirements",
        3_000,
        lambda n: post(
            REVIEWS,
            {
                "spec": {
                    "resourceAttributes": {
                        "verb": "list",
                        "resource": "pods",
                        "labelSelector": {"requirements": [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]},
                    }
                }
            },
        ),
    ),
    Attack(
        "delete options",
        20_000,
        lambda n: request(
            "DELETE", VICTIM, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"], **strings(n)}
        ),
    ),
]


def _columns(n: int) -> JsonObject:
    document = definition({"type": "object"})
    columns = [{"name": f"c{i}", "type": "string", "jsonPath": f".spec.a{i}"} for i in range(n)]
    document["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    return document


def _versions(n: int) -> JsonObject:
    document = definition({"type": "object"})
    first = document["spec"]["versions"][0]
    document["spec"]["versions"] = [{**first, "name": f"v{i + 1}", "storage": i == 0} for i in range(n)]
    return document


def nested_json(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def nested_objects(depth: int, key: bytes = b"a") -> bytes:
    return (b'{"' + key + b'":') * depth + b"{}" + b"}" * depth


def config_map_text(zz: bytes) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"zz":' + zz + b"}"


def widget_text(value: bytes) -> bytes:
    head = b'{"apiVersion":"security.example.com/v1","kind":"Widget","metadata":{"name":"x"},"open":'
    return head + value + b"}"


def definition_text(schema: bytes) -> bytes:
    text = msgspec.json.encode(definition({"type": "object", "properties": {"a": "HERE"}}))
    return text.replace(b'"HERE"', schema)


def nested_schema(depth: int, word: bytes) -> bytes:
    opening = {
        b"properties": b'{"type":"object","properties":{"a":',
        b"items": b'{"type":"array","items":',
        b"not": b'{"type":"object","not":',
        b"allOf": b'{"type":"object","allOf":[',
        b"additionalProperties": b'{"type":"object","additionalProperties":',
    }[word]
    closing = {b"properties": b"}}", b"allOf": b"]}"}.get(word, b"}")
    return opening * depth + b'{"type":"string"}' + closing * depth


def rule(expression: str) -> JsonObject:
    return definition({"type": "object", "x-kubernetes-validations": [{"rule": expression}]})


def nested_protobuf(depth: int) -> bytes:
    """A schema whose `not` is a schema, and so on."""
    schema = b""
    for _ in range(depth):
        schema = message(28, schema)
    version = message(1, b"v1") + message(4, message(1, schema))
    raw = message(1, message(1, b"x")) + message(2, message(7, version))
    meta = message(1, b"apiextensions.k8s.io/v1") + message(2, b"CustomResourceDefinition")
    return b"k8s\x00" + message(1, meta) + message(2, raw)


def doubling(depth: int, field: str = "/zz") -> list[Json]:
    """Operations that copy an object into itself until it is as deep as wanted."""
    operations: list[Json] = [{"op": "add", "path": field, "value": {"a": {}}}]
    reached, path = 1, f"{field}/a"
    while reached < min(depth, 5000):
        operations.append({"op": "copy", "from": field, "path": f"{path}/a"})
        path += "/a" * (reached + 1)
        reached = 2 * reached + 1
    return operations


def _nested_definition(word: bytes) -> Attack:
    return Attack(
        f"definition: {word.decode()}", 0, lambda n: post(DEFINITIONS, definition_text(nested_schema(n, word)))
    )


NESTED: Final = [
    Attack("json: lists", 0, lambda n: post(CONFIG_MAPS, config_map_text(nested_json(n)))),
    Attack("json: objects", 0, lambda n: post(CONFIG_MAPS, config_map_text(nested_objects(n)))),
    Attack(
        "json: duplicate keys", 0, lambda n: post(CONFIG_MAPS, config_map_text(b'{"a":1,"a":' + nested_json(n) + b"}"))
    ),
    Attack("json: not closed", 0, lambda n: post(CONFIG_MAPS, config_map_text(b"[" * n))),
    Attack("json: broken inside", 0, lambda n: post(CONFIG_MAPS, config_map_text(b"[" * n + b"x" + b"]" * n))),
    Attack("json: the body itself", 0, lambda n: post(CONFIG_MAPS, nested_json(n))),
    Attack(
        "json: managed fields",
        0,
        lambda n: patch(
            b'{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":'
            + nested_objects(n, b"f:a")
            + b"}]}}",
            MERGE_PATCH,
        ),
    ),
    Attack("custom: open field", 0, lambda n: post(WIDGETS, widget_text(nested_objects(n)))),
    Attack("custom: open lists", 0, lambda n: post(WIDGETS, widget_text(b'{"a":' + nested_json(n) + b"}"))),
    Attack("custom: apply", 0, lambda n: patch(widget_text(nested_objects(n)), APPLY, f"{WIDGETS}/x", force="true")),
    Attack("yaml: flow lists", 0, lambda n: post(CONFIG_MAPS, b"a: " + nested_json(n), YAML)),
    Attack("yaml: flow lists not closed", 0, lambda n: post(REVIEWS, b"a: " + b"[" * n, YAML)),
    Attack("yaml: flow maps", 0, lambda n: post(CONFIG_MAPS, b"{a: " * n + b"}" * n, YAML)),
    Attack("yaml: maps as keys", 0, lambda n: post(CONFIG_MAPS, b"{" * max(n, 500) + b"}" * max(n, 500), YAML)),
    Attack("yaml: block lists", 0, lambda n: post(CONFIG_MAPS, b"a:\n" + b"- " * n + b"x", YAML)),
    Attack(
        "yaml: block maps",
        0,
        lambda n: post(CONFIG_MAPS, b"".join(b" " * i + b"a:\n" for i in range(min(n, 1500))), YAML),
    ),
    Attack(
        "yaml: anchors in anchors",
        0,
        lambda n: post(
            CONFIG_MAPS, b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (i, i, i - 1) for i in range(1, n)), YAML
        ),
    ),
    Attack("yaml: apply", 0, lambda n: patch(b"a: " + b"[" * n, APPLY)),
    Attack("protobuf: schemas", 0, lambda n: post(DEFINITIONS, nested_protobuf(min(n, 3000)), PROTOBUF)),
    Attack("merge patch", 0, lambda n: patch(nested_objects(n), MERGE_PATCH)),
    Attack(
        "merge patch: custom",
        0,
        lambda n: patch(nested_objects(n), MERGE_PATCH, DEFINITIONS + "/widgets.security.example.com"),
    ),
    Attack("strategic", 0, lambda n: patch(nested_objects(n), STRATEGIC)),
    Attack("strategic: directives", 0, lambda n: patch(nested_objects(n, b"$patch"), STRATEGIC)),
    Attack(
        "json patch: value",
        0,
        lambda n: patch(b'[{"op":"add","path":"/zz","value":' + nested_objects(n) + b"}]", JSON_PATCH),
    ),
    Attack("json patch: copies into itself", 0, lambda n: patch(doubling(n), JSON_PATCH)),
    Attack(
        "json patch: pointer",
        0,
        lambda n: patch([{"op": "add", "path": "/data" + "/a" * max(n, 2), "value": 1}], JSON_PATCH),
    ),
    Attack(
        "delete options", 0, lambda n: request("DELETE", VICTIM, b'{"zz":' + nested_json(n) + b',"dryRun":["All"]}')
    ),
    *[_nested_definition(word) for word in (b"properties", b"items", b"not", b"allOf", b"additionalProperties")],
    Attack(
        "definition: default",
        0,
        lambda n: post(
            DEFINITIONS,
            definition_text(
                b'{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":' + nested_objects(n) + b"}"
            ),
        ),
    ),
    Attack(
        "definition: enumeration",
        0,
        lambda n: post(DEFINITIONS, definition_text(b'{"enum":[' + nested_json(n) + b"]}")),
    ),
    Attack("expression: brackets", 0, lambda n: post(DEFINITIONS, rule("(" * n + "1" + ")" * n + " == 1"))),
    Attack("expression: lists", 0, lambda n: post(DEFINITIONS, rule("[" * n + "]" * n + " == []"))),
    Attack("expression: maps", 0, lambda n: post(DEFINITIONS, rule("{'a':" * n + "1" + "}" * n + " == {}"))),
    Attack("expression: negations", 0, lambda n: post(DEFINITIONS, rule("!" * n + "true"))),
    Attack("expression: signs", 0, lambda n: post(DEFINITIONS, rule("-" * n + "1 == 1"))),
    Attack("expression: conditions", 0, lambda n: post(DEFINITIONS, rule("true ? " * n + "true" + " : true" * n))),
    Attack("expression: sums", 0, lambda n: post(DEFINITIONS, rule("1" + " + 1" * n + " == 1"))),
    Attack("expression: alternatives", 0, lambda n: post(DEFINITIONS, rule("true" + " || true" * n))),
    Attack("expression: selections", 0, lambda n: post(DEFINITIONS, rule("self" + ".a" * n + " == 1"))),
    Attack("expression: indexes", 0, lambda n: post(DEFINITIONS, rule("self" + "[0]" * n + " == 1"))),
    Attack("expression: calls", 0, lambda n: post(DEFINITIONS, rule("size(" * n + "'a'" + ")" * n + " == 1"))),
    Attack("expression: method calls", 0, lambda n: post(DEFINITIONS, rule("'a'" + ".trim()" * n + " == 'a'"))),
    Attack("expression: macros", 0, lambda n: post(DEFINITIONS, rule("[1].all(x, " * n + "true" + ")" * n))),
    Attack(
        "definition: pattern",
        0,
        lambda n: post(DEFINITIONS, definition_text(b'{"type":"string","pattern":"' + b"(" * n + b")" * n + b'"}')),
    ),
    Attack("definition: printer column", 0, lambda n: post(DEFINITIONS, _column(".spec" + ".a" * n))),
    Attack(
        "definition: printer column filters", 0, lambda n: post(DEFINITIONS, _column(".spec" + "[?(@.a" * n + ")]" * n))
    ),
]


def _column(path: str) -> JsonObject:
    document = definition({"type": "object"})
    document["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "c", "type": "string", "jsonPath": path}]
    return document
