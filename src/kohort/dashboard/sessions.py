"""Sessions of browsers: how one begins, what proves that a request belongs to it, and when it ends.

| | on a laptop | in a cluster |
|---|---|---|
| a session begins with | the one-time link that the command prints | a bearer token in the form of the login page |
| it ends | after `IDLE_SECONDS` without a request, at a logout, with the process | also when the token ends |

Users whom a proxy or a client certificate names with each request need no session of this kind, and cannot log out.

A browser keeps the session in a cookie that scripts cannot read, and that it sends neither to other sites nor without
encryption (browsers count loopback addresses as encrypted). A form carries a token of the session as well (CSRF),
because a cookie alone does not show that the user wanted the request.
"""

import asyncio
import secrets
from typing import Final

import msgspec

from kohort.dashboard.access import Caller, equal_secrets

COOKIE: Final = "kohort_session"
IDLE_SECONDS: Final = 8 * 3600.0
MOST: Final = 512
"""Sessions at once; the one that was idle for longest goes first."""
MOST_OF_USER: Final = 16
"""Sessions of one user, who would drive others out otherwise."""


class Session(msgspec.Struct):
    id: str
    csrf: str
    caller: Caller
    token: str = ""
    """The bearer token that it began with; empty on a laptop."""
    last_used: float = 0.0
    notice: str = ""
    """What the next page says first: the result of an action."""
    sees_nodes: bool = False
    """The user may list nodes, as far as was asked: pages of errors offer nodes by that."""

    def accepts(self, csrf: str) -> bool:
        return equal_secrets(self.csrf, csrf)


class Sessions:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def begin(self, caller: Caller, token: str = "") -> Session:
        self._drop_idle()
        own = [one for one in self._sessions.values() if one.caller.user == caller.user]
        if len(own) >= MOST_OF_USER:
            self.end(min(own, key=lambda one: one.last_used))
        while len(self._sessions) >= MOST:
            self.end(min(self._sessions.values(), key=lambda one: one.last_used))
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), caller, token, _now())
        self._sessions[session.id] = session
        return session

    def find(self, id: str) -> Session | None:
        session = self._sessions.get(id)
        if session is None:
            return None
        if _now() - session.last_used > IDLE_SECONDS:
            self.end(session)
            return None
        session.last_used = _now()
        return session

    def __contains__(self, id: str) -> bool:
        return id in self._sessions

    def end(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def _drop_idle(self) -> None:
        for one in [*self._sessions.values()]:
            if _now() - one.last_used > IDLE_SECONDS:
                self.end(one)


class OneTimeLink:
    """A key that opens one session. The next key exists as soon as one was used, for a second browser."""

    def __init__(self) -> None:
        self._key = secrets.token_urlsafe(32)

    @property
    def key(self) -> str:
        return self._key

    def use(self, key: str) -> bool:
        if not equal_secrets(self._key, key):
            return False
        self._key = secrets.token_urlsafe(32)
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()
