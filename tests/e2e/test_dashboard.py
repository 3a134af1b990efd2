"""`kohort up` has a dashboard behind a path of its API server."""

import re
import urllib.request
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e


class _AsLoopback(DefaultCookiePolicy):
    """Browsers send secure cookies to loopback addresses without TLS."""

    def return_ok_secure(self, cookie: Cookie, request: urllib.request.Request) -> bool:
        return True


def test_the_administrator_gets_a_link(kohort: "Kohort") -> None:
    kohort.up("--simulated-nodes", "1")
    assert kohort.status("/dashboard", token="") in (401, 403)
    link = kohort.request("/dashboard").strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/dashboard/login\?key=[\w-]+", link)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar(_AsLoopback())))
    with browser.open(link, timeout=60) as answer:
        assert "There are no sets that you may see." in answer.read().decode()
    assert kohort.request("/dashboard").strip() != link
