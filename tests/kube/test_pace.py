"""How long a key rests after its work."""

import pytest

from kohort.kube.controller import BRISK, LEISURELY, Pace


@pytest.mark.parametrize(
    ("pace", "worked", "rest"),
    [
        (BRISK, 0.001, 0.0),
        (BRISK, 0.01, 0.02),
        (BRISK, 1.0, 0.1),
        (LEISURELY, 0.001, 0.0),
        (LEISURELY, 0.004, 0.196),
        (LEISURELY, 1.0, 1.0),
    ],
)
def test_a_costly_key_gets_its_share_of_a_worker_and_no_more(pace: Pace, worked: float, rest: float) -> None:
    assert pace.rest_after(worked) == pytest.approx(rest)
