"""Which endpoint of a service port a client is led to.

| session affinity | endpoint                                                                                    |
|------------------|---------------------------------------------------------------------------------------------|
| None             | drawn anew for every connection                                                             |
| ClientIP         | the one that the client's address had last, if it is still there and the last connection    |
|                  | was made within `timeoutSeconds` (10,800 unless given); otherwise drawn, and remembered      |

The client is remembered by its address, so all processes of a pod go to the same endpoint. As with kube-proxy, each
port of a service has a memory of its own, and changing the affinity to None empties it.
"""

import random
from collections.abc import Callable
from typing import Final

from kohort.objects.core import Service

Backend = tuple[str, int]
DEFAULT_TIMEOUT_SECONDS: Final = 10_800
MOST_CLIENTS: Final = 65_536
"""Remembered for one port; beyond that, those whose last connection is longest ago are forgotten."""


def affinity_seconds(service: Service) -> int | None:
    """How long a client stays with its endpoint, None if it does not."""
    spec = service.spec
    if spec.session_affinity != "ClientIP":
        return None
    config = spec.session_affinity_config
    given = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return DEFAULT_TIMEOUT_SECONDS if given is None else given


class EndpointChoice:
    def __init__(self, now: Callable[[], float]) -> None:
        self.backends: list[Backend] = []
        self._timeout: int | None = None
        self._now = now
        self._last: dict[str, tuple[Backend, float]] = {}
        """Endpoint and time of the last connection of a client; the latest connection is the last entry."""

    def update(self, backends: list[Backend], timeout: int | None) -> None:
        self.backends, self._timeout = backends, timeout
        if timeout is None:
            self._last.clear()

    def candidates(self, client: str) -> list[Backend]:
        """Endpoints in the order in which they are tried."""
        found = random.sample(self.backends, len(self.backends))
        if (kept := self._kept(client)) is not None:
            found.remove(kept)
            found.insert(0, kept)
        return found

    def chosen(self, client: str, backend: Backend) -> None:
        """A connection of the client has been made."""
        if self._timeout is None:
            return
        self._last.pop(client, None)
        self._last[client] = (backend, self._now())
        if len(self._last) > MOST_CLIENTS:
            del self._last[next(iter(self._last))]

    def _kept(self, client: str) -> Backend | None:
        if self._timeout is None or client not in self._last:
            return None
        backend, at = self._last[client]
        if backend in self.backends and self._now() - at < self._timeout:
            return backend
        del self._last[client]
        return None
