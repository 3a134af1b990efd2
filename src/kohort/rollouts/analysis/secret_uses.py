"""Which Secrets a ReleaseAnalysis has the operator read, and where it has them sent.

The operator reads a Secret with rights of its own and sends it to an address that the ReleaseAnalysis names. So a user
who may write the ReleaseAnalysis, but not read the Secret, could have it sent to a server of that user. Therefore the
webhook asks for the right to read the Secret whenever a use of it is new.

A use is the Secret, the key and who gets the value. An edit that leaves all three as they are needs no such right: a
team may edit `warmup` of an analysis whose token an administrator has named.

| changed | right needed |
|---|---|
| name or key of a Secret | yes |
| address, port, path, scheme; `tls`, which decides who can pass for the server | yes, of what is sent there |
| another source with the same Secret | yes |
| order of `notify`, its occasions; metrics, limits, times | no |
| a reference is removed | no |

A certificate authority is read, but not sent: only the reference to it counts.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from kohort.rollouts.analysis.analysis_types import AnalysisSpec, SecretKeyRef, Source, Tls


class RecipientKind(StrEnum):
    PODS = "pods"
    PROMETHEUS = "prometheus"
    WEBHOOK = "webhook"


class Recipient(msgspec.Struct, frozen=True):
    """Who gets the value of a Secret. The kind keeps an address of pods apart from one that a user wrote."""

    kind: RecipientKind
    address: str
    tls: Tls | None = None


class SecretUse(msgspec.Struct, frozen=True):
    field: str
    secret: SecretKeyRef
    recipient: Recipient | None
    """None of a Secret that is only read."""


def secret_uses(spec: AnalysisSpec) -> tuple[SecretUse, ...]:
    return (*_uses_of_source(spec.source), *_uses_of_notifications(spec))


def uses_to_review(new: AnalysisSpec, old: AnalysisSpec | None) -> tuple[SecretUse, ...]:
    """The uses for which the user who writes `new` needs the right to read the Secret. `old` is what is stored; None if
    there is nothing, or nothing that the operator can read."""
    known = {(use.secret, use.recipient) for use in secret_uses(old)} if old is not None else set()
    return tuple(use for use in secret_uses(new) if (use.secret, use.recipient) not in known)


def _uses_of_source(source: Source) -> Iterator[SecretUse]:
    """Of each source that is given, although only one may be: this does not depend on other checks."""
    if (scrape := source.scrape) is not None:
        address = f"{scrape.scheme}://POD:{scrape.port}{scrape.path}"
        pods = Recipient(RecipientKind.PODS, address, scrape.tls)
        yield from _token_and_authority("spec.source.scrape", scrape.token_secret_ref, pods)
    if (prometheus := source.prometheus) is not None:
        server = Recipient(RecipientKind.PROMETHEUS, prometheus.address, prometheus.tls)
        yield from _token_and_authority("spec.source.prometheus", prometheus.token_secret_ref, server)


def _token_and_authority(field: str, token: SecretKeyRef | None, recipient: Recipient) -> Iterator[SecretUse]:
    if token is not None:
        yield SecretUse(f"{field}.tokenSecretRef", token, recipient)
    if recipient.tls is not None and recipient.tls.ca_secret_ref is not None:
        yield SecretUse(f"{field}.tls.caSecretRef", recipient.tls.ca_secret_ref, None)


def _uses_of_notifications(spec: AnalysisSpec) -> Iterator[SecretUse]:
    for place, one in enumerate(spec.notify):
        if one.secret_ref is not None:
            receiver = Recipient(RecipientKind.WEBHOOK, one.url)
            yield SecretUse(f"spec.notify[{place}].secretRef", one.secret_ref, receiver)
