"""Impersonation: acting as another user, for users that may.

The header `Impersonate-User` names whom; groups, uid and extra fields follow in headers of their own. Each of them is a
resource on which the real caller needs the verb `impersonate`. The error names the narrower permission that
would have been enough for this one request: `impersonate-on:<mode>:<verb>` on what is requested.
"""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

import msgspec

from kohort.cluster.apiserver.auth.authentication import AUTHENTICATED
from kohort.cluster.apiserver.auth.model import ANONYMOUS, AccessRequest, User
from kohort.cluster.apiserver.auth.tokens import account_groups
from kohort.kube import errors

PREFIX = "impersonate-"
USER = "impersonate-user"
GROUP = "impersonate-group"
UID = "impersonate-uid"
EXTRA = "impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"
ACCOUNT = "system:serviceaccount:"
NODE = "system:node:"
UNAUTHENTICATED = "system:unauthenticated"


def impersonated(
    caller: User,
    headers: Mapping[str, str],
    check: Callable[[AccessRequest], None],
    wanted: Callable[[], AccessRequest] | None = None,
) -> User:
    """Whom the request is to be carried out as. `check` raises the refusal when the caller may not do something;
    `wanted` is what is to be done in the name of the other.

    `headers` have lower-case names; repeated ones are joined with commas.
    """
    if PREFIX not in "\n".join(headers):
        return caller  # as nearly always, and nothing was looked at one by one
    name = headers.get(USER, "")
    groups = _listed(headers.get(GROUP, ""))
    uid = headers.get(UID, "")
    extra = {
        unquote(key.removeprefix(EXTRA)): _listed(value) for key, value in headers.items() if key.startswith(EXTRA)
    }
    if not name:
        if groups or uid or extra:
            raise errors.bad_request(f"requested {_shown(uid, groups, extra)} without impersonating a user name")
        return caller
    try:
        for request in _requests(caller, name, groups, uid, extra):
            check(request)
    except errors.Forbidden:
        mode = _mode(name, only_name=not (groups or uid or extra))
        if not mode or wanted is None:
            raise
        narrow = wanted()
        check(msgspec.structs.replace(narrow, user=caller, verb=f"impersonate-on:{mode}:{narrow.verb}"))
        raise
    return User(name, _completed(name, groups), uid, extra)


def _mode(name: str, *, only_name: bool) -> str:
    """Which of the narrower permissions is about a user of that name; some are about names alone."""
    special = "serviceaccount" if _account(name) else "arbitrary-node" if name.startswith(NODE) else ""
    if special:
        return special if only_name else ""
    return "user-info"


def _shown(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]) -> str:
    """The wanted identity as the real server prints it."""

    def texts(items: tuple[str, ...]) -> str:
        return "[]string{" + ", ".join(f'"{item}"' for item in items) + "}" if items else "[]string(nil)"

    entries = ", ".join(f'"{key}":{texts(values)}' for key, values in sorted(extra.items()))
    mapped = "map[string][]string{" + entries + "}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:"{uid}", Groups:{texts(groups)}, Extra:{mapped}}}'


def _requests(
    caller: User, name: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[AccessRequest]:
    if account := _account(name):
        namespace, short = account
        yield AccessRequest(caller, "impersonate", plural="serviceaccounts", namespace=namespace, name=short)
    else:
        yield AccessRequest(caller, "impersonate", plural="users", name=name)
    for group in groups:
        yield AccessRequest(caller, "impersonate", plural="groups", name=group)
    if uid:
        yield AccessRequest(caller, "impersonate", AUTHENTICATION, plural="uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield AccessRequest(caller, "impersonate", AUTHENTICATION, "", "userextras", key, name=value)


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that all users of that name have, unless groups were given that say otherwise."""
    account = _account(name)
    if account and not groups:
        groups = account_groups(account[0])
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, AUTHENTICATED)


def _account(name: str) -> tuple[str, str] | None:
    parts = name.removeprefix(ACCOUNT).split(":")
    return (parts[0], parts[1]) if name.startswith(ACCOUNT) and len(parts) == 2 and all(parts) else None


def _listed(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())
