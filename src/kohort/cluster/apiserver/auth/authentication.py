"""The user of a request: from a client certificate, a bearer token, or anonymous.

A certificate counts before a token. A token that is presented must be good: falling back to anonymous access would hide
from the caller that it has expired.
"""

import base64
from collections.abc import Mapping, Sequence

from kohort.cluster.apiserver.auth.jwt import BadToken
from kohort.cluster.apiserver.auth.model import ANONYMOUS, User
from kohort.cluster.apiserver.auth.tokens import TokenIssuer
from kohort.kube import errors
from kohort.rules.client_certificate import PeerCertificate, certificate_subject

WEBSOCKET_BEARER = "base64url.bearer.authorization.k8s.io."
AUTHENTICATED = "system:authenticated"


class Authenticator:
    def __init__(self, tokens: TokenIssuer) -> None:
        self._tokens = tokens

    def authenticate(self, headers: Mapping[str, str], peer_certificate: PeerCertificate | None = None) -> User:
        """`headers` have lower-case names. Raises 401 for credentials that are not good."""
        if peer_certificate:
            user = certificate_user(peer_certificate)
            if user is not None:
                return user
        token = bearer_token(headers)
        if token is None:
            return ANONYMOUS
        try:
            return self._tokens.verify(token).user
        except BadToken as error:
            raise errors.unauthorized() from error


def certificate_user(certificate: PeerCertificate) -> User | None:
    subject = certificate_subject(certificate)
    return User(subject.name, (*subject.groups, AUTHENTICATED)) if subject is not None else None


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token in `Authorization`, or the one that a browser hides among the WebSocket subprotocols."""
    scheme, token, *_ = *headers.get("authorization", "").strip().split(" "), ""
    if scheme.lower() == "bearer" and token:
        return token
    hidden = [item for item in _subprotocols(headers) if item.startswith(WEBSOCKET_BEARER)]
    if not hidden:
        return None
    encoded = hidden[0].removeprefix(WEBSOCKET_BEARER)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise errors.unauthorized() from error


def offered_subprotocols(headers: Mapping[str, str]) -> list[str]:
    """The WebSocket subprotocols without the one that carries the token, which must never be chosen or logged."""
    return [item for item in _subprotocols(headers) if not item.startswith(WEBSOCKET_BEARER)]


def _subprotocols(headers: Mapping[str, str]) -> Sequence[str]:
    return [item.strip() for item in headers.get("sec-websocket-protocol", "").split(",") if item.strip()]
