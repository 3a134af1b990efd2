"""Parameters of a request, and the body of an answer."""

from collections.abc import AsyncIterator

import pytest

from kohort.kube.http import Request, Response


def test_the_first_value_of_a_parameter_counts() -> None:
    request = Request("GET", "/logs", (("container", "a"), ("container", "b"), ("follow", "")))
    assert request.param("container") == "a"
    assert request.params("container") == ["a", "b"]
    assert request.param("follow", "yes") == "", "present, though empty"


def test_a_missing_parameter_has_the_default() -> None:
    request = Request("GET", "/")
    assert (request.param("x"), request.param("x", "d"), request.params("x")) == ("", "d", [])


def test_requests_can_be_compared() -> None:
    assert Request("GET", "/a") == Request("GET", "/a", (), {}, b"")
    assert Request("GET", "/a") != Request("GET", "/a", (("x", "1"),))


def test_a_response_has_an_empty_body_by_default() -> None:
    assert Response(204, {}).body == b""


async def frames(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_body_in_frames_is_read_up_to_a_limit() -> None:
    assert await Response(200, {}, b"whole").whole_body(1) == b"whole", "it is in memory already"
    assert await Response(200, {}, frames(b"ab", b"cd")).whole_body(4) == b"abcd"
    with pytest.raises(ValueError, match="longer than 3 bytes"):
        await Response(200, {}, frames(b"ab", b"cd", b"ef")).whole_body(3)
