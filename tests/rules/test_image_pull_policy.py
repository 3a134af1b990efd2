"""When an image is pulled if its container does not say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.image_pull_policy import default_pull_policy

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("web", "Always"),
        ("registry:5000/web", "Always"),
        ("web:latest", "Always"),
        (f"web:latest@{DIGEST}", "Always"),
        ("web:1", "IfNotPresent"),
        ("registry:5000/web:1", "IfNotPresent"),
        (f"web@{DIGEST}", "IfNotPresent"),
        (f"web:1@{DIGEST}", "IfNotPresent"),
        ("Web", "IfNotPresent"),
        ("", "IfNotPresent"),
        ("a" * 237, "Always"),
        ("a" * 238, "IfNotPresent"),  # with docker.io/library/ in front: longer than a name may be
    ],
)
def test_the_policy_of_an_image(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


@given(st.text(max_size=60))
def test_every_text_has_a_policy(image: str) -> None:
    assert default_pull_policy(image) in ("Always", "IfNotPresent")
