"""Logs of real processes, merged on the dashboard as they are written."""

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, CookieJar

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e

SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
SCRIPT = "while true; do echo hello from $POD; sleep 0.2; done"


def talking_set() -> dict[str, object]:
    name = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    main = {"name": "main", "image": "host", "command": ["sh", "-c", SCRIPT], "env": [name]}
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [main]}}}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "talk", "namespace": "default"},
        "spec": spec,
    }


async def heard(link: str, path: str, wanted: set[str]) -> set[str]:
    """Pods whose lines arrive, until all that are wanted do."""
    base = link.partition("/dashboard")[0]
    found: set[str] = set()
    jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
    async with asyncio.timeout(60), ClientSession(cookie_jar=jar) as session:
        async with session.get(link) as answer:
            assert answer.status == 200
        while not wanted <= found:
            async with session.get(base + path) as answer:
                async for line in answer.content:
                    if line.startswith(b"data: ["):
                        entries = [one for one in json.loads(line[6:]) if isinstance(one, dict)]
                        found |= {one["pod"] for one in entries if one["text"] == f"hello from {one['pod']}"}
                    if wanted <= found:
                        break
    return found


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")
def test_lines_of_all_pods_arrive(kohort: "Kohort") -> None:
    kohort.up("--runtime", "process")
    kohort.request(SETS, talking_set())
    link = kohort.request("/dashboard").strip()
    path = "/dashboard/sets/default/talk/log-stream"
    assert asyncio.run(heard(link, path, {"talk-0", "talk-0-1"})) >= {"talk-0", "talk-0-1"}
