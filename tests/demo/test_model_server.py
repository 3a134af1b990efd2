"""The model server of the demo: shards that add up, and the answers of its API."""

import ast
import http.client
import inspect
import json
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from kohort.demo import model_server as server_module
from kohort.demo.model_server import Handler, Model, Server, packed, unpacked
from kohort.objects.json_types import JsonObject

ALONE = {"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "1", "LWS_LEADER_ADDRESS": "localhost", "SECONDS_PER_WORD": "0"}


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_shards_add_up_to_the_whole(shards: int) -> None:
    whole = Model(3)
    vector = whole.mixed(whole.numbers_of("the leader takes"))
    found = [0.0] * len(whole.words)
    for rank in range(shards):
        found[rank::shards] = unpacked(packed(Model(3, rank, shards).scores(vector)))
    assert found == pytest.approx(whole.scores(vector), abs=1e-6)


def test_the_server_needs_nothing_but_the_standard_library() -> None:
    """Pods run it with the python3 of the node, and an installed kohort without extras can run the demo."""
    tree = ast.parse(inspect.getsource(server_module))
    names = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_model_has_learned_something() -> None:
    server = Server({**ALONE, "CONTEXT_WORDS": "3"})
    said = " ".join(server.group.words("requests are answered", 9, 0.0, 0))
    assert said == "while groups come and go and nobody who asks"


def test_a_group_is_not_healthy_before_all_shards_are_there() -> None:
    assert Server(ALONE).problem == ""
    waiting = Server({**ALONE, "LWS_GROUP_SIZE": "3"})
    assert waiting.problem == "the model is cut into 3 shards, and of those [1, 2] are missing"
    wrong = Server({**ALONE, "TENSOR_PARALLEL_SIZE": "2"})
    assert "[1] are missing" in wrong.problem
    worker = Server({**ALONE, "LWS_WORKER_INDEX": "1", "LWS_GROUP_SIZE": "2"})
    assert worker.problem == "shard 1 has no leader at localhost yet"


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    """To a group of one."""
    handler = type("OneHandler", (Handler,), {"server_of": Server(ALONE)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        yield client
    finally:
        client.close()
        server.shutdown()
        server.server_close()


def ask(connection: http.client.HTTPConnection, path: str, body: JsonObject | bytes) -> tuple[int, str]:
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_completion(connection: http.client.HTTPConnection) -> None:
    status, text = ask(connection, "/v1/completions", {"prompt": "a group is", "max_tokens": 5, "temperature": 0})
    found = json.loads(text)
    assert (status, found["object"], found["model"]) == (200, "text_completion", "tiny-v1")
    assert found["choices"] == [{"index": 0, "finish_reason": "length", "text": "one leader and its workers"}]
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}


def test_a_chat(connection: http.client.HTTPConnection) -> None:
    messages = [{"role": "user", "content": "a group is"}]
    status, text = ask(connection, "/v1/chat/completions", {"messages": messages, "max_tokens": 2, "temperature": 0})
    found = json.loads(text)
    assert (status, found["object"]) == (200, "chat.completion")
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "one leader"}


@pytest.mark.parametrize(
    ("path", "asked", "kind"),
    [
        ("/v1/completions", {"prompt": "a group is"}, "text_completion"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a group is"}]}, "chat.completion.chunk"),
    ],
)
def test_a_stream(connection: http.client.HTTPConnection, path: str, asked: JsonObject, kind: str) -> None:
    status, text = ask(connection, path, {**asked, "max_tokens": 3, "temperature": 0, "stream": True})
    *events, last, empty = text.split("\n\n")
    assert (status, last, empty) == (200, "data: [DONE]", "")
    found = [json.loads(one.removeprefix("data: ")) for one in events]
    assert {one["object"] for one in found} == {kind}
    words = [
        one["choices"][0].get("text") or (one["choices"][0].get("delta") or {}).get("content", "") for one in found
    ]
    assert "".join(words) == "one leader and"
    assert found[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/completions", b"{no json", 400, "cannot be read"),
        ("/v1/completions", b'{"max_tokens": "many"}', 400, "cannot be read"),
        ("/v1/chat/completions", b"{}", 400, "messages"),
        ("/v2/completions", b"{}", 404, "try POST /v1/completions"),
    ],
)
def test_refusals(connection: http.client.HTTPConnection, path: str, body: bytes, status: int, words: str) -> None:
    code, text = ask(connection, path, body)
    assert code == status
    assert words in json.loads(text)["error"]["message"]


def test_what_can_be_looked_at(connection: http.client.HTTPConnection) -> None:
    found = {}
    for path in ("/health", "/v1/models", "/"):
        connection.request("GET", path)
        answer = connection.getresponse()
        found[path] = answer.status, json.loads(answer.read())
    assert found["/health"] == (200, {"status": "ok"})
    assert [one["id"] for one in found["/v1/models"][1]["data"]] == ["tiny-v1"]
    assert found["/"][0] == 404
