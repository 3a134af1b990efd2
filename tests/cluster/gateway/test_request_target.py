"""One reading of hosts and paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.gateway.request_target import BadTarget, Target, normal_path, read_target

PATHS = [
    ("/", "/", "/"),
    ("/a/b.c/", "/a/b.c/", "/a/b.c/"),
    ("/v1/chat:run", "/v1/chat:run", "/v1/chat:run"),
    ("/public/../admin", "/admin", "/admin"),
    ("/public/./x", "/public/x", "/public/x"),
    ("/public/%2e%2e/admin", "/admin", "/admin"),
    ("/public/.%2E/admin", "/admin", "/admin"),
    ("/public/..%2fadmin", "/admin", "/admin"),
    ("/public%2F..%2Fadmin", "/admin", "/admin"),
    ("/public/..%5cadmin", "/admin", "/admin"),
    ("/public/..\\admin", "/admin", "/admin"),
    ("/public//../admin", "/admin", "/admin"),
    ("/../../admin", "/admin", "/admin"),
    ("/a/..", "/", "/"),
    ("/a/b/..", "/a/", "/a/"),
    ("/a/.", "/a/", "/a/"),
    ("/a//b///c", "/a/b/c", "/a/b/c"),
    ("//admin", "/admin", "/admin"),
    ("/%61dmin", "/admin", "/admin"),
    ("/v1/models/org%2fmodel", "/v1/models/org/model", "/v1/models/org%2Fmodel"),
    ("/admin%2Fpanel", "/admin/panel", "/admin%2Fpanel"),
    ("/%252e%252e/x", "/%2e%2e/x", "/%252e%252e/x"),
    ("/caf%c3%a9", "/café", "/caf%C3%A9"),
    ("/café", "/café", "/caf%C3%A9"),
    ("/a b", "/a b", "/a%20b"),
    ("/x;v=1/y", "/x;v=1/y", "/x;v=1/y"),
    ("/...", "/...", "/..."),
    ("/.hidden", "/.hidden", "/.hidden"),
]


@pytest.mark.parametrize(("raw", "compared", "forwarded"), PATHS)
def test_paths_have_one_form(raw: str, compared: str, forwarded: str) -> None:
    assert normal_path(raw) == (compared, forwarded)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("/a%", BadTarget.ESCAPE),
        ("/a%2", BadTarget.ESCAPE),
        ("/a%zz", BadTarget.ESCAPE),
        ("/a%00b", BadTarget.ZERO),
        ("/public/..;/admin", BadTarget.DOT_PARAMETER),
        ("/public/..%3bx/admin", BadTarget.DOT_PARAMETER),
        ("/public/.%2e;x/admin", BadTarget.DOT_PARAMETER),
    ],
)
def test_paths_that_programs_read_differently_are_refused(raw: str, problem: BadTarget) -> None:
    assert normal_path(raw) is problem


def test_slashes_are_kept_if_wanted() -> None:
    assert normal_path("/fetch/http://x", merge_slashes=False) == ("/fetch/http://x", "/fetch/http://x")
    assert normal_path("/a//../b", merge_slashes=False) == ("/a/b", "/a/b")


@given(st.text("ab/.%25eEfFcC;\\é ", max_size=20))
def test_the_form_is_normal(text: str) -> None:
    found = normal_path("/" + text)
    if isinstance(found, BadTarget):
        return
    compared, forwarded = found
    assert normal_path(forwarded) == found, "reading it again changes nothing"
    assert not {".", ".."} & {*forwarded.replace("%2F", "/").replace("%5C", "/").split("/")}
    assert "//" not in forwarded and "\\" not in forwarded and forwarded.isascii() and " " not in forwarded
    assert compared.startswith("/")


@pytest.mark.parametrize(
    ("raw", "hosts", "expected"),
    [
        ("/x?a=/../b", ["A.example:8080"], Target("a.example", "A.example:8080", "/x", "/x?a=/../b")),
        ("/x?q=é", ["a"], Target("a", "a", "/x", "/x?q=%C3%A9")),
        ("http://b.example/x", ["a.example"], Target("b.example", "b.example", "/x", "/x")),
        ("http://b.example?q", ["a.example"], Target("b.example", "b.example", "/", "/?q")),
        ("/", ["[::1]:80"], Target("[::1]", "[::1]:80", "/", "/")),
        ("/", ["a", "b"], BadTarget.HOST),
        ("/", ["a", "a"], BadTarget.HOST),
        ("/", [], BadTarget.HOST),
        ("/", ["a/b"], BadTarget.HOST),
        ("/", ["user@a"], BadTarget.HOST),
        ("http:///x", ["a"], BadTarget.HOST),
        ("*", ["a"], BadTarget.FORM),
        ("a.example:443", ["a"], BadTarget.FORM),
        ("ftp://a/x", ["a"], BadTarget.FORM),
        ("/x#y", ["a"], BadTarget.FRAGMENT),
    ],
)
def test_the_host_is_the_one_of_the_target_or_of_the_only_header(
    raw: str, hosts: list[str], expected: Target | BadTarget
) -> None:
    assert read_target(raw, hosts) == expected


def test_an_old_request_may_have_no_host() -> None:
    assert read_target("/", [], old=True) == Target("", "", "/", "/")
