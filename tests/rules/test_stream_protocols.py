"""What nodes answer to requests for streams, quoted from Kubernetes."""

import pytest

from kohort.rules.stream_protocols import UPGRADE_REQUIRED, misses_upgrade


@pytest.mark.parametrize(
    ("message", "misses"),
    [
        (UPGRADE_REQUIRED, True),
        ("Upgrade request required\n", True),
        ('unable to upgrade: missing upgrade headers in request: http.Header{"Accept":[]string{"*/*"}}', True),
        ("you must specify at least 1 of stdin, stdout, stderr", False),
        ("unable to upgrade connection: container not found", False),
        ("", False),
    ],
)
def test_an_answer_that_only_asks_for_an_upgrade(message: str, misses: bool) -> None:
    assert misses_upgrade(message) is misses
