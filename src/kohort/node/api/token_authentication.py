"""Whose bearer token a request to the node's API carries: the API server says so in answer to a TokenReview, as for a
kubelet with `--authentication-token-webhook`. Answers are remembered for two minutes, under a hash of the token."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.log import Log
from kohort.kube.resources import TOKEN_REVIEWS
from kohort.node.api.authorization import ClientUser
from kohort.objects.json_types import JsonObject

REMEMBERED_SECONDS: Final = 120.0
MOST_REMEMBERED: Final = 1024
_log = Log(part="node")


class CannotAuthenticate(Exception):
    """The API server did not answer whose token it is."""


def token_of(header: str) -> str:
    """The token in a header `Authorization`; empty if there is none.

    >>> token_of("Bearer abc"), token_of("bearer  abc "), token_of("Basic abc"), token_of("")
    ('abc', 'abc', '', '')
    """
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class TokenAuthenticator:
    def __init__(self, ask: Callable[[JsonObject], Awaitable[JsonObject]]) -> None:
        self._ask = ask
        self._known: dict[bytes, tuple[float, ClientUser | None]] = {}

    @classmethod
    def of_cluster(cls, client: Client) -> "TokenAuthenticator":
        return cls(lambda review: client.create(TOKEN_REVIEWS, review))

    async def user_of(self, token: str) -> ClientUser | None:
        """None for a token that the API server does not know. Raises CannotAuthenticate."""
        if not token:
            return None
        key, now = hashlib.sha256(token.encode()).digest(), asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        try:
            review = await self._ask({"spec": {"token": token}})
        except (ApiError, OSError) as problem:
            _log.warning("failed to create a TokenReview", problem=str(problem))
            raise CannotAuthenticate(f"the API server did not answer whose token it is: {problem}") from None
        user = _reviewed_user(review.get("status") or {})
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = (now + REMEMBERED_SECONDS, user)
        return user


def _reviewed_user(status: JsonObject) -> ClientUser | None:
    found = status.get("user") or {}
    if status.get("authenticated") is not True or not found.get("username"):
        return None
    extra = tuple((name, tuple(values)) for name, values in sorted((found.get("extra") or {}).items()))
    return ClientUser(found["username"], tuple(found.get("groups") or ()), found.get("uid") or "", extra)
