"""Redirects and rewrites of paths and hosts."""

import pytest

from kohort.cluster.gateway.path_changes import PathChange, Redirect, changed_target, location
from kohort.cluster.gateway.request_target import Target, read_target


def target(text: str) -> Target:
    found = read_target(text, ["a.example"], old=False, merge_slashes=True)
    assert isinstance(found, Target)
    return found


@pytest.mark.parametrize(
    ("asked", "matched", "prefix", "expected"),
    [
        ("/one/two", "/one", "/x", "/x/two"),
        ("/one", "/one", "/x", "/x"),
        ("/one", "/one", "/", "/"),
        ("/one/two", "/one", "/", "/two"),
        ("/one/two", "/one/", "/x/", "/x/two"),
        ("/one/", "/one", "/x", "/x/"),
        ("/one?q=%2F", "/one", "/x", "/x?q=%2F"),
        ("/one%2Ftwo", "/one", "/", "/two"),
        ("/o%6Ee/a%20b", "/one", "/x", "/x/a%20b"),
        ("/a", "/", "/x", "/x/a"),
    ],
)
def test_another_beginning(asked: str, matched: str, prefix: str, expected: str) -> None:
    assert changed_target(target(asked), PathChange(prefix=prefix, matched=matched)) == expected


def test_a_path_as_a_whole_cannot_hide_a_line_end() -> None:
    assert changed_target(target("/a?b"), PathChange(full="/x y\r\nz")) == "/x%20y%0D%0Az?b"


@pytest.mark.parametrize(
    ("redirect", "secure", "port", "expected"),
    [
        (Redirect(host="b"), False, 80, "http://b/p"),
        (Redirect(host="b"), False, 8080, "http://b:8080/p"),
        (Redirect(scheme="https"), False, 8080, "https://a.example/p"),
        (Redirect(scheme="https", port=8443), False, 80, "https://a.example:8443/p"),
        (Redirect(port=8083), False, 80, "http://a.example:8083/p"),
        (Redirect(port=80), False, 8080, "http://a.example/p"),
        (Redirect(port=443), True, 8443, "https://a.example/p"),
        (Redirect(scheme="http"), True, 443, "http://a.example/p"),
        (Redirect(path=PathChange(full="/q")), True, 443, "https://a.example/q"),
    ],
)
def test_where_a_client_is_sent(redirect: Redirect, secure: bool, port: int, expected: str) -> None:
    assert location(redirect, target("/p"), secure=secure, port=port) == expected
