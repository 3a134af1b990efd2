"""Which pod the StatefulSet controller of Kubernetes could not create, and why, where only its events say so.

A StatefulSet has no condition for this. The words are those of Kubernetes, whose versions differ in the first letter;
the embedded controller has the same. No other module looks into messages of these events.
"""

import re
from typing import Final

import msgspec

_FAILED: Final = re.compile(
    r"[Cc]reate (?:Claim \S+ for )?Pod (?P<pod>\S+) in StatefulSet \S+ failed error: (?P<cause>.*)", re.DOTALL
)


class FailedCreate(msgspec.Struct, frozen=True):
    pod: str
    cause: str
    """The message of the API server."""


def failed_create(message: str) -> FailedCreate | None:
    """
    >>> failed_create('create Pod llm-0 in StatefulSet llm failed error: pods "llm-0" is forbidden')
    FailedCreate(pod='llm-0', cause='pods "llm-0" is forbidden')
    """
    found = _FAILED.fullmatch(message)
    return FailedCreate(found["pod"], found["cause"]) if found else None
