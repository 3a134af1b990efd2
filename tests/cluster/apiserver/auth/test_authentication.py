"""The user of a request, and impersonation."""

import base64

import pytest

from kohort.cluster.apiserver.auth.authentication import Authenticator, offered_subprotocols
from kohort.cluster.apiserver.auth.impersonation import impersonated
from kohort.cluster.apiserver.auth.model import ADMIN, ANONYMOUS, AccessRequest, User
from kohort.cluster.apiserver.auth.tokens import TokenIssuer
from kohort.kube.errors import ApiError, Unauthorized, forbidden
from kohort.objects.json_types import JsonObject


class NoObjects:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


AUTHENTICATOR = Authenticator(TokenIssuer(NoObjects(), static={"secret": ADMIN}))
CERTIFICATE = {
    "subject": ((("organizationName", "devs"),), (("organizationName", "ops"),), (("commonName", "bob"),)),
    "issuer": ((("commonName", "kohort"),),),
}
BOB = User("bob", ("devs", "ops", "system:authenticated"))


@pytest.mark.parametrize(
    ("headers", "certificate", "user"),
    [
        ({}, None, ANONYMOUS),
        ({}, {}, ANONYMOUS),
        ({}, CERTIFICATE, BOB),
        ({"authorization": "Bearer secret"}, None, ADMIN),
        ({"authorization": " bearer secret and more"}, None, ADMIN),
        ({"authorization": "bearer  secret"}, None, ANONYMOUS),
        ({"authorization": "Bearer"}, None, ANONYMOUS),
        ({"authorization": "Bearer secret"}, CERTIFICATE, BOB),
        ({"authorization": "Bearer wrong"}, CERTIFICATE, BOB),
        ({"authorization": "Basic c2VjcmV0"}, None, ANONYMOUS),
        ({}, {"subject": ((("organizationName", "devs"),),)}, ANONYMOUS),
    ],
)
def test_who_a_request_is_from(headers: dict[str, str], certificate: dict[str, object] | None, user: User) -> None:
    assert AUTHENTICATOR.authenticate(headers, certificate) == user


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "secret2"])
def test_a_bad_token_is_not_anonymous(token: str) -> None:
    with pytest.raises(Unauthorized):
        AUTHENTICATOR.authenticate({"authorization": f"Bearer {token}"})


def subprotocol(token: str) -> str:
    encoded = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
    return f"base64url.bearer.authorization.k8s.io.{encoded}"


def test_a_browser_sends_its_token_as_a_subprotocol_which_is_not_offered_further() -> None:
    headers = {"sec-websocket-protocol": f"v5.channel.k8s.io, {subprotocol('secret')}, v4.channel.k8s.io"}
    assert AUTHENTICATOR.authenticate(headers) == ADMIN
    assert offered_subprotocols(headers) == ["v5.channel.k8s.io", "v4.channel.k8s.io"]


@pytest.mark.parametrize("value", [subprotocol("wrong"), "base64url.bearer.authorization.k8s.io.!!!"])
def test_a_bad_token_among_the_subprotocols_is_refused(value: str) -> None:
    with pytest.raises(Unauthorized):
        AUTHENTICATOR.authenticate({"sec-websocket-protocol": value})


def asked_for(headers: dict[str, str]) -> tuple[User, list[tuple[str, str, str, str, str]]]:
    asked: list[tuple[str, str, str, str, str]] = []

    def note(request: AccessRequest) -> None:
        assert (request.user, request.verb) == (BOB, "impersonate")
        asked.append((request.group, request.plural, request.subresource, request.namespace, request.name))

    return impersonated(BOB, headers, note), asked


def test_without_the_headers_the_caller_stays_who_it_is() -> None:
    assert asked_for({}) == (BOB, [])


@pytest.mark.parametrize(
    ("headers", "user", "asked"),
    [
        ({"impersonate-user": "eve"}, User("eve", ("system:authenticated",)), [("", "users", "", "", "eve")]),
        (
            {"impersonate-user": "eve", "impersonate-group": "devs,ops"},
            User("eve", ("devs", "ops", "system:authenticated")),
            [("", "users", "", "", "eve"), ("", "groups", "", "", "devs"), ("", "groups", "", "", "ops")],
        ),
        (
            {"impersonate-user": "system:serviceaccount:ns:sa"},
            User(
                "system:serviceaccount:ns:sa",
                ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
            [("", "serviceaccounts", "", "ns", "sa")],
        ),
        (
            {"impersonate-user": "system:anonymous"},
            User("system:anonymous", ("system:unauthenticated",)),
            [("", "users", "", "", "system:anonymous")],
        ),
        (
            {"impersonate-user": "eve", "impersonate-uid": "7", "impersonate-extra-example.com%2fscope": "a"},
            User("eve", ("system:authenticated",), "7", {"example.com/scope": ("a",)}),
            [
                ("", "users", "", "", "eve"),
                ("authentication.k8s.io", "uids", "", "", "7"),
                ("authentication.k8s.io", "userextras", "example.com/scope", "", "a"),
            ],
        ),
    ],
)
def test_whom_a_caller_acts_as_and_what_it_must_be_allowed(
    headers: dict[str, str], user: User, asked: list[tuple[str, str, str, str, str]]
) -> None:
    assert asked_for(headers) == (user, asked)


def test_a_refused_impersonation_is_refused() -> None:
    def refuse(request: AccessRequest) -> None:
        raise forbidden("users", request.name, "no")

    with pytest.raises(ApiError) as refusal:
        impersonated(BOB, {"impersonate-user": "eve"}, refuse)
    assert refusal.value.code == 403


def test_groups_without_a_user_make_no_sense() -> None:
    with pytest.raises(ApiError):
        asked_for({"impersonate-group": "system:masters"})
