"""Webhooks for an API server in the same process."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kohort.admission.metrics import WebhookMetrics
from kohort.admission.webhook_host import SERVICE, InProcess
from kohort.cluster.apiserver.admission.webhook_client import CallFailed, WebhookClient
from kohort.objects.json_types import JsonObject

Handler = Callable[[JsonObject], JsonObject]


def broken(_: JsonObject) -> JsonObject:
    raise ZeroDivisionError


def nowhere(namespace: str, name: str, port: int) -> tuple[str, int]:
    raise LookupError(f'service "{name}" not found')


ENDPOINTS: dict[str, Handler] = {"/allow": lambda _: {"allowed": True}, "/broken": broken}


def review(uid: str = "u") -> bytes:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": uid, "object": {}}}
    return msgspec.json.encode(body)


def hosted(story: Callable[[WebhookClient, InProcess], Awaitable[None]]) -> None:
    async def run() -> None:
        client = WebhookClient(nowhere)
        host = InProcess(client)
        address = await host.open(ENDPOINTS)
        assert address.client("/allow") == {"service": {"namespace": SERVICE[0], "name": SERVICE[1], "path": "/allow"}}
        await story(client, host)
        await client.close()

    asyncio.run(run())


def config(path: str) -> JsonObject:
    return {"service": {"namespace": SERVICE[0], "name": SERVICE[1], "path": path, "port": 443}}


def test_a_review_is_answered_without_a_socket() -> None:
    async def story(client: WebhookClient, _: InProcess) -> None:
        answer = msgspec.json.decode(await client.post(config("/allow"), review("u1"), 5))
        assert answer["response"] == {"uid": "u1", "allowed": True}

    hosted(story)


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/elsewhere", review(), "no webhook at /elsewhere"),
        ("/broken", review(), "the review failed"),
        ("/allow", b"no json", "failed to call webhook"),
    ],
)
def test_what_cannot_be_answered_is_a_webhook_that_cannot_be_reached(path: str, body: bytes, reason: str) -> None:
    async def story(client: WebhookClient, _: InProcess) -> None:
        with pytest.raises(CallFailed, match=reason):
            await client.post(config(path), body, 5)

    hosted(story)


def test_once_closed_the_service_is_looked_for_like_any_other() -> None:
    async def story(client: WebhookClient, host: InProcess) -> None:
        await host.close()
        with pytest.raises(CallFailed, match="not found"):
            await client.post(config("/allow"), review(), 5)

    hosted(story)


def test_what_is_answered_is_counted() -> None:
    registry = CollectorRegistry()
    seen: list[float | None] = []

    def looking(_: JsonObject) -> JsonObject:
        seen.append(registry.get_sample_value("controller_runtime_webhook_requests_in_flight", {"webhook": "/look"}))
        return {"allowed": True}

    async def run() -> None:
        client = WebhookClient(nowhere)
        await InProcess(client, WebhookMetrics(registry)).open({**ENDPOINTS, "/look": looking})
        await client.post(config("/look"), review(), 5)
        with pytest.raises(CallFailed):
            await client.post(config("/broken"), review(), 5)
        await client.close()

    asyncio.run(run())
    in_flight = registry.get_sample_value("controller_runtime_webhook_requests_in_flight", {"webhook": "/look"})
    assert (seen, in_flight) == ([1.0], 0.0)
    assert registry.get_sample_value("controller_runtime_webhook_panics_total") == 1.0
