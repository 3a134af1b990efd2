"""Who may use the node's API: decided by the cluster's authorizer, as a kubelet does it.

A client certificate, signed by the cluster's authority, only identifies the user (CN is the name, O the groups), and so
does a bearer token (`token_authentication`). Whether the user may do something, the API server decides in answer to a
SubjectAccessReview. No user name is special: certificates for any name can be requested from a cluster. Only the group
`system:masters` needs no question, as it may do everything everywhere.

| path                                  | verb     | resource        |
|---------------------------------------|----------|-----------------|
| `/metrics`                            | `get`    | `nodes/metrics` |
| `/stats`                              | `get`    | `nodes/stats`   |
| `/healthz`                            | `get`    | `nodes/healthz` |
| `/pods`                               | `get`    | `nodes/pods`    |
| `/containerLogs`                      | `get`    | `nodes/proxy`   |
| `/exec`, `/attach`, `/portForward`    | `create` | `nodes/proxy`   |
| anything else                         | `create` | `nodes/proxy`   |

A WebSocket begins with a GET, but it runs commands all the same: so the method of a request does not choose the verb.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kohort.kube.access_reviews import access_review, resource_access, says_yes
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.log import Log
from kohort.kube.resources import NODES, SUBJECT_ACCESS_REVIEWS
from kohort.objects.json_types import JsonObject
from kohort.rules.client_certificate import PeerCertificate, certificate_subject

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
ALLOWED_SECONDS: Final = 300.0
DENIED_SECONDS: Final = 30.0
MOST_REMEMBERED: Final = 1024
_log = Log(part="node")


class ClientUser(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Access(msgspec.Struct, frozen=True):
    """What a request to a node needs."""

    verb: str
    subresource: str


class CannotAuthorize(Exception):
    """The API server did not answer whether a user may do something."""


def user_of(certificate: PeerCertificate | None) -> ClientUser | None:
    """Whose client certificate it is, already verified."""
    subject = certificate_subject(certificate)
    return ClientUser(subject.name, subject.groups) if subject is not None else None


def access_of(path: str) -> Access:
    """
    >>> access_of("/exec/default/web/c"), access_of("/metrics")
    (Access(verb='create', subresource='proxy'), Access(verb='get', subresource='metrics'))
    """
    match path.split("/")[1:2]:
        case ["metrics"] | ["stats"] | ["healthz"] | ["pods"] as found:
            return Access("get", found[0])
        case ["containerLogs"]:
            return Access("get", "proxy")
        case _:
            return Access("create", "proxy")


def review_of(user: ClientUser, access: Access, node: str) -> JsonObject:
    described = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(dict.fromkeys([*user.groups, AUTHENTICATED])),
        "extra": {name: list(values) for name, values in user.extra},
    }
    return access_review(described, resource_access(access.verb, NODES, name=node, subresource=access.subresource))


class Authorizer:
    """Asks, and remembers answers for a while, as long as a kubelet would."""

    def __init__(self, ask: Callable[[JsonObject], Awaitable[JsonObject]], node: str) -> None:
        self._ask = ask
        self._node = node
        self._known: dict[tuple[ClientUser, Access], tuple[float, bool]] = {}

    @classmethod
    def of_cluster(cls, client: Client, node: str) -> "Authorizer":
        return cls(lambda review: client.create(SUBJECT_ACCESS_REVIEWS, review), node)

    async def allows(self, user: ClientUser, path: str) -> bool:
        """Raises CannotAuthorize."""
        if MASTERS in user.groups:
            return True
        key, now = (user, access_of(path)), asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        try:
            answer = await self._ask(review_of(*key, self._node))
        except (ApiError, OSError) as problem:
            _log.warning("failed to create a SubjectAccessReview", user=user.name, problem=str(problem))
            raise CannotAuthorize(
                f"the API server did not answer whether {user.name!r} may do this: {problem}"
            ) from None
        allowed = says_yes(answer)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = (now + (ALLOWED_SECONDS if allowed else DENIED_SECONDS), allowed)
        return allowed
