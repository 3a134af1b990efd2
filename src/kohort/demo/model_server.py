"""A server for a small language model whose output layer is cut into shards, one for each process of a group.

The model guesses the next word from the last few. A fixed random layer mixes their vectors, and one trained matrix says
how well each word of the vocabulary would follow. The matrix is the large part: process r of n holds the rows r, r + n,
r + 2n ... of it. For every word the leader sends the mixed vector to all workers, each answers with the scores of its
own rows, and the leader picks from the whole. That is vocabulary parallelism, as in servers for models a billion times
this size, and like those it needs every member of its group.

Process 0 leads: it waits for the others on TCP port 9000 and speaks HTTP on port 8080, in the manner of OpenAI:
/v1/completions, /v1/chat/completions (both with "stream": true as server-sent events), /v1/models and /health. Workers
call the leader at LWS_LEADER_ADDRESS and say which shard they hold.

On SIGTERM the leader serves what it has begun, and what still comes for a moment, and then ends; workers stay with it.

It needs nothing but the standard library, so it runs wherever kohort is installed. Training takes a third of a second.
"""

import json
import math
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import mul

Vector = Sequence[float]
Document = dict[str, object]

TEXT = """
a group is one leader and its workers on as many hosts as the model needs .
the leader takes every request and the workers hold the shards of the model .
a group is created as a whole and a group is ready when all of its pods are ready .
when one worker fails the whole group is made again because a model with a hole is no model .
a new version comes to one group at a time and never two versions meet within a group .
a canary takes a few requests first and the rest follow when it has shown what it can do .
requests are answered while groups come and go and nobody who asks can tell .
memory of a running pod grows in place and the process does not notice .
what was served before is never far away and one command brings it back .
the scheduler finds a place for every pod of a group or for none of them .
a rollout waits for a person where a person should decide .
the model reads a few words and guesses the next one and the workers share the work .
"""
WIDTH, HIDDEN, RIDGE = 16, 256, 0.1
HTTP_PORT, SHARD_PORT = 8080, 9000
DRAIN_SECONDS, LAST_SECONDS = 1.5, 6.0


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[.]", text.lower())


def dot(one: Vector, other: Vector) -> float:
    return float(sum(map(mul, one, other)))


def packed(vector: Vector) -> bytes:
    return array("f", vector).tobytes()


def unpacked(data: bytes) -> Vector:
    return array("f", data)


class Model:
    """Everything but the other processes: vocabulary, the mixing layer, and the rows of one shard.

    The rows are fitted by ridge regression: row = inputs' (inputs inputs' + RIDGE)^-1 wanted. There are fewer words in
    the text than hidden units, so this form has the smaller system of equations.
    """

    def __init__(self, context: int, rank: int = 0, shards: int = 1) -> None:
        chance = random.Random(7)
        corpus = words_of(TEXT)
        self.words = sorted(set(corpus))
        self.number = {word: index for index, word in enumerate(self.words)}
        self.context = context
        self.vectors = [[chance.gauss(0, 1) for _ in range(WIDTH)] for _ in range(len(self.words) + 1)]
        spread = 1 / math.sqrt(context * WIDTH)
        self.mixer = [[chance.gauss(0, spread) for _ in range(context * WIDTH)] for _ in range(HIDDEN)]
        numbers = [self.number[word] for word in corpus]
        inputs = [self.mixed(numbers[:place]) for place in range(len(numbers))]
        factor = cholesky([[dot(one, other) for other in inputs[: place + 1]] for place, one in enumerate(inputs)])
        columns = [*zip(*inputs, strict=True)]
        self.rows = range(rank, len(self.words), shards)
        self.weights = [self.fitted(row, numbers, factor, columns) for row in self.rows]

    @staticmethod
    def fitted(row: int, numbers: Sequence[int], factor: Sequence[Vector], columns: Sequence[Vector]) -> Vector:
        share = solved(factor, [float(number == row) for number in numbers])
        return array("f", [dot(share, column) for column in columns])

    def mixed(self, numbers: Sequence[int]) -> Vector:
        """The last words as one vector; where there are none yet, the blank."""
        blank = len(self.words)
        last = [*[blank] * self.context, *numbers][-self.context :]
        together = [value for number in last for value in self.vectors[number]]
        return [math.tanh(dot(row, together)) for row in self.mixer]

    def scores(self, vector: Vector) -> Vector:
        """Of this shard's words only."""
        return [dot(row, vector) for row in self.weights]

    def numbers_of(self, text: str) -> list[int]:
        """Words that the model has never read do not help it."""
        return [self.number[word] for word in words_of(text) if word in self.number]


def cholesky(triangle: Sequence[Vector]) -> list[list[float]]:
    """The lower triangular L with L L' = the symmetric matrix of this lower triangle, RIDGE added to its diagonal."""
    found: list[list[float]] = []
    for place, given in enumerate(triangle):
        row: list[float] = []
        for column in range(place):
            row.append((given[column] - dot(row, found[column])) / found[column][column])
        row.append(math.sqrt(given[place] + RIDGE - dot(row, row)))
        found.append(row)
    return found


def solved(factor: Sequence[Vector], wanted: Vector) -> list[float]:
    """The x with L L' x = wanted."""
    forward: list[float] = []
    for row, value in zip(factor, wanted, strict=True):
        forward.append((value - dot(row, forward)) / row[-1])
    for place in range(len(factor) - 1, -1, -1):
        row = factor[place]
        forward[place] /= row[place]
        for earlier in range(place):
            forward[earlier] -= row[earlier] * forward[place]
    return forward


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(struct.pack("!I", len(data)) + data)


def receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack("!I", exactly(connection, 4))
    return exactly(connection, length)


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("the peer has closed the connection")
        data += more
    return data


class Group:
    """The leader's side: its own shard and the connections to all others, which compute one word at a time."""

    def __init__(self, model: Model, shards: int) -> None:
        self.model = model
        self.shards = shards
        self.members: dict[int, socket.socket] = {}
        self.lock = threading.Lock()

    def admit(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rank = int(receive(connection))
        with self.lock:
            self.members[rank] = connection
        print(f"shard {rank} has connected, {len(self.members) + 1} of {self.shards}", flush=True)

    @property
    def missing(self) -> list[int]:
        return [rank for rank in range(1, self.shards) if rank not in self.members]

    def scores(self, vector: Vector) -> Vector:
        """The scores of all words. A member that does not answer is removed."""
        whole = [0.0] * len(self.model.words)
        with self.lock:
            for rank in list(self.members):
                self._ask(rank, lambda member: send(member, packed(vector)))
            whole[:: self.shards] = self.model.scores(vector)
            for rank in list(self.members):
                whole[rank :: self.shards] = unpacked(self._ask(rank, receive) or b"")
        if self.missing:
            raise ConnectionError(f"shards {self.missing} are disconnected")
        return whole

    def _ask(self, rank: int, exchange: Callable[[socket.socket], bytes | None]) -> bytes | None:
        try:
            return exchange(self.members[rank])
        except OSError as problem:
            self.members.pop(rank).close()
            raise ConnectionError(f"shard {rank} does not answer: {problem}") from problem

    def words(self, prompt: str, count: int, temperature: float, seed: int) -> Iterator[str]:
        numbers, chance = self.model.numbers_of(prompt), random.Random(seed)
        for _ in range(count):
            found = self.scores(self.model.mixed(numbers))
            if temperature <= 0:
                chosen = max(range(len(found)), key=found.__getitem__)
            else:
                best = max(found)
                shares = [math.exp((score - best) / (0.1 * temperature)) for score in found]
                (chosen,) = chance.choices(range(len(shares)), shares)
            numbers.append(chosen)
            yield self.model.words[chosen]


class Server:
    """One process of the group: its configuration, its shard, and its connections to the others."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.rank = int(environment["LWS_WORKER_INDEX"])
        self.shards = int(environment.get("TENSOR_PARALLEL_SIZE") or environment["LWS_GROUP_SIZE"])
        self.leader = environment["LWS_LEADER_ADDRESS"]
        self.version = environment.get("MODEL_VERSION", "v1")
        self.pace = float(environment.get("SECONDS_PER_WORD", "0.01"))
        self.delay = float(environment.get("SECONDS_TO_FIRST_WORD", "0"))
        self.address = environment.get("POD_IP", "")
        self.name = environment.get("HOSTNAME", socket.gethostname())
        self.model = Model(int(environment.get("CONTEXT_WORDS", "2")), self.rank, self.shards)
        self.group = Group(self.model, self.shards)
        self.joined = False
        self.ending = threading.Event()
        self.active = 0
        self.counting = threading.Lock()

    @property
    def problem(self) -> str:
        """Why this process cannot serve; empty if it can."""
        if self.rank:
            return "" if self.joined else f"shard {self.rank} has no leader at {self.leader} yet"
        if missing := self.group.missing:
            return f"the model is cut into {self.shards} shards, and of those {missing} are missing"
        return ""

    def accept_workers(self) -> None:
        """Accept connections of workers until the process ends."""
        with socket.create_server((self.address, SHARD_PORT)) as listener:
            while True:
                connection, _ = listener.accept()
                try:
                    self.group.admit(connection)
                except (OSError, ValueError):
                    connection.close()

    def serve_leader(self) -> None:
        """Answer the leader. After a lost connection, connect again, unless the process is ending."""
        while not (self.ending.is_set() and self.joined):
            try:
                with socket.create_connection((self.leader, SHARD_PORT), timeout=5) as connection:
                    connection.settimeout(None)
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    send(connection, str(self.rank).encode())
                    self.joined = True
                    while True:
                        send(connection, packed(self.model.scores(unpacked(receive(connection)))))
            except OSError:
                self.joined = False
                if self.ending.is_set():
                    os._exit(0)
                time.sleep(0.1)

    def end(self) -> None:
        """The leader ends when no request is under way any more, a worker when its leader has ended."""
        self.ending.wait()
        started = time.monotonic()
        while time.monotonic() - started < LAST_SECONDS:
            if not self.rank and not self.active and time.monotonic() - started > DRAIN_SECONDS:
                break
            time.sleep(0.05)
        os._exit(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of: Server

    def do_GET(self) -> None:
        if self.path == "/health":
            problem = self.server_of.problem
            self.reply(503 if problem else 200, {"status": problem or "ok"})
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": self.model_name, "object": "model"}]})
        else:
            self.refuse(404, f"there is no {self.path}; try POST /v1/completions")

    def do_POST(self) -> None:
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            prompt = self.prompt_of(asked)
            count, temperature = int(asked.get("max_tokens", 16)), float(asked.get("temperature", 1.0))
            seed = int(asked.get("seed", 0))
        except (ValueError, TypeError, KeyError, AttributeError, AssertionError) as problem:
            return self.refuse(400, f"the request cannot be read: {problem}")
        if prompt is None:
            return self.refuse(404, f"there is no {self.path}; try POST /v1/completions")
        if self.server_of.rank or self.server_of.problem:
            return self.refuse(503, self.server_of.problem or "this is a worker; ask its leader")
        with self.server_of.counting:
            self.server_of.active += 1
        try:
            time.sleep(self.server_of.delay)
            words = self.server_of.group.words(prompt, max(1, min(count, 256)), temperature, seed)
            (self.stream if asked.get("stream") else self.whole)(words, len(words_of(prompt)))
        finally:
            with self.server_of.counting:
                self.server_of.active -= 1

    def prompt_of(self, asked: Document) -> str | None:
        if self.path == "/v1/completions":
            return str(asked.get("prompt", ""))
        if self.path == "/v1/chat/completions":
            messages = asked["messages"]
            assert isinstance(messages, list), "messages must be a list"
            return " ".join(str(message["content"]) for message in messages)
        return None

    @property
    def model_name(self) -> str:
        return f"tiny-{self.server_of.version}"

    @property
    def chat(self) -> bool:
        return self.path == "/v1/chat/completions"

    def document(self, text: str, end: str | None, part: bool) -> Document:
        choice: Document = {"index": 0, "finish_reason": end}
        if self.chat:
            choice["delta" if part else "message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = "chat.completion" if self.chat else "text_completion"
        kind += ".chunk" if part and self.chat else ""
        return {"object": kind, "model": self.model_name, "served_by": self.server_of.name, "choices": [choice]}

    def whole(self, words: Iterator[str], before: int) -> None:
        try:
            found = list(words)
        except ConnectionError as problem:
            return self.refuse(503, str(problem))
        usage = {"prompt_tokens": before, "completion_tokens": len(found), "total_tokens": before + len(found)}
        self.reply(200, {**self.document(" ".join(found), "length", part=False), "usage": usage})

    def stream(self, words: Iterator[str], before: int) -> None:
        del before
        try:
            first = next(words)
        except ConnectionError as problem:
            return self.refuse(503, str(problem))
        self.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        self.chunk(self.document(first, None, part=True))
        for word in words:
            time.sleep(self.server_of.pace)
            self.chunk(self.document(f" {word}", None, part=True))
        self.chunk(self.document("", "length", part=True))
        self.chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, event: Document | str) -> None:
        text = event if isinstance(event, str) else json.dumps(event)
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reply(self, status: int, document: Document) -> None:
        body = json.dumps(document).encode()
        self.head(status, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def refuse(self, status: int, message: str) -> None:
        self.reply(status, {"error": {"message": message, "type": "invalid_request_error", "code": status}})

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("X-Model-Version", self.server_of.version)
        if self.server_of.ending.is_set():
            self.send_header("Connection", "close")
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.path != "/health":
            super().log_request(code, size)


def main() -> None:
    server = Server(os.environ)
    held = f"{len(server.model.rows)} of {len(server.model.words)} words"
    print(f"shard {server.rank} of {server.shards}: {held}, version {server.version}", flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: server.ending.set())
    for work in (server.serve_leader if server.rank else server.accept_workers, server.end):
        threading.Thread(target=work, daemon=True).start()
    Handler.server_of = server
    sys.stderr = sys.stdout
    ThreadingHTTPServer.request_queue_size = 64
    ThreadingHTTPServer((server.address, HTTP_PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
