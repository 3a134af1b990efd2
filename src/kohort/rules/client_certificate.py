"""Whose client certificate it is, by the rule of Kubernetes.

| attribute of the subject | is |
|---|---|
| common name, the last one if there are several | the name of the user |
| each organization | a group of the user |

A certificate without a common name names no user. Whether the certificate is valid is decided before, at the handshake.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

PeerCertificate: TypeAlias = Mapping[str, object]
"""A verified client certificate, as `ssl.SSLObject.getpeercert()` returns it."""


class CertificateSubject(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()


def certificate_subject(certificate: PeerCertificate | None) -> CertificateSubject | None:
    """
    >>> certificate_subject({"subject": ((("organizationName", "ops"),), (("commonName", "ada"),))})
    CertificateSubject(name='ada', groups=('ops',))
    """
    name = ""
    groups: list[str] = []
    for key, value in _attributes((certificate or {}).get("subject")):
        if key == "commonName":
            name = value
        elif key == "organizationName":
            groups.append(value)
    return CertificateSubject(name, tuple(groups)) if name else None


def _attributes(subject: object) -> Iterable[tuple[str, str]]:
    """The attributes of a distinguished name: a tuple of tuples of pairs, in the order of the certificate."""
    if isinstance(subject, tuple):
        for relative_name in subject:
            yield from relative_name
