"""Requests in flight, by what the gateway and the pods themselves say."""

from collections.abc import Mapping

import pytest

from kohort.kube.resources import CONFIG_MAPS, NAMESPACES
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.analysis.http_fetch import FetchError, FetchRequest, FetchTimeout
from kohort.rollouts.traffic.in_flight import (
    ANNOTATION,
    InFlightReader,
)
from kohort.rules.gateway_metrics import ADDRESS_KEY, CONFIG_MAP, IN_FLIGHT, NAMESPACE
from kohort.testing import Cluster

GATEWAY = "http://127.0.0.1:9100/metrics"
SERVICE: JsonObject = {"spec": {"ports": [{"port": 80, "targetPort": 8000}]}}


class Answers:
    """What each address answers; others refuse."""

    def __init__(self, answers: Mapping[str, str | FetchError]) -> None:
        self._answers = answers
        self.requests: list[FetchRequest] = []

    async def __call__(self, request: FetchRequest) -> bytes:
        self.requests.append(request)
        answer = self._answers.get(request.url, FetchError(f"{request.url}: refused"))
        if isinstance(answer, FetchError):
            raise answer
        return answer.encode()


def pod(name: str, address: str = "10.0.0.1", **annotations: str) -> JsonObject:
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {}, "status": {"podIP": address}}


def running(count: float) -> str:
    return f"vllm:num_requests_running {count}\n"


def through_gateway(**counts: float) -> str:
    lines = [f'{IN_FLIGHT}{{namespace="n",pod="{name}"}} {count}' for name, count in counts.items()]
    return "\n".join([*lines, f'{IN_FLIGHT}{{namespace="other",pod="a"}} 99', ""])


async def read(answers: Answers, *pods: JsonObject, gateway: Json = None, service: Json = None) -> dict[str, float]:
    async with Cluster() as cluster:
        if gateway is not None:
            await cluster.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            body = {"metadata": {"name": CONFIG_MAP}, "data": {ADDRESS_KEY: gateway}}
            await cluster.client.create(CONFIG_MAPS, body, NAMESPACE)
        return await InFlightReader(cluster.client, answers).read("n", pods, SERVICE if service is None else service)


async def test_a_pod_is_asked_at_its_address_and_the_port_of_its_service() -> None:
    answers = Answers({"http://10.0.0.1:8000/metrics": running(3)})
    assert await read(answers, pod("a")) == {"a": 3.0}
    (request,) = answers.requests
    assert (request.pod, request.trusted) == (True, False)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (running(0), {"a": 0.0}),
        (running(1) + running(2), {"a": 3.0}),
        ("sglang:num_running_reqs 4\n", {"a": 4.0}),
        ("something_else 4\n", {}),
        (FetchTimeout("too slow"), {"a": 1.0}),
        (FetchError("refused"), {}),
    ],
)
async def test_what_the_answer_of_a_pod_means(answer: str | FetchError, found: dict[str, float]) -> None:
    """One that does not answer in time is busy; of one that does not answer at all nothing is known."""
    assert await read(Answers({"http://10.0.0.1:8000/metrics": answer}), pod("a")) == found


async def test_a_pod_can_name_its_own_series() -> None:
    answers = Answers({"http://10.0.0.1:8000/metrics": running(3) + "mine 5\n"})
    assert await read(answers, pod("a", **{ANNOTATION: "mine"})) == {"a": 5.0}


async def test_an_address_of_the_newer_protocol_is_written_in_brackets() -> None:
    answers = Answers({"http://[fd00::7]:8000/metrics": running(2)})
    assert await read(answers, pod("a", "fd00::7")) == {"a": 2.0}


@pytest.mark.parametrize("address", ["", "127.0.0.1", "169.254.169.254", "metadata.google.internal", "::1"])
async def test_no_request_is_made_to_what_cannot_be_a_pod(address: str) -> None:
    """Whoever may write the status of a pod must not choose what the operator asks."""
    answers = Answers({})
    assert await read(answers, pod("a", address)) == {}
    assert answers.requests == []


async def test_without_a_port_of_the_service_no_pod_is_asked() -> None:
    answers = Answers({})
    assert await read(answers, pod("a"), service={"spec": {}}) == {}
    assert answers.requests == []


async def test_the_gateway_counts_what_goes_through_it() -> None:
    answers = Answers({GATEWAY: through_gateway(a=2, b=1, stranger=7)})
    assert await read(answers, pod("a"), pod("b", "10.0.0.2"), gateway=GATEWAY) == {"a": 2.0, "b": 1.0}
    assert [request.trusted for request in answers.requests] == [True, False, False]


@pytest.mark.parametrize(("own", "larger"), [(1, 2.0), (5, 5.0)])
async def test_the_larger_number_counts(own: int, larger: float) -> None:
    answers = Answers({GATEWAY: through_gateway(a=2), "http://10.0.0.1:8000/metrics": running(own)})
    assert await read(answers, pod("a"), gateway=GATEWAY) == {"a": larger}


@pytest.mark.parametrize(
    "address",
    ["", "http://10.0.0.9:9100/metrics", "https://127.0.0.1/metrics", "http://gateway/metrics", "file:///etc/passwd"],
)
async def test_a_gateway_that_is_not_of_this_machine_is_not_asked(address: str) -> None:
    answers = Answers({address: through_gateway(a=2)})
    assert await read(answers, pod("a"), gateway=address) == {}
    assert [request.url for request in answers.requests] == ["http://10.0.0.1:8000/metrics"]


async def test_a_gateway_that_does_not_answer_leaves_what_pods_say() -> None:
    answers = Answers({GATEWAY: FetchTimeout("too slow"), "http://10.0.0.1:8000/metrics": running(3)})
    assert await read(answers, pod("a"), gateway=GATEWAY) == {"a": 3.0}


async def test_many_pods_are_all_asked() -> None:
    pods = [pod(f"p{number}", f"10.0.1.{number}") for number in range(40)]
    answers = Answers({f"http://10.0.1.{number}:8000/metrics": running(number) for number in range(40)})
    assert await read(answers, *pods) == {f"p{number}": float(number) for number in range(40)}
