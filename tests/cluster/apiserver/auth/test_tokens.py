"""Service account tokens: what is in them, how long they are good, and what ends them."""

import base64
import json
from collections.abc import Iterable

import pytest

from kohort.cluster.apiserver.auth.jwt import BadToken, Signer
from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.auth.tokens import ISSUER, TokenIssuer
from kohort.kube import clock
from kohort.kube.errors import ApiError
from kohort.objects.json_types import JsonObject


class Objects:
    """The objects of a cluster, by bucket, namespace and name."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], JsonObject] = {}

    def add(self, bucket: str, namespace: str, name: str, uid: str, **more: object) -> None:
        self.found[bucket, namespace, name] = {"metadata": {"name": name, "uid": uid}, **more}

    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return self.found.get((bucket, namespace, name))

    def list(self, bucket: str, namespace: str = "") -> Iterable[JsonObject]:
        raise AssertionError("not asked")


@pytest.fixture
def objects() -> Objects:
    found = Objects()
    found.add("serviceaccounts", "ns", "robot", "account-uid")
    found.add("pods", "ns", "pod", "pod-uid", spec={"serviceAccountName": "robot", "nodeName": "node-1"})
    found.add("pods", "ns", "stranger", "stranger-uid", spec={"serviceAccountName": "default"})
    found.add("secrets", "ns", "secret", "secret-uid")
    found.add("nodes", "", "node-1", "node-uid")
    return found


SIGNER = Signer()


@pytest.fixture
def issuer(objects: Objects) -> TokenIssuer:
    return TokenIssuer(objects, SIGNER, static={"secret-token": ADMIN})


def requested(issuer: TokenIssuer, **spec: object) -> str:
    token: str = issuer.request("ns", "robot", {"spec": spec})["status"]["token"]
    return token


def claims_of(token: str) -> JsonObject:
    payload = token.split(".")[1]
    claims: JsonObject = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def bound(kind: str, name: str, **more: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": kind, "name": name, **more}


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = clock.seconds() + seconds
    monkeypatch.setattr(clock, "seconds", lambda: now)


def test_the_claims_of_a_token_bound_to_a_pod(issuer: TokenIssuer) -> None:
    claims = claims_of(requested(issuer, boundObjectRef=bound("Pod", "pod"), expirationSeconds=700))
    issued = claims.pop("iat")
    assert claims.pop("jti")
    assert claims == {
        "aud": [ISSUER],
        "exp": issued + 700,
        "iss": ISSUER,
        "nbf": issued,
        "sub": "system:serviceaccount:ns:robot",
        "kubernetes.io": {
            "namespace": "ns",
            "serviceaccount": {"name": "robot", "uid": "account-uid"},
            "pod": {"name": "pod", "uid": "pod-uid"},
            "node": {"name": "node-1", "uid": "node-uid"},
        },
    }


def test_the_answer_to_a_token_request(issuer: TokenIssuer) -> None:
    answer = issuer.request("ns", "robot", {"spec": {}})
    assert answer["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert answer["metadata"].items() >= {"name": "robot", "namespace": "ns", "uid": "account-uid"}.items()
    lifetime = clock.parse_time(answer["status"]["expirationTimestamp"]) - clock.parse_time(
        answer["metadata"]["creationTimestamp"]
    )
    assert lifetime.total_seconds() == 3600


def test_whom_a_token_identifies(issuer: TokenIssuer) -> None:
    token = requested(issuer, boundObjectRef=bound("Pod", "pod"))
    user = issuer.verify(token).user
    assert (user.name, user.uid) == ("system:serviceaccount:ns:robot", "account-uid")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={claims_of(token)['jti']}",),
        "authentication.kubernetes.io/pod-name": ("pod",),
        "authentication.kubernetes.io/pod-uid": ("pod-uid",),
        "authentication.kubernetes.io/node-name": ("node-1",),
        "authentication.kubernetes.io/node-uid": ("node-uid",),
    }


def test_the_static_token_identifies_the_administrator(issuer: TokenIssuer) -> None:
    assert issuer.verify("secret-token").user == ADMIN


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        (None, ("serviceaccounts", "ns", "robot")),
        (bound("Pod", "pod"), ("serviceaccounts", "ns", "robot")),
        (bound("Pod", "pod"), ("pods", "ns", "pod")),
        (bound("Secret", "secret"), ("secrets", "ns", "secret")),
        (bound("Node", "node-1"), ("nodes", "", "node-1")),
    ],
)
def test_a_token_ends_with_the_objects_it_is_bound_to(
    issuer: TokenIssuer, objects: Objects, reference: JsonObject | None, place: tuple[str, str, str]
) -> None:
    token = requested(issuer, boundObjectRef=reference)
    issuer.verify(token)
    kept = objects.found.pop(place)
    with pytest.raises(BadToken):
        issuer.verify(token)
    objects.found[place] = {**kept, "metadata": {**kept["metadata"], "uid": "somebody-else"}}
    with pytest.raises(BadToken, match="does not match claim"):
        issuer.verify(token)


def test_a_pod_token_outlives_the_node_object(issuer: TokenIssuer, objects: Objects) -> None:
    token = requested(issuer, boundObjectRef=bound("Pod", "pod"))
    del objects.found["nodes", "", "node-1"]
    issuer.verify(token)


def test_a_token_expires(issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = requested(issuer, expirationSeconds=600)
    at(monkeypatch, 600)
    issuer.verify(token)
    at(monkeypatch, 62)
    with pytest.raises(BadToken, match="has expired"):
        issuer.verify(token)


def test_a_projected_token_lives_for_a_year_for_clients_that_never_read_it_again(
    issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = bound("Pod", "pod")
    claims = claims_of(requested(issuer, boundObjectRef=reference, expirationSeconds=3607))
    assert claims["exp"] - claims["iat"] == 365 * 24 * 3600
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == 3607
    other = claims_of(requested(issuer, boundObjectRef=reference, expirationSeconds=3607, audiences=["vault"]))
    assert other["exp"] - other["iat"] == 3607


def test_a_token_is_good_for_its_audience_only(issuer: TokenIssuer) -> None:
    token = requested(issuer, audiences=["vault", "other"])
    assert issuer.verify(token, ["x", "vault"]).audiences == ("vault",)
    with pytest.raises(BadToken) as refusal:
        issuer.verify(token)
    assert str(refusal.value) == (f'token audiences ["vault" "other"] is invalid for the target audiences ["{ISSUER}"]')


def tampered(token: str) -> Iterable[str]:
    head, payload, signature = token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    other = claims_of(token)
    other["sub"] = "system:serviceaccount:kube-system:root"
    forged = base64.urlsafe_b64encode(json.dumps(other).encode()).rstrip(b"=").decode()
    yield f"{head}.{forged}.{signature}"
    yield f"{none}.{payload}."
    yield f"{none}.{payload}.{signature}"
    yield f"{head}.{payload}"
    yield f"{head}.{payload}.{signature}="
    yield f"{head}.{payload}.{signature[:-4]}"
    yield f"{head}.{payload}.{'A' * len(signature)}"
    yield "nope"
    yield ""
    yield "..."
    yield token + "\n"


def test_no_tampered_token_is_accepted(issuer: TokenIssuer) -> None:
    for token in tampered(requested(issuer)):
        with pytest.raises(BadToken):
            issuer.verify(token)


def test_a_token_of_another_cluster_is_refused(issuer: TokenIssuer, objects: Objects) -> None:
    with pytest.raises(BadToken):
        issuer.verify(requested(TokenIssuer(objects, Signer())))


def refusal(issuer: TokenIssuer, document: JsonObject, name: str = "robot") -> tuple[int, str]:
    with pytest.raises(ApiError) as refused:
        issuer.request("ns", name, document)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 599}},
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
            "may not specify a duration less than 10 minutes",
        ),
        ({"spec": {"expirationSeconds": (1 << 32) + 1}}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"metadata": {"name": "x"}}, 422, "must match the service account name if specified"),
        ({"metadata": {"namespace": "x"}}, 422, "must match the service account namespace if specified"),
        ({"metadata": {"uid": "x"}}, 409, "does not match the UID of the service account (account-uid)"),
        ({"spec": {"boundObjectRef": bound("Pod", "gone")}}, 404, 'pods "gone" not found'),
        (
            {"spec": {"boundObjectRef": bound("Pod", "stranger")}},
            400,
            'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.',
        ),
        (
            {"spec": {"boundObjectRef": bound("Pod", "pod", uid="x")}},
            409,
            "The object might have been deleted and then recreated",
        ),
        (
            {"spec": {"boundObjectRef": bound("ConfigMap", "x")}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
    ],
)
def test_what_a_token_cannot_be_requested_for(
    issuer: TokenIssuer, document: JsonObject, code: int, message: str
) -> None:
    answer = refusal(issuer, document)
    assert answer[0] == code
    assert answer[1].endswith(message)


def test_a_token_for_an_account_that_does_not_exist(issuer: TokenIssuer) -> None:
    assert refusal(issuer, {}, "gone") == (404, 'serviceaccounts "gone" not found')


def test_the_published_key_verifies_the_tokens(issuer: TokenIssuer) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    def number(text: str) -> int:
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

    (key,) = issuer.jwks()["keys"]
    token = requested(issuer)
    signed, _, signature = token.rpartition(".")
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "==")) == {"alg": "ES256", "kid": key["kid"]}
    raw = base64.urlsafe_b64decode(signature + "==")
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    public.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
    assert issuer.discovery("https://127.0.0.1:6443")["jwks_uri"] == "https://127.0.0.1:6443/openid/v1/jwks"
