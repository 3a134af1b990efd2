"""Groups stay until they are drained, and never for ever."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.scale_down import DRAIN_ON_SCALE_DOWN, DRAINED_FOR, SPARE_SECONDS, DrainedFor, kept_groups


def annotations(gate: str = "60", drained: int | None = None) -> dict[str, str]:
    found = {DRAIN_ON_SCALE_DOWN: gate}
    if drained is not None:
        found[DRAINED_FOR] = msgspec.json.encode(DrainedFor(drained)).decode()
    return found


@pytest.mark.parametrize(
    ("marks", "wanted", "sized_for", "waited", "kept"),
    [
        ({}, 2, 4, 0, 2),
        (annotations("soon"), 2, 4, 0, 2),
        (annotations("0"), 2, 4, 0, 2),
        (annotations(), 4, 4, 0, 4),
        (annotations(), 6, 4, 0, 6),
        (annotations(), 2, 4, 10, 4),
        (annotations(drained=3), 2, 4, 10, 4),
        (annotations(drained=2), 2, 4, 10, 2),
        (annotations() | {DRAINED_FOR: "{"}, 2, 4, 10, 4),
        (annotations(), 2, 4, 60 + SPARE_SECONDS + 1, 2),
    ],
)
def test_the_table(marks: dict[str, str], wanted: int, sized_for: int, waited: float, kept: int) -> None:
    assert kept_groups(marks, wanted, sized_for, waited) == kept


@given(
    st.dictionaries(st.sampled_from([DRAIN_ON_SCALE_DOWN, DRAINED_FOR]), st.text(max_size=12)),
    st.integers(0, 9),
    st.integers(0, 9),
    st.floats(0, 1e6),
)
def test_whatever_is_written_there(marks: dict[str, str], wanted: int, sized_for: int, waited: float) -> None:
    assert kept_groups(marks, wanted, sized_for, waited) in (wanted, max(wanted, sized_for))
