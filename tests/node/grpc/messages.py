"""Messages and methods for the tests of `kohort.node.grpc`."""

from typing import Annotated

import msgspec

from kohort.node.grpc.codec import UNSIGNED, Message
from kohort.node.grpc.status import Method


class Inner(Message, frozen=True):
    name: Annotated[str, 1] = ""
    attempt: Annotated[int, 2] = 0


class Everything(Message, frozen=True):
    text: Annotated[str, 1] = ""
    content: Annotated[bytes, 2] = b""
    number: Annotated[int, 3] = 0
    large: Annotated[int, 4, UNSIGNED] = 0
    flag: Annotated[bool, 5] = False
    ratio: Annotated[float, 6] = 0.0
    inner: Annotated[Inner | None, 7] = None
    words: Annotated[tuple[str, ...], 8] = ()
    numbers: Annotated[tuple[int, ...], 9] = ()
    inners: Annotated[tuple[Inner, ...], 10] = ()
    labels: Annotated[dict[str, str], 11] = msgspec.field(default_factory=dict)
    ratios: Annotated[tuple[float, ...], 12] = ()
    flags: Annotated[tuple[bool, ...], 13] = ()
    far: Annotated[str, 536870911] = ""


class Empty(Message, frozen=True):
    pass


class Text(Message, frozen=True):
    text: Annotated[str, 1] = ""


ECHO = Method("/test.Service/Echo", Text, Text)
COUNT = Method("/test.Service/Count", Text, Text)
WAIT = Method("/test.Service/Wait", Text, Text)
FAIL = Method("/test.Service/Fail", Text, Text)
CRASH = Method("/test.Service/Crash", Text, Text)
MISSING = Method("/test.Service/Missing", Text, Text)
