"""Bearer tokens: the administrator's static one, and those of service accounts.

A service account token is a signed statement about an account and, when it is bound, about a pod, secret or node. It is
good only while these objects exist with the uids it names, so deleting a pod ends its tokens.
"""

import hmac
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from kohort.cluster.apiserver.auth.jwt import UNKNOWN, BadToken, Signer
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.auth.rbac_rules import quoted
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import clock, errors
from kohort.objects import field_errors
from kohort.objects.json_types import JsonObject

ISSUER = "https://kubernetes.default.svc"
DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
LEEWAY_SECONDS = 60
"""A deleted object still vouches for this long, and clocks may differ by as much."""
PROJECTED_SECONDS = 3607
"""What the ServiceAccount admission step asks for. Clients that never read the file again would fail after an hour;
such a token lives for a year, as on other clusters."""
EXTENDED_SECONDS = 365 * 24 * 3600

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class TokenBinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claim `kubernetes.io`: the objects that a token is bound to."""

    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None
    warnafter: int | None = None


class Claims(msgspec.Struct, frozen=True):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    kubernetes: TokenBinding = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str


class VerifiedToken(msgspec.Struct, frozen=True):
    """A good token: who it is, and for which of the wanted audiences it is meant."""

    user: User
    audiences: tuple[str, ...]


class TokenIssuer:
    def __init__(
        self,
        reader: Reader,
        signer: Signer | None = None,
        *,
        static: Mapping[str, User] | None = None,
        issuer: str = ISSUER,
    ) -> None:
        """`static` are tokens that are good for ever, with whom they belong to."""
        self._reader = reader
        self._signer = signer or Signer()
        self._static = dict(static or {})
        self.issuer = issuer
        self.audiences = (issuer,)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> VerifiedToken:
        """Who presents this token to one of `audiences` (ours, when none are given). Raises BadToken."""
        wanted = tuple(audiences) or self.audiences
        for known, user in self._static.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return VerifiedToken(user, wanted)
        claims = self._checked_claims(token)
        meant = tuple(audience for audience in wanted if audience in claims.aud)
        if not meant:
            raise BadToken(f"token audiences {quoted(claims.aud)} is invalid for the target audiences {quoted(wanted)}")
        self._check_objects(claims.kubernetes)
        return VerifiedToken(_user(claims), meant)

    def request(self, namespace: str, name: str, document: JsonObject) -> JsonObject:
        """Answer a TokenRequest on the account `namespace/name`. `document` is the decoded body; returns the answer."""
        metadata = document.get("metadata") or {}
        self._check_identity(metadata, namespace, name)
        account = self._reader.get("serviceaccounts", namespace, name)
        if account is None:
            raise errors.not_found("serviceaccounts", name)
        uid = account["metadata"]["uid"]
        given = metadata.get("uid") or uid
        if given != uid:
            detail = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
            raise errors.conflict("TokenRequest", name, detail, "authentication.k8s.io")
        spec = {"audiences": list(self.audiences), "expirationSeconds": DEFAULT_SECONDS, **(document.get("spec") or {})}
        spec["audiences"] = spec["audiences"] or list(self.audiences)
        seconds = _checked_seconds(spec["expirationSeconds"])
        binding = self._binding(namespace, name, uid, spec.get("boundObjectRef"))
        token = self._sign(binding, seconds, spec["audiences"])
        expires = clock.format_time(clock.now() + timedelta(seconds=seconds))
        created = {"creationTimestamp": clock.timestamp(), "name": name, "namespace": namespace, "uid": uid}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**metadata, **created},
            "spec": {**spec, "boundObjectRef": spec.get("boundObjectRef")},
            "status": {"token": token, "expirationTimestamp": expires},
        }

    def jwks(self) -> JsonObject:
        return self._signer.jwks()

    def discovery(self, server: str) -> JsonObject:
        """`/.well-known/openid-configuration`; `server` is the address under which the keys are found."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{server}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _sign(self, binding: TokenBinding, seconds: int, audiences: Sequence[str]) -> str:
        now = int(clock.seconds())
        lifetime = seconds
        if binding.pod is not None and seconds == PROJECTED_SECONDS and set(audiences) <= set(self.audiences):
            binding = msgspec.structs.replace(binding, warnafter=now + seconds)
            lifetime = EXTENDED_SECONDS
        claims = Claims(
            aud=list(audiences),
            exp=now + lifetime,
            iat=now,
            iss=self.issuer,
            jti=str(uuid.uuid4()),
            kubernetes=binding,
            nbf=now,
            sub=_account_user(binding.namespace, binding.serviceaccount.name),
        )
        return self._signer.sign(msgspec.to_builtins(claims))

    def _checked_claims(self, token: str) -> Claims:
        try:
            claims = msgspec.convert(self._signer.verify(token), Claims)
        except msgspec.ValidationError as error:
            raise BadToken(UNKNOWN) from error
        now = clock.seconds()
        if claims.iss != self.issuer:
            raise BadToken(UNKNOWN)
        if now > claims.exp + LEEWAY_SECONDS:
            raise BadToken("service account token has expired")
        if now < claims.nbf - LEEWAY_SECONDS:
            raise BadToken("service account token is not valid yet")
        return claims

    def _check_objects(self, binding: TokenBinding) -> None:
        account = binding.serviceaccount
        self._check_object("serviceaccounts", binding.namespace, account, "service account")
        if binding.secret is not None:
            self._check_object("secrets", binding.namespace, binding.secret, "secret")
        if binding.pod is not None:
            self._check_object("pods", binding.namespace, binding.pod, "pod")
        elif binding.node is not None:
            self._check_object("nodes", "", binding.node, "node")

    def _check_object(self, bucket: str, namespace: str, reference: Reference, word: str) -> None:
        found = self._reader.get(bucket, namespace, reference.name)
        if found is None:
            raise BadToken("service account token has been invalidated")
        metadata = found["metadata"]
        if metadata["uid"] != reference.uid:
            raise BadToken(f"{word} UID ({metadata['uid']}) does not match claim ({reference.uid})")
        deleted = metadata.get("deletionTimestamp")
        if deleted and clock.parse_time(deleted).timestamp() < clock.seconds() - LEEWAY_SECONDS:
            raise BadToken("service account token has been invalidated")

    def _check_identity(self, metadata: JsonObject, namespace: str, name: str) -> None:
        for field, given, wanted in (
            ("name", metadata.get("name"), name),
            ("namespace", metadata.get("namespace"), namespace),
        ):
            if given and given != wanted:
                detail = f"must match the service account {field} if specified"
                problem = field_errors.invalid(f"metadata.{field}", given, detail)
                raise errors.invalid("TokenRequest", name, [problem], "authentication.k8s.io")

    def _binding(self, namespace: str, name: str, uid: str, reference: JsonObject | None) -> TokenBinding:
        account = Reference(name, uid)
        if not reference:
            return TokenBinding(namespace, account)
        kind, group = reference.get("kind", ""), _group(reference.get("apiVersion", ""))
        if group or kind not in ("Pod", "Secret", "Node"):
            version = reference.get("apiVersion", "").rpartition("/")[2]
            raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        bound = self._bound_object(namespace, kind, reference)
        found = Reference(bound["metadata"]["name"], bound["metadata"]["uid"])
        if kind == "Secret":
            return TokenBinding(namespace, account, secret=found)
        if kind == "Node":
            return TokenBinding(namespace, account, node=found)
        if bound["spec"].get("serviceAccountName") != name:
            raise errors.bad_request(
                f'cannot bind token for serviceaccount "{name}" to pod running with different serviceaccount name.'
            )
        return TokenBinding(namespace, account, pod=found, node=self._node_of(bound))

    def _bound_object(self, namespace: str, kind: str, reference: JsonObject) -> JsonObject:
        plural = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}[kind]
        bound = self._reader.get(plural, "" if kind == "Node" else namespace, reference.get("name", ""))
        if bound is None:
            raise errors.not_found(plural, reference.get("name", ""))
        wanted = reference.get("uid")
        if wanted and wanted != bound["metadata"]["uid"]:
            detail = (
                f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict(kind, reference["name"], detail)
        return bound

    def _node_of(self, pod: JsonObject) -> Reference | None:
        name = pod["spec"].get("nodeName", "")
        if not name:
            return None
        node = self._reader.get("nodes", "", name)
        return Reference(name, node["metadata"]["uid"] if node else "")


def account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _account_user(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _user(claims: Claims) -> User:
    binding = claims.kubernetes
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.jti}",)}
    for word, reference in (("pod", binding.pod), ("node", binding.node)):
        if reference is not None:
            extra[f"authentication.kubernetes.io/{word}-name"] = (reference.name,)
            if reference.uid:
                extra[f"authentication.kubernetes.io/{word}-uid"] = (reference.uid,)
    return User(
        _account_user(binding.namespace, binding.serviceaccount.name),
        (*account_groups(binding.namespace), "system:authenticated"),
        binding.serviceaccount.uid,
        extra,
    )


def _checked_seconds(seconds: int) -> int:
    problem = ""
    if seconds < MIN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = field_errors.invalid("spec.expirationSeconds", seconds, problem)
        raise errors.invalid("TokenRequest", "", [error], "authentication.k8s.io")
    return seconds


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
