"""How long a key rests after its work."""

import pytest

from kohort.kube.controller import DEFAULT_PACING, SLOW, Pacing


@pytest.mark.parametrize(
    ("pace", "worked", "rest"),
    [
        (DEFAULT_PACING, 0.001, 0.0),
        (DEFAULT_PACING, 0.01, 0.02),
        (DEFAULT_PACING, 1.0, 0.1),
        (SLOW, 0.001, 0.0),
        (SLOW, 0.004, 0.196),
        (SLOW, 1.0, 1.0),
    ],
)
def test_a_costly_key_gets_its_share_of_a_worker_and_no_more(pace: Pacing, worked: float, rest: float) -> None:
    assert pace.rest_after(worked) == pytest.approx(rest)
