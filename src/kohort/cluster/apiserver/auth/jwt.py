"""JSON Web Tokens, with ES256 only.

One algorithm, one key: what a token's header says about its algorithm is compared, never obeyed.
"""

import base64
import hashlib
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from kohort.objects.json_types import JsonObject

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

UNKNOWN: Final = "invalid bearer token"


class BadToken(Exception):
    """The token cannot be trusted. The message may be shown to the client that presented it."""


class Signer:
    """Signs and verifies with one P-256 key. The key is made on first use when none is given."""

    def __init__(self, key_pem: bytes | None = None) -> None:
        self._key_pem = key_pem
        self._verified = lru_cache(maxsize=4096)(self._verify)

    def sign(self, claims: JsonObject) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        header = {"alg": "ES256", "kid": self.key_id}
        signed = f"{_encode(msgspec.json.encode(header))}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def verify(self, token: str) -> JsonObject:
        """The claims of a token that we signed. Says nothing about its time or audience."""
        claims: JsonObject = msgspec.json.decode(self._verified(token))
        return claims

    @cached_property
    def key_id(self) -> str:
        return _encode(hashlib.sha256(self._public_der).digest())

    def jwks(self) -> JsonObject:
        numbers = self._key.public_key().public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _encode(numbers.x.to_bytes(32, "big")),
            "y": _encode(numbers.y.to_bytes(32, "big")),
        }
        return {"keys": [key]}

    def _verify(self, token: str) -> bytes:
        """The payload as bytes, so that what is cached cannot be changed."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        try:
            head, payload, signature = token.split(".")
            header = msgspec.json.decode(_decode(head), type=dict[str, str])
            content, raw = _decode(payload), _decode(signature)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadToken(UNKNOWN) from error
        if header.get("alg") != "ES256" or header.get("kid") != self.key_id or len(raw) != 64:
            raise BadToken(UNKNOWN)
        encoded = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._key.public_key().verify(encoded, f"{head}.{payload}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise BadToken(UNKNOWN) from error
        return content

    @cached_property
    def _key(self) -> "ec.EllipticCurvePrivateKey":
        from kohort.kube.certificate_issuing import load_key, new_key

        return load_key(self._key_pem or new_key())

    @cached_property
    def _public_der(self) -> bytes:
        from cryptography.hazmat.primitives import serialization

        encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        der: bytes = self._key.public_key().public_bytes(encoding, form)
        return der


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Strict: a second spelling of the same bytes would be a second token."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encode(data) != text:
        raise ValueError("not canonical base64url")
    return data
