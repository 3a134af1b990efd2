"""How names of images are read, and which images are files of the machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.host_images import image_name, is_machine_root, leaves_images, uses_machine_files


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("web", "web", ""),
        ("web:v1", "web", "v1"),
        ("example/web:v1", "example/web", "v1"),
        ("registry:5000/web", "registry:5000/web", ""),
        ("registry:5000/web:v1", "registry:5000/web", "v1"),
        ("web@sha256:00", "web", ""),
        ("web:v1@sha256:00", "web", "v1"),
        ("registry:5000/a/web:v1@sha256:00", "registry:5000/a/web", "v1"),
        ("", "", ""),
    ],
)
def test_a_name_is_split_from_tag_and_digest(image: str, name: str, tag: str) -> None:
    assert image_name(image) == (name, tag)


@pytest.mark.parametrize(
    ("image", "root"),
    [
        ("host", True),
        ("host:any", True),
        ("host@sha256:00", True),
        ("hosts", False),
        ("a/host", False),
        ("/host", False),
        ("registry:5000/host", False),
    ],
)
def test_only_the_bare_name_is_the_root_of_the_machine(image: str, root: bool) -> None:
    assert is_machine_root(image) == root


@pytest.mark.parametrize(
    ("image", "leaves"),
    [
        ("web", False),
        ("a/b.c/d:1.2", False),
        ("..", True),
        ("a/..", True),
        ("../a", True),
        ("a/./b", True),
        ("a//b", True),
        ("a/", True),
        ("a:..", True),
        ("a:.", True),
        ("a\0b", True),
        ("", True),
        ("a...b", False),
    ],
)
def test_names_with_dots_as_parts_leave_the_directory(image: str, leaves: bool) -> None:
    assert leaves_images(image) == leaves


words = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True).filter(lambda word: word != "host")


@given(st.lists(words, min_size=1, max_size=4), words)
def test_ordinary_names_stay_within_the_images(parts: list[str], tag: str) -> None:
    image = f"{'/'.join(parts)}:{tag}"
    assert image_name(image) == ("/".join(parts), tag)
    assert not uses_machine_files(image)


@given(st.lists(st.sampled_from(["a", "b.c", "..", ".", ""]), min_size=1, max_size=5))
def test_a_name_that_stays_within_the_images_has_no_part_that_leads_out(parts: list[str]) -> None:
    image = "/".join(parts)
    if not uses_machine_files(image):
        assert not {"..", ".", ""} & set(image.split("/"))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("host", True),
        ("host:latest", True),
        ("host@sha256:0000", True),
        ("host:v1@sha256:0000", True),
        ("/", True),
        ("/srv/root:tag", True),
        ("..", True),
        ("a/../..", True),
        ("a:..", True),
        ("a//b", True),
        ("a/./b", True),
        ("web", False),
        ("web:host", False),
        ("example/host", False),
        ("localhost", False),
        ("registry:5000/a.b/c_d:1.2.3", False),
    ],
)
def test_files_of_the_machine(image: str, expected: bool) -> None:
    assert uses_machine_files(image) is expected
