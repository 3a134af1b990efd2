import base64
import fnmatch
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.runtimes.cri.image_names import (
    Credentials,
    ImageName,
    InvalidImageName,
    fitting,
    image_name,
    keys_of_file,
    keys_of_secret,
)

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("written", "complete"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.29", "docker.io/library/nginx:1.29"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx:1", "docker.io/library/nginx:1"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:2", "localhost:5000/app:2"),
        ("127.0.0.1:5000/a/b/c:v1.2_3-x", "127.0.0.1:5000/a/b/c:v1.2_3-x"),
        ("[::1]:5000/a", "[::1]:5000/a:latest"),
        (f"gcr.io/a/b@{DIGEST}", f"gcr.io/a/b@{DIGEST}"),
        (f"gcr.io/a/b:1@{DIGEST}", f"gcr.io/a/b:1@{DIGEST}"),
        ("Registry.example/a", "Registry.example/a:latest"),
        ("a--b/c__d.e", "docker.io/a--b/c__d.e:latest"),
    ],
)
def test_names_are_completed(written: str, complete: str) -> None:
    assert str(image_name(written)) == complete


@pytest.mark.parametrize(
    "written",
    [
        "",
        "UPPER",
        "a b",
        "a:",
        "a@sha256:xyz",
        "/a",
        "a/",
        "a//b",
        "a:b:c",
        "../x",
        "a\n",
        "-a",
        f"a@{DIGEST}:tag",
        "ä",
    ],
)
def test_what_names_no_image_is_refused(written: str) -> None:
    with pytest.raises(InvalidImageName):
        image_name(written)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidImageName, match="255"):
        image_name("a" * 300)


@given(st.text(max_size=60))
def test_a_complete_name_stays_as_it_is(written: str) -> None:
    try:
        name = image_name(written)
    except InvalidImageName:
        return
    assert image_name(str(name)) == name and name.registry


@pytest.mark.parametrize(
    ("place", "image", "fits"),
    [
        ("registry.example", "registry.example/a/b", True),
        ("https://registry.example/", "registry.example/a", True),
        ("https://registry.example/v1/", "registry.example/a", True),
        ("registry.example", "registry.example:5000/a", False),
        ("registry.example:5000", "registry.example:5000/a", True),
        ("registry.example/team", "registry.example/team/app", True),
        ("registry.example/team", "registry.example/teams/app", False),
        ("registry.example/team/app", "registry.example/team/app", True),
        ("*.example", "registry.example/a", True),
        ("*.example", "a.b.example/a", False),
        ("reg*.example", "registry.example/a", True),
        ("*", "registry.example/a", False),
        ("*g*s*.ex*le", "registry.example/a", True),
        ("r*y.example", "ry.example/a", True),
        ("ry*y.example", "ry.example/a", False),
        ("*y*g*.example", "registry.example/a", False),
        ("*g*y.example", "registry.example/a", True),
        ("https://index.docker.io/v1/", "nginx", True),
        ("docker.io", "nginx", True),
        ("docker.io/library", "team/app", False),
    ],
)
def test_which_credentials_fit(place: str, image: str, fits: bool) -> None:
    credentials = Credentials("user", "password")
    assert fitting(image_name(image), [(place, credentials)]) == ([credentials] if fits else [])


@given(st.text("ab*", max_size=8), st.text("ab", min_size=1, max_size=8))
def test_wildcards_match_as_those_of_files(pattern: str, label: str) -> None:
    found = fitting(ImageName(f"{label}.example/a"), [(f"{pattern}.example", Credentials("user"))])
    assert bool(found) == fnmatch.fnmatchcase(label, pattern)


@pytest.mark.timeout(10)
def test_many_wildcards_take_no_time() -> None:
    name = image_name(f"{'a' * 200}.example/a")
    assert not fitting(name, [(f"{'*a' * 60}*b.example", Credentials("user"))])


def test_a_long_text_that_names_no_image_is_not_repeated() -> None:
    with pytest.raises(InvalidImageName) as refused:
        image_name("a." * 500_000 + "!")
    assert len(str(refused.value)) < 200


def test_longer_paths_come_first_and_nothing_twice() -> None:
    one, two = Credentials("one"), Credentials("two")
    keys = [("r.example", one), ("r.example/a/b", two), ("r.example/a", one)]
    assert fitting(image_name("r.example/a/b/c"), keys) == [two, one]


def test_secrets_of_both_types_are_read() -> None:
    auth = base64.b64encode(b"user:pass:word").decode()
    config = json.dumps({"auths": {"r.example": {"auth": auth}}}).encode()
    expected = (("r.example", Credentials("user", "pass:word")),)
    assert keys_of_file(config) == expected
    assert keys_of_secret("kubernetes.io/dockerconfigjson", {".dockerconfigjson": config}) == expected
    old = json.dumps({"r.example": {"username": "user", "password": "pass:word"}}).encode()
    assert keys_of_secret("kubernetes.io/dockercfg", {".dockercfg": old}) == expected
    assert keys_of_secret("Opaque", {"key": b"value"}) == ()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"auths": {"r": {"auth": "%%%"}}}', b'{"auths": 3}'])
def test_files_that_cannot_be_read_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        keys_of_file(content)
