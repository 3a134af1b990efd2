"""Which images are files of the machine."""

import pytest

from kohort.rules.host_images import uses_machine_files


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
