"""Which requests are repeated, when, and what is counted."""

import asyncio

import pytest

from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.metrics import Metrics
from kohort.kube.request_exchange import Exchange
from kohort.kube.transport import InProcessTransport

OK = Response(200, {}, b"fine")
GONE_FOR_A_MOMENT = errors.Unreachable("connection reset")


def busy(status: int, seconds: str) -> Response:
    return Response(status, {"retry-after": seconds} if seconds else {}, b"busy")


class Script:
    """A server that answers as written; the last entry is repeated."""

    def __init__(self, *answers: Response | errors.Unreachable) -> None:
        self.answers = [*answers]
        self.times: list[float] = []
        self.metrics = Metrics()
        self.exchange = Exchange(InProcessTransport(self._handle), user_agent="test/1", metrics=self.metrics)

    async def _handle(self, request: Request) -> Response:
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.Unreachable):
            raise answer
        return answer

    async def send(self, method: str) -> bytes:
        return await self.exchange.send(Request(method, "/x"))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_request_that_succeeds_is_sent_once(method: str) -> None:
    script = Script(OK)
    assert await script.send(method) == b"fine"
    assert len(script.times) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_asked_again_when_it_says(method: str, status: int) -> None:
    script = Script(busy(status, "7"), OK)
    assert await script.send(method) == b"fine"
    assert script.times[1] - script.times[0] == pytest.approx(7)


@pytest.mark.parametrize("answer", [busy(500, ""), busy(503, ""), busy(409, "1"), busy(503, "soon"), busy(404, "")])
async def test_other_errors_are_raised_at_once(answer: Response) -> None:
    script = Script(answer, OK)
    with pytest.raises(errors.ApiError) as raised:
        await script.send("GET")
    assert (raised.value.code, len(script.times)) == (answer.status, 1)


async def test_a_read_without_an_answer_is_repeated() -> None:
    script = Script(GONE_FOR_A_MOMENT, GONE_FOR_A_MOMENT, OK)
    assert await script.send("GET") == b"fine"
    pauses = [later - earlier for earlier, later in zip(script.times, script.times[1:], strict=False)]
    assert pauses == pytest.approx([0.1, 0.2])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_without_an_answer_is_not_repeated(method: str) -> None:
    """It may have happened."""
    script = Script(GONE_FOR_A_MOMENT, OK)
    with pytest.raises(errors.Unreachable):
        await script.send(method)
    assert len(script.times) == 1


@pytest.mark.parametrize(
    ("answer", "kind"), [(GONE_FOR_A_MOMENT, errors.Unreachable), (busy(429, "1"), errors.TooManyRequests)]
)
async def test_retries_have_an_end(answer: Response | errors.Unreachable, kind: type[errors.ApiError]) -> None:
    script = Script(answer)
    with pytest.raises(kind):
        await script.send("GET")
    assert 2 <= len(script.times) <= 20


async def test_every_attempt_is_counted() -> None:
    script = Script(GONE_FOR_A_MOMENT, busy(429, "1"), OK)
    await script.send("GET")
    counted = {
        code: script.metrics.registry.get_sample_value("rest_client_requests_total", {"method": "GET", "code": code})
        for code in ("<error>", "429", "200")
    }
    assert counted == {"<error>": 1, "429": 1, "200": 1}


def test_headers_name_the_program_and_the_types() -> None:
    exchange = Script(OK).exchange
    assert exchange.headers() == {"accept": "application/json", "user-agent": "test/1"}
    assert exchange.headers(content_type="text/plain")["content-type"] == "text/plain"
