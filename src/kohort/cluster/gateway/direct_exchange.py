"""An exchange without a task: the request goes to a backend in one piece, and its answer comes back in one piece.

So are most: the body of the request is here with its head, a connection to the backend is idle, and the answer arrives
whole. Then one call sends the request, and one call, made by the connection to the backend, passes the answer on; no
task, no future and no timer are made. Whatever else happens (an answer in parts, without a length, or none at all), a
task goes on from there by the general way (`proxy.py`), with the bytes that are here. What is sent and what is passed
on is made by the same functions there and here; here it is remembered for heads that come again.
"""

from typing import Final, Protocol

from kohort.cluster.gateway.backend_client import BackendConnection, BackendPool, BadAnswer, Body, read_answer_head
from kohort.cluster.gateway.client_request import answer_headers, answer_lines, is_bodiless
from kohort.cluster.gateway.recent import Recent
from kohort.cluster.gateway.request_turn import BackendTurn
from kohort.cluster.gateway.route_table import HeaderChange

HEAD_BYTES: Final = 1024
"""Of a head that is remembered."""
_REMEMBERED: Final = 256
_CLOSE: Final = b"Connection: close\r\n\r\n"


class DirectClient(Protocol):
    """The connection that a request came by."""

    def answer(self, data: bytes) -> None:
        """Send the whole answer; the request is over."""

    def go_on_in_task(self, turn: BackendTurn) -> None: ...


class DirectAnswer:
    """What a client gets of the head of an answer whose body has a length."""

    __slots__ = ("head", "last_head", "length", "reusable", "status")

    def __init__(self, status: int, head: bytes, length: int, *, reusable: bool) -> None:
        self.status = status
        self.head = head
        self.last_head = head[:-2] + _CLOSE
        """If the connection ends with this answer."""
        self.length = length
        self.reusable = reusable


def read_direct_answer(head: bytes, method: str, change: HeaderChange) -> DirectAnswer | None:
    """From the head with its empty line; None if the answer is not for this way."""
    try:
        answer = read_answer_head(head[:-2])
        body = Body(answer, method)
    except BadAnswer:
        return None
    if answer.status < 200 or body.left is None:
        return None
    headers = answer_headers(answer.headers, change)
    if "Connection" in headers or ("Content-Length" not in headers and not is_bodiless(method, answer.status)):
        return None
    return DirectAnswer(
        answer.status, answer_lines(answer.status, answer.reason, headers), body.left, reusable=body.reusable
    )


class DirectAnswers:
    """Reads heads of answers, and remembers those that may come again."""

    def __init__(self) -> None:
        self._known: Recent[tuple[bytes, bool, HeaderChange], DirectAnswer] = Recent(_REMEMBERED)

    def read(self, head: bytes, method: str, change: HeaderChange) -> DirectAnswer | None:
        key = (head, method == "HEAD", change)
        found = self._known.get(key)
        if found is None:
            found = read_direct_answer(head, method, change)
            if found is not None and len(head) <= HEAD_BYTES:
                self._known.put(key, found)
        return found

    def turn(self) -> None:
        self._known.turn()


class DirectExchange:
    __slots__ = ("_answers", "_client", "_connection", "_keep_alive", "_pool", "_turn")

    def __init__(
        self,
        client: DirectClient,
        turn: BackendTurn,
        connection: BackendConnection,
        pool: BackendPool,
        answers: DirectAnswers,
        *,
        keep_alive: bool,
    ) -> None:
        """Of a request that is on its way on `connection`."""
        self._client = client
        self._turn = turn
        self._connection = connection
        self._pool = pool
        self._answers = answers
        self._keep_alive = keep_alive

    # Called by the connection to the backend, once

    def received(self, data: bytes) -> bool:
        """The first bytes of the answer. False: they are not all of it, and a task reads them."""
        size = data.find(b"\r\n\r\n") + 4
        turn = self._turn
        answer = self._answers.read(data[:size], turn.plan.method, turn.backend.response) if size > 3 else None
        if answer is None or len(data) != size + answer.length:
            self.go_on_in_task()
            return False
        head = answer.head if self._keep_alive else answer.last_head
        self._client.answer(head + data[size:])
        self._pool.give_back_answered(self._connection, reusable=answer.reusable)
        turn.observation.end(answer.status)
        return True

    def go_on_in_task(self) -> None:
        """The connection is lost, or the answer comes in parts, or not in time."""
        self._turn.sent = self._connection
        self._client.go_on_in_task(self._turn)

    # Called by the client's connection

    def client_gone(self) -> None:
        self._turn.sent = self._connection
        self._turn.abandon()
