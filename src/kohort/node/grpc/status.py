"""Codes and errors of calls, and how a method is described."""

import math
from enum import IntEnum
from typing import Generic, TypeVar
from urllib.parse import quote, unquote

import msgspec

from kohort.node.grpc.codec import Message

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Code(IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(OSError):
    """A call has failed: `code` says how, `detail` is the text of the side that failed it."""

    def __init__(self, code: Code, detail: str, method: str = "") -> None:
        super().__init__(f"{method}: {code.name}: {detail}" if method else f"{code.name}: {detail}")
        self.code = code
        self.detail = detail


class Method(msgspec.Struct, Generic[Q, A], frozen=True):
    """A method of a service, by its path: `/runtime.v1.RuntimeService/Version`."""

    path: str
    request: type[Q]
    answer: type[A]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def code_of(text: str) -> Code:
    """From the trailer `grpc-status`; a code that is not known counts as UNKNOWN."""
    try:
        return Code(int(text))
    except ValueError:
        return Code.UNKNOWN


def escaped(message: str) -> str:
    """As the trailer `grpc-message` holds it."""
    return quote(message, safe=" !#$&'()*+,/:;=?@[]\"<>\\^`{|}~")


def unescaped(message: str) -> str:
    return unquote(message, errors="replace")


UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def timeout_text(seconds: float) -> str:
    """For the header `grpc-timeout`, which holds at most eight digits; rounded up."""
    for unit in ("n", "u", "m", "S", "M", "H"):
        amount = max(math.ceil(seconds / UNITS[unit] * (1 - 1e-12)), 1)
        if amount < 10**8:
            return f"{amount}{unit}"
    return f"{10**8 - 1}H"


def parse_timeout(text: str) -> float | None:
    """Seconds, None for a text that is not a timeout."""
    digits, unit = text[:-1], text[-1:]
    if unit not in UNITS or not digits.isascii() or not digits.isdigit() or len(digits) > 8:
        return None
    return int(digits) * UNITS[unit]
