"""The log of a container, line by line, as the API server streams it."""

import re
from collections.abc import AsyncIterator
from typing import Final

from kohort.kube.client import Client
from kohort.kube.errors import from_response
from kohort.kube.http import Request
from kohort.kube.resources import PODS

Query = tuple[tuple[str, str], ...]
TIMESTAMPS: Final = ("timestamps", "true")
"""Asks for the time in front of each line."""
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
MOST_BYTES: Final = 256 << 10
"""Of one line; a longer one comes in pieces, as it may never end."""


def stamped(line: str) -> tuple[str, str]:
    """The time in front of a line, and the line itself; nothing and the whole line if there is none. Without its Z the
    time can be compared: zeros at its end are left out in writing.

    >>> stamped("2026-01-01T00:00:00.5Z hello you"), stamped("hello you")
    (('2026-01-01T00:00:00.5', 'hello you'), ('', 'hello you'))
    >>> stamped("2026-01-01T00:00:00.5Z hello") < stamped("2026-01-01T00:00:00.55Z hi")
    True
    """
    stamp, _, text = line.partition(" ")
    return (stamp.removesuffix("Z"), text) if _STAMP.fullmatch(stamp) else ("", line)


async def log_lines(client: Client, namespace: str, pod: str, query: Query) -> AsyncIterator[str]:
    """`query` as in the API: container, follow, tailLines and so on. Raises ApiError if there is no log."""
    headers = {"accept": "*/*", "user-agent": client.user_agent}
    request = Request("GET", PODS.path(namespace, pod, "log"), query, headers)
    rest, cut = b"", False
    async with client.transport.stream(request) as stream:
        if stream.status != 200:
            raise from_response(stream.status, b"".join([chunk async for chunk in stream]))
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line or not cut:  # else only the end of a line whose pieces were all given
                    yield line.decode(errors="replace")
                cut = False
            if len(rest) > MOST_BYTES:
                yield rest.decode(errors="replace")
                rest, cut = b"", True
    if rest:
        yield rest.decode(errors="replace")
