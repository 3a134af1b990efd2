"""Acting as somebody else: the Impersonate-* headers, each of which must be allowed by itself."""

from urllib.parse import unquote

from kohort.cluster.apiserver.auth.model import AccessRequest, User
from kohort.cluster.apiserver.endpoints import access
from kohort.cluster.apiserver.endpoints.call import Authorizer
from kohort.kube import errors
from kohort.kube.http import Request

_EXTRA = "impersonate-extra-"
_SERVICE_ACCOUNT = "system:serviceaccount:"


def impersonated(request: Request, user: User, authorizer: Authorizer) -> User:
    """The identity to act as: the caller's own unless the headers say otherwise."""
    headers = request.headers
    name = headers.get("impersonate-user", "")
    groups = _values(headers.get("impersonate-group", ""))
    uid = headers.get("impersonate-uid", "")
    extra = {
        unquote(key[len(_EXTRA) :]).lower(): tuple(_values(value))
        for key, value in headers.items()
        if key.startswith(_EXTRA)
    }
    if not (name or groups or uid or extra):
        return user
    if not name:
        asked = groups or ([uid] if uid else sorted(extra))
        raise errors.bad_request(f"requested {asked} without impersonating a user")
    _check(authorizer, user, _subject(user, name))
    for group in groups:
        _check(authorizer, user, AccessRequest(user, "impersonate", plural="groups", name=group))
    if uid:
        _check(authorizer, user, _authentication(user, "uids", uid))
    for key, values in extra.items():
        for value in values:
            _check(authorizer, user, _authentication(user, "userextras", value, key))
    return User(name, tuple(_with_implied(name, groups)), uid, extra)


def _values(header: str) -> list[str]:
    return [value for value in header.split("\n") if value]


def _subject(user: User, name: str) -> AccessRequest:
    if name.startswith(_SERVICE_ACCOUNT) and name.count(":") == 3:
        _, _, namespace, account = name.split(":")
        return AccessRequest(user, "impersonate", plural="serviceaccounts", namespace=namespace, name=account)
    return AccessRequest(user, "impersonate", plural="users", name=name)


def _authentication(user: User, plural: str, name: str, subresource: str = "") -> AccessRequest:
    return AccessRequest(
        user, "impersonate", "authentication.k8s.io", "v1", plural=plural, subresource=subresource, name=name
    )


def _check(authorizer: Authorizer, user: User, request: AccessRequest) -> None:
    access.check(authorizer, request)


def _with_implied(name: str, groups: list[str]) -> list[str]:
    implied = list(groups)
    if name.startswith(_SERVICE_ACCOUNT) and name.count(":") == 3 and not groups:
        implied = ["system:serviceaccounts", f"system:serviceaccounts:{name.split(':')[2]}"]
    if name == "system:anonymous":
        if "system:unauthenticated" not in implied:
            implied.append("system:unauthenticated")
    elif "system:authenticated" not in implied:
        implied.append("system:authenticated")
    return implied
