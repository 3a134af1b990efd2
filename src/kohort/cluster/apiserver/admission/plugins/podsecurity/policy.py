"""Which level a namespace enforces, audits and warns about, as its labels say it."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.objects.field_errors import FieldError, invalid

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""From lax to strict."""

LATEST: Final = 10**6
"""Newer than any minor version."""

_PREFIX: Final = "pod-security.kubernetes.io/"
_minor_of = re.compile(r"v1\.([0-9]|[1-9][0-9]*)").fullmatch


class Standard(msgspec.Struct, frozen=True):
    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


class Policy(msgspec.Struct, frozen=True):
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def allows_everything(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


PRIVILEGED_POLICY: Final = Policy()


def policy_of(labels: Mapping[str, str]) -> tuple[Policy, list[FieldError]]:
    """A label that cannot be read enforces the strictest level, and neither audits nor warns."""
    if not any(key.startswith(_PREFIX) for key in labels):
        return PRIVILEGED_POLICY, []
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", errors, on_error=RESTRICTED)
    audit = _standard(labels, "audit", errors, on_error=PRIVILEGED)
    warn = _standard(labels, "warn", errors, on_error=PRIVILEGED)
    # who enforces without a word about warnings is warned of the same
    if f"{_PREFIX}warn" not in labels and labels.get(f"{_PREFIX}enforce") in LEVELS:
        minor = warn.minor if f"{_PREFIX}warn-version" in labels else enforce.minor
        if stricter(enforce.level, warn.level):
            warn = Standard(enforce.level, minor)
    return Policy(enforce, audit, warn), errors


def stricter(level: str, other: str) -> bool:
    return LEVELS.index(level) > LEVELS.index(other)


def _standard(labels: Mapping[str, str], mode: str, errors: list[FieldError], *, on_error: str) -> Standard:
    level, minor = PRIVILEGED, LATEST
    label = f"{_PREFIX}{mode}"
    found = labels.get(label)
    if found is not None:
        level = found
        if found not in LEVELS:
            errors.append(invalid(f"metadata.labels[{label}]", found, f"must be one of {', '.join(LEVELS)}"))
            level = on_error
    label = f"{_PREFIX}{mode}-version"
    found = labels.get(label)
    if found is not None and found != "latest":
        match = _minor_of(found)
        if match is None:
            errors.append(invalid(f"metadata.labels[{label}]", found, 'must be "latest" or "v1.x"'))
        else:
            minor = int(match[1])
    return Standard(level, minor)
