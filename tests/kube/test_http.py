"""Parameters of a request."""

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
