"""Whatever is sent: an answer that says what is wrong, never a crash, and nothing stored that was refused.

Valid objects of all kinds are damaged at random, in bodies and in every kind of patch, and sent with odd parameters and
headers. The seeds are fixed, so a failure can be had again.
"""

import copy
import random
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
from tests.cluster.apiserver.kinds.specimens import SPECIMENS

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

ODD: Final[tuple[Json, ...]] = (
    None, True, 0, -1, 1.5, 1e308, 10**30, -(2**63), "", " ", "x", "a" * 300, "\x00", "é", "../..", [], {}, [None],
    [[]], [{}], {"": ""}, {"a": None}, {"$patch": "delete"}, {"$patch": 5}, {"$retainKeys": 5}, [1, "a", None], "1Gi",
    "50%", "2024-01-01T00:00:00Z", "10.0.0.1", {"name": 1}, [{"name": "c"}, {"name": "c"}],
)  # fmt: skip
NAMES: Final = ("zz", "", "$patch", "$retainKeys", "metadata", "spec", "status", "kind", "apiVersion")
PARAMETERS: Final = (
    "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "timeoutSeconds",
    "dryRun", "fieldValidation", "force", "pretty", "gracePeriodSeconds", "propagationPolicy", "sendInitialEvents",
    "includeObject",
)  # fmt: skip
VALUES: Final = ("", "0", "-1", "99999999999999999999", "abc", "true", "a in (b", "metadata.name=x", "é", "\x00", "All")
HEADERS: Final = ("accept", "impersonate-user", "impersonate-extra-x", "if-none-match")
HEADER_VALUES: Final = ("", "garbage", "a;b;c=;;", "a" * 500, "application/yaml", ",,,", "application/json;as=Table")
PATCHES: Final = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
DEFINITION: Final[JsonObject] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ws.w.example.com"},
    "spec": {
        "group": "w.example.com",
        "scope": "Namespaced",
        "names": {"plural": "ws", "kind": "W"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "a": {"type": "integer", "default": 3},
                                    "m": {
                                        "type": "object",
                                        "maxProperties": 5,
                                        "additionalProperties": {"type": "string", "maxLength": 5},
                                        "x-kubernetes-validations": [{"rule": "self.all(k, self[k] != 'x')"}],
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
CUSTOM: Final[JsonObject] = {
    "apiVersion": "w.example.com/v1",
    "kind": "W",
    "metadata": {"name": "w"},
    "spec": {"a": 5, "m": {"k": "v"}},
}
TARGETS: Final = [
    *((specimen.collection, specimen.object) for specimen in SPECIMENS),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
    *[("/apis/w.example.com/v1/namespaces/d/ws", CUSTOM)] * 5,
]


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def damaged(chance: random.Random, obj: JsonObject) -> Json:
    obj = copy.deepcopy(obj)
    for _ in range(chance.randint(1, 4)):
        path = chance.choice(list(places(obj)) or [("",)])
        holder: Json = obj
        for key in path[:-1]:
            holder = holder[key]
        odd = copy.deepcopy(chance.choice(ODD))
        match chance.randrange(4):
            case 0 if isinstance(holder, dict):
                holder.pop(path[-1], None)
            case 1 if isinstance(holder, dict):
                holder[chance.choice(NAMES)] = odd
            case 2 if isinstance(holder, dict):
                holder[f"$setElementOrder/{path[-1]}"] = odd
            case _:
                holder[path[-1]] = odd
    return obj


def operations(chance: random.Random, obj: JsonObject) -> list[Json]:
    paths = ["", *("/" + "/".join(map(str, path)) for path in places(obj))]
    kinds = ("add", "remove", "replace", "move", "copy", "test", "zz")
    return [
        {"op": chance.choice(kinds), "path": chance.choice(paths), "from": chance.choice(paths), "value": odd}
        for odd in chance.sample(ODD, chance.randint(1, 3))
    ]


def request(chance: random.Random) -> Request:
    collection, obj = chance.choice(TARGETS)
    name = f"{collection}/{obj['metadata']['name']}"
    parameters = [(chance.choice(PARAMETERS), chance.choice(VALUES)) for _ in range(chance.choice((0, 0, 1, 2)))]
    headers = {"content-type": "application/json", "user-agent": "tests/1"}
    if chance.random() < 0.2:
        headers[chance.choice(HEADERS)] = chance.choice(HEADER_VALUES)
    method, path, body = "POST", collection, msgspec.json.encode(damaged(chance, obj))
    match chance.randrange(5):
        case 0:
            method, path = "PUT", name + chance.choice(("", "/status", "/scale"))
        case 1 | 2:
            kind = chance.choice(PATCHES)
            headers["content-type"] = f"application/{kind}"
            parameters.append(("fieldManager", "tests"))
            method, path = "PATCH", name + chance.choice(("", "/status"))
            if kind == "json-patch+json":
                body = msgspec.json.encode(operations(chance, obj))
        case 3:
            garbage = bytearray(body)
            for _ in range(5):
                garbage[chance.randrange(len(garbage))] = chance.randrange(256)
            media = chance.choice(("json", "yaml", "vnd.kubernetes.protobuf"))
            headers["content-type"] = f"application/{media}"
            body = b"k8s\x00" * media.endswith("protobuf") + bytes(garbage)
    return Request(method, path, tuple(parameters), headers, body)


async def server_with_everything() -> ApiServer:
    server, _ = await assemble(open_store(None))
    for collection, obj in [("/api/v1/namespaces", {"metadata": {"name": "d"}}), *TARGETS]:
        headers = {"content-type": "application/json"}
        await server.handle(Request("POST", collection, (), headers, msgspec.json.encode(obj)), ADMIN)
    return server


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_breaks_and_nothing_is_half_written(seed: int) -> None:
    chance = random.Random(seed)
    server = await server_with_everything()
    for _ in range(500):
        asked = request(chance)
        before = server.store.revision
        answer = await server.handle(asked, ADMIN)
        assert isinstance(answer.body, bytes)
        if answer.status >= 400:
            assert server.store.revision == before, asked
            assert b'"reason":"InternalError"' not in answer.body, (asked, answer.body)
    await server.close()


async def test_a_body_that_is_too_large_is_refused_unread() -> None:
    server = await server_with_everything()
    body = b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * 4_000_000 + b'"}}'
    path = "/api/v1/namespaces/d/configmaps"
    answer = await server.handle(Request("POST", path, (), {"content-type": "application/json"}, body), ADMIN)
    assert answer.status == 413
    await server.close()
