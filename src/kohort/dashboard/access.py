"""Who asks, and what that user may read and write.

| the dashboard runs | who asks |
|---|---|
| on a laptop (`OwnRights`) | the person who started it, by a one-time link |
| in a cluster (`ReviewedRights`) | a user with a bearer token, which a TokenReview checks |
| behind a proxy that signs users in (`ProxyUsers`) | the user whom the proxy names, if it knows the shared secret |

| | reads | writes, logs, dry runs |
|---|---|---|
| on a laptop | watches with the credentials of the kubeconfig | the same credentials |
| in a cluster | a SubjectAccessReview for the user: may it `list` this kind in this namespace? | the user's token |

| behind a proxy | the same | impersonation, which the account of the dashboard must be allowed |

So the API server authorizes everything as the user who asks, and the dashboard itself has no right to write.

Reads are authorized by SubjectAccessReview and not by impersonation, because a page is made from watches that all users
share; a watch per user would multiply connections and memory. An answer is remembered for `REMEMBER_SECONDS`, so a
right that is taken away is gone from all pages after that time.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from kohort.dashboard.cluster_cache import NEEDED, OPTIONAL
from kohort.kube.client import Client
from kohort.kube.credentials import Certificate, Credentials, Static
from kohort.kube.resources import LEADER_WORKER_SETS, SUBJECT_ACCESS_REVIEWS, Resource
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.json_types import JsonObject

TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
REMEMBER_SECONDS: Final = 20.0
_REMEMBERED: Final = 20_000
"""Answers that are kept at most; when there are more, all are asked again."""
_REVIEWS_AT_ONCE: Final = 16
_MOST_CALLERS: Final = 256
_SHORTEST_SECRET: Final = 16
ALL: Final = (*NEEDED, *OPTIONAL)


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Caller(msgspec.Struct, frozen=True):
    """A user who has been authenticated, and the client that acts with this user's rights."""

    user: User
    client: Client


class Rights(Protocol):
    async def namespaces(self, caller: Caller, known: Iterable[str]) -> frozenset[str]:
        """Of these namespaces, those whose sets the caller may list."""
        ...

    async def readable(self, caller: Caller, namespace: str) -> frozenset[Resource]:
        """The resources that the caller may list in a namespace; empty if not even its sets."""
        ...

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool: ...


class OwnRights:
    """The caches hold only what the caller may read."""

    async def namespaces(self, caller: Caller, known: Iterable[str]) -> frozenset[str]:
        return frozenset(known)

    async def readable(self, caller: Caller, namespace: str) -> frozenset[Resource]:
        return frozenset(ALL)

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool:
        return True


class ReviewedRights:
    """Asks the API server what a user may list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[User, str, str], tuple[bool, float]] = {}
        self._turns = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def namespaces(self, caller: Caller, known: Iterable[str]) -> frozenset[str]:
        names = list(known)
        if await self.may_list(caller, LEADER_WORKER_SETS):
            return frozenset(names)
        allowed = await asyncio.gather(*(self.may_list(caller, LEADER_WORKER_SETS, one) for one in names))
        return frozenset(name for name, may in zip(names, allowed, strict=True) if may)

    async def readable(self, caller: Caller, namespace: str) -> frozenset[Resource]:
        if not await self._may_here(caller, LEADER_WORKER_SETS, namespace):
            return frozenset()
        allowed = await asyncio.gather(*(self._may_here(caller, one, namespace) for one in ALL))
        return frozenset(one for one, may in zip(ALL, allowed, strict=True) if may)

    async def _may_here(self, caller: Caller, resource: Resource, namespace: str) -> bool:
        return await self.may_list(caller, resource) or (
            resource.namespaced and await self.may_list(caller, resource, namespace)
        )

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool:
        now = asyncio.get_running_loop().time()
        name = (caller.user, resource.qualified, namespace)
        known = self._known.get(name)
        if known is not None and known[1] > now:
            return known[0]
        async with self._turns:
            known = self._known.get(name)
            if known is not None and known[1] > now:
                return known[0]
            allowed = await self._ask(caller.user, resource, namespace)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[name] = (allowed, now + REMEMBER_SECONDS)
            return allowed

    async def _ask(self, user: User, resource: Resource, namespace: str) -> bool:
        spec: JsonObject = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
            "resourceAttributes": {
                "verb": "list",
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace,
            },
        }
        answer: JsonObject = await self._client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        return bool((answer.get("status") or {}).get("allowed"))


class TokenReviewer:
    """Turns a bearer token into a caller whose requests are made with that token."""

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._known: dict[bytes, tuple[Caller, float]] = {}

    def knows(self, token: str) -> bool:
        """Whether the token was accepted before; it may have ended since."""
        return hashlib.sha256(token.encode()).digest() in self._known

    async def caller(self, token: str) -> Caller | None:
        """None if the API server does not accept the token."""
        now = asyncio.get_running_loop().time()
        name = hashlib.sha256(token.encode()).digest()
        known = self._known.get(name)
        if known is not None and known[1] > now:
            return known[0]
        review: JsonObject = await self._client.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        status = review.get("status") or {}
        if not status.get("authenticated"):
            await self._forget(name)
            return None
        if known is None:
            await self._make_room()
        caller = known[0] if known is not None else Caller(user_of(status.get("user") or {}), self._client_with(token))
        self._known[name] = (caller, now + REMEMBER_SECONDS)
        return caller

    def _client_with(self, token: str) -> Client:
        transport = HttpsTransport(self._connection, Credentials(Static(bearer=token)))
        return Client(transport, field_manager="kohort-dashboard", user_agent="kohort-dashboard")

    async def _make_room(self) -> None:
        while len(self._known) >= _MOST_CALLERS:
            await self._forget(min(self._known, key=lambda one: self._known[one][1]))

    async def _forget(self, name: bytes) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            await known[0].client.close()

    async def close(self) -> None:
        for name in [*self._known]:
            await self._forget(name)


class ActingAs(Credentials):
    """The credentials of the dashboard, to act as another user; the API server asks whether they may."""

    def __init__(self, own: Credentials, user: User) -> None:
        super().__init__()
        self._own = own
        self._pairs = [("impersonate-user", user.name), *(("impersonate-group", one) for one in user.groups)]

    async def headers(self) -> list[tuple[str, str]]:
        return [*self._pairs, *await self._own.headers()]

    async def certificate(self) -> Certificate | None:
        return await self._own.certificate()

    def reject(self) -> bool:
        return self._own.reject()


class ProxyUsers:
    """Users whom a proxy in front has signed in, by OIDC for example. Its headers count only with the shared secret:
    without it, any client that reaches the dashboard past the proxy could name any user."""

    SECRET: Final = "X-Kohort-Proxy-Secret"
    USER: Final = "X-Forwarded-User"
    GROUPS: Final = "X-Forwarded-Groups"

    def __init__(self, transport: HttpsTransport, secret: str) -> None:
        if len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"the shared secret of the proxy must have at least {_SHORTEST_SECRET} characters")
        self._transport = transport
        self._secret = secret
        self._known: dict[User, Caller] = {}

    def caller(self, headers: Mapping[str, str]) -> Caller | None:
        """None if the secret is wrong or no user is named."""
        if not hmac.compare_digest(self._secret.encode(), headers.get(self.SECRET, "").encode()):
            return None
        name = headers.get(self.USER, "").strip()
        if not name or name.startswith("system:"):
            return None  # Users of the cluster itself do not sign in at a proxy.
        groups = [one.strip() for one in headers.get(self.GROUPS, "").split(",")]
        given = tuple(one for one in groups if one and not one.startswith("system:"))
        user = User(name, groups=(*given, "system:authenticated"))
        known = self._known.get(user)
        if known is None:
            if len(self._known) >= _MOST_CALLERS:
                self._known.clear()
            known = self._known[user] = Caller(user, self._client(user))
        return known

    def csrf(self, user: User) -> str:
        """What forms of a user carry: known to this process only, and another one for each user."""
        return hmac.new(self._secret.encode(), f"csrf {user.name}".encode(), hashlib.sha256).hexdigest()

    def _client(self, user: User) -> Client:
        transport = HttpsTransport(self._transport.connection, ActingAs(self._transport.credentials, user))
        return Client(transport, field_manager="kohort-dashboard", user_agent="kohort-dashboard")

    async def close(self) -> None:
        for one in self._known.values():
            await one.client.close()


def user_of(found: JsonObject) -> User:
    """A user as a review describes it."""
    extra = tuple((str(key), tuple(map(str, values))) for key, values in (found.get("extra") or {}).items())
    return User(found.get("username") or "", found.get("uid") or "", tuple(found.get("groups") or ()), extra)


async def own_user(client: Client) -> User:
    """Who a client is for the API server; an unnamed user if the server does not say."""
    from kohort.kube.errors import ApiError

    try:
        review: JsonObject = await client.create(SELF_SUBJECT_REVIEWS, {})
    except ApiError:
        return User("")
    return user_of((review.get("status") or {}).get("userInfo") or {})
