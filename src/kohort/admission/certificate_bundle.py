"""A serving certificate with everything around it."""

from datetime import datetime

import msgspec


class Bundle(msgspec.Struct, frozen=True):
    """Everything in PEM."""

    ca_certificate: bytes
    """What clients should trust: the authority that signed, and possibly the one before it."""
    ca_key: bytes
    certificate: bytes
    key: bytes

    @property
    def expires(self) -> datetime:
        from cryptography import x509

        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc
