"""Who asks, and what that user may read and write.

| the dashboard runs | who asks |
|---|---|
| on a laptop (`OwnRights`) | the person who started it, by a one-time link |
| in a cluster (`ReviewedRights`) | a user with a bearer token, which a TokenReview checks |
| behind a proxy that signs users in (`ProxyUsers`) | the user whom the proxy names, if it knows the shared secret |
| with TLS of its own (`CertificateUsers`) | the user of the client certificate, which the handshake has verified |

| | reads | writes, logs, dry runs |
|---|---|---|
| on a laptop | watches with the credentials of the kubeconfig | the same credentials |
| in a cluster | a SubjectAccessReview for the user: may it `list` this kind in this namespace? | the user's token |
| behind a proxy, with certificates | the same | impersonation, which the account of the dashboard must be allowed |

So the API server authorizes everything as the user who asks, and the dashboard itself has no right to write.

Reads are authorized by SubjectAccessReview and not by impersonation, because a page is made from watches that all users
share; a watch per user would multiply connections and memory. An answer is remembered for `REMEMBER_SECONDS`, so a
right that is taken away is gone from all pages after that time.
"""

import asyncio
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from kohort.dashboard.cluster_cache import NEEDED, OPTIONAL
from kohort.kube import clock
from kohort.kube.access_reviews import is_allowed, resource_access
from kohort.kube.client import Client
from kohort.kube.credentials import Certificate, Credentials, Static
from kohort.kube.resources import LEADER_WORKER_SETS, ROLLOUTS, TOKEN_REVIEWS, Resource
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.json_types import JsonObject
from kohort.rules.client_certificate import PeerCertificate, certificate_subject

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
REMEMBER_SECONDS: Final = 20.0
_REMEMBERED: Final = 60_000
"""Answers that are kept at most, of about 250 bytes each. Ten users with rights in 200 namespaces each, and 15 kinds,
ask for 30,000. When there are more, the oldest is asked again."""
_REVIEWS_AT_ONCE: Final = 16
_MOST_CALLERS: Final = 256
"""Clients that are kept, each with connections of its own; more only while more are in use."""
_SHORTEST_SECRET: Final = 16
AUTHENTICATED: Final = "system:authenticated"
ALL: Final = (*NEEDED, *OPTIONAL)


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ClientUse(msgspec.Struct):
    """Whether the client of a user may be closed: not while a request needs it, as a log that is followed does."""

    requests: int = 0
    """Those that need it now."""
    last: float = 0.0
    """When it was needed last."""

    @contextmanager
    def request(self) -> Iterator[None]:
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self.last = asyncio.get_running_loop().time()


class Caller(msgspec.Struct, frozen=True):
    """A user who has been authenticated, and the client that acts with this user's rights."""

    user: User
    client: Client
    use: ClientUse = msgspec.field(default_factory=ClientUse)


Name = TypeVar("Name")


async def make_room(known: Mapping[Name, Caller], newest: Caller, forget: Callable[[Name], Awaitable[None]]) -> None:
    """Closes the clients that were idle for longest while there are too many, and none that is in use."""
    with newest.use.request():
        while len(known) > _MOST_CALLERS:
            idle = [name for name, one in known.items() if not one.use.requests]
            if not idle:
                return
            await forget(min(idle, key=lambda one: known[one].use.last))


class ListRights(Protocol):
    async def namespaces(
        self, caller: Caller, known: Iterable[str], resource: Resource = LEADER_WORKER_SETS
    ) -> frozenset[str]:
        """Of these namespaces, those whose objects of this kind the caller may list."""
        ...

    async def readable(self, caller: Caller, namespace: str) -> frozenset[Resource]:
        """The resources that the caller may list in a namespace; empty if those are neither its sets nor its Rollouts:
        no page could be about it then."""
        ...

    async def may_list(self, caller: Caller, resource: Resource, namespace: str = "") -> bool: ...


class OwnRights:
    """The caches hold only what the caller may read."""

    async def namespaces(
        self, caller: Caller, known: Iterable[str], resource: Resource = LEADER_WORKER_SETS
    ) -> frozenset[str]:
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

    async def namespaces(
        self, caller: Caller, known: Iterable[str], resource: Resource = LEADER_WORKER_SETS
    ) -> frozenset[str]:
        names = list(known)
        if not names or await self.may_list(caller, resource):
            return frozenset(names)
        allowed = await asyncio.gather(*(self.may_list(caller, resource, one) for one in names))
        return frozenset(name for name, may in zip(names, allowed, strict=True) if may)

    async def readable(self, caller: Caller, namespace: str) -> frozenset[Resource]:
        if not any([await self._may_here(caller, one, namespace) for one in (LEADER_WORKER_SETS, ROLLOUTS)]):
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
            self._remember(name, allowed)
            return allowed

    def _remember(self, name: tuple[User, str, str], allowed: bool) -> None:
        """Answers lie in the order in which they end, so what has ended, or is the oldest, comes first."""
        now = asyncio.get_running_loop().time()
        known = self._known
        known.pop(name, None)
        while known and (len(known) >= _REMEMBERED or next(iter(known.values()))[1] <= now):
            del known[next(iter(known))]
        known[name] = (allowed, now + REMEMBER_SECONDS)

    async def _ask(self, user: User, resource: Resource, namespace: str) -> bool:
        shown: JsonObject = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        return await is_allowed(self._client, shown, resource_access("list", resource, namespace))


class TokenReviewer:
    """Turns a bearer token into a caller whose requests are made with that token."""

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client = client
        self._connection = connection
        self._known: dict[bytes, Caller] = {}
        self._until: dict[bytes, float] = {}
        """When the answer about a token must be asked for again."""

    def knows(self, token: str) -> bool:
        """Whether the token was accepted before; it may have ended since."""
        return _name(token) in self._known

    async def caller(self, token: str) -> Caller | None:
        """None if the API server does not accept the token."""
        now = asyncio.get_running_loop().time()
        if not token.isascii():
            return None
        name = _name(token)
        known = self._known.get(name)
        if known is not None:
            known.use.last = now
            if self._until[name] > now:
                return known
        review: JsonObject = await self._client.create(TOKEN_REVIEWS, {"spec": {"token": token}})
        status = review.get("status") or {}
        if not status.get("authenticated"):
            await self._forget(name)
            return None
        user = user_of(status.get("user") or {})
        known = self._known.get(name)
        # A webhook that authenticates may have taken the user out of a group since.
        caller = replace(known, user=user) if known is not None else self._new_caller(user, token)
        self._known[name], self._until[name] = caller, now + REMEMBER_SECONDS
        await make_room(self._known, caller, self._forget)
        return caller

    def _new_caller(self, user: User, token: str) -> Caller:
        transport = HttpsTransport(self._connection, Credentials(Static(bearer=token)))
        return Caller(user, Client(transport, field_manager="kohort-dashboard", user_agent="kohort-dashboard"))

    async def _forget(self, name: bytes) -> None:
        known = self._known.pop(name, None)
        if known is not None:
            del self._until[name]
            await known.client.close()

    async def close(self) -> None:
        for name in [*self._known]:
            await self._forget(name)


def _name(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


class ImpersonationCredentials(Credentials):
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


class ImpersonatingClients:
    """Callers in whose name the dashboard acts with its own credentials, and what proves that a form is theirs."""

    def __init__(self, transport: HttpsTransport, key: bytes) -> None:
        """`key` is what the tokens of forms are made with; clients must not know it."""
        self._transport = transport
        self._key = key
        self._known: dict[User, Caller] = {}

    async def caller(self, user: User) -> Caller:
        now = asyncio.get_running_loop().time()
        known = self._known.get(user)
        if known is None:
            known = self._known[user] = Caller(user, self._client(user))
            await make_room(self._known, known, self._forget)
        known.use.last = now
        return known

    async def _forget(self, user: User) -> None:
        await self._known.pop(user).client.close()

    def csrf(self, user: User) -> str:
        """What forms of a user carry: another one for each user."""
        return hmac.new(self._key, f"csrf {user.name}".encode(), hashlib.sha256).hexdigest()

    def _client(self, user: User) -> Client:
        transport = HttpsTransport(
            self._transport.connection, ImpersonationCredentials(self._transport.credentials, user)
        )
        return Client(transport, field_manager="kohort-dashboard", user_agent="kohort-dashboard")

    async def close(self) -> None:
        for one in self._known.values():
            await one.client.close()


class ProxyUsers(ImpersonatingClients):
    """Users whom a proxy in front has signed in, by OIDC for example. Its headers count only with the shared secret:
    without it, any client that reaches the dashboard past the proxy could name any user.

    A header that comes twice names no user: a proxy that adds its own behind that of the client has vouched for one of
    them only. Tokens of forms are made with another key than the secret: users see them, and could guess the secret
    by comparing, as often as they like.
    """

    SECRET: Final = "X-Kohort-Proxy-Secret"
    USER: Final = "X-Forwarded-User"
    GROUPS: Final = "X-Forwarded-Groups"

    def __init__(self, transport: HttpsTransport, secret: str) -> None:
        if len(secret) < _SHORTEST_SECRET:
            raise ValueError(f"the shared secret of the proxy must have at least {_SHORTEST_SECRET} characters")
        super().__init__(transport, secrets.token_bytes(32))
        self._secret = secret

    def user(self, headers: "CIMultiDictProxy[str]") -> User | None:
        """None if the secret is wrong or no user is named."""
        if any(len(headers.getall(one, ())) > 1 for one in (self.SECRET, self.USER, self.GROUPS)):
            return None
        if not equal_secrets(self._secret, headers.get(self.SECRET, "")):
            return None
        name = headers.get(self.USER, "").strip()
        if not name or not name.isprintable() or name.startswith("system:"):
            return None  # Users of the cluster itself do not sign in at a proxy.
        groups = [one.strip() for one in headers.get(self.GROUPS, "").split(",")]
        if not all(one.isprintable() for one in groups):
            return None
        given = tuple(one for one in groups if one and not one.startswith("system:"))
        return User(name, groups=(*given, AUTHENTICATED))


class CertificateUsers(ImpersonatingClients):
    """Users of client certificates, by the rule of Kubernetes: the common name is the user, organizations are groups.

    The handshake has verified the certificate against the authority. A connection may outlive it, so its end is looked
    at with every request. Browsers show certificates on their own, so forms carry a token as well.
    """

    def __init__(
        self, transport: HttpsTransport, is_current: Callable[[ssl.SSLObject | None], bool] = lambda connection: True
    ) -> None:
        """`is_current` says whether the authority of a connection's handshake counts still."""
        super().__init__(transport, secrets.token_bytes(32))
        self._is_current = is_current

    def user(self, certificate: PeerCertificate | None, connection: ssl.SSLObject | None = None) -> User | None:
        """None without a certificate, or if it has ended, names no user, or its authority was replaced."""
        if not self._is_current(connection):
            return None
        subject = certificate_subject(certificate)
        if subject is None or certificate is None:
            return None
        if clock.now().timestamp() > ssl.cert_time_to_seconds(str(certificate.get("notAfter", ""))):
            return None
        if not all(one.isprintable() for one in (subject.name, *subject.groups)):
            return None  # A line break would end the header of the impersonation, and begin another one.
        return User(subject.name, groups=(*subject.groups, AUTHENTICATED))


def equal_secrets(known: str, given: str) -> bool:
    """In a time that says nothing about where they differ. What comes in a header may be any bytes."""
    return hmac.compare_digest(known.encode(), given.encode(errors="surrogateescape"))


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
