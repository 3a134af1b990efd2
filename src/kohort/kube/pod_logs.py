"""The log of a container, line by line, as the API server streams it."""

from collections.abc import AsyncIterator

from kohort.kube.client import Client
from kohort.kube.errors import from_response
from kohort.kube.http import Request
from kohort.kube.resources import PODS

Query = tuple[tuple[str, str], ...]


async def log_lines(client: Client, namespace: str, pod: str, query: Query) -> AsyncIterator[str]:
    """`query` as in the API: container, follow, tailLines and so on. Raises ApiError if there is no log."""
    headers = {"accept": "*/*", "user-agent": client.user_agent}
    request = Request("GET", PODS.path(namespace, pod, "log"), query, headers)
    rest = b""
    async with client.transport.stream(request) as stream:
        if stream.status != 200:
            raise from_response(stream.status, b"".join([chunk async for chunk in stream]))
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
