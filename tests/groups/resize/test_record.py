"""What the record of a group means for its set."""

import pytest

from kohort.groups.resize.record import Phase, ResizeRecord, read_record, write_record
from kohort.rules.group_labels import GROUP_RESIZE


@pytest.mark.parametrize(
    ("phase", "revision", "stops"),
    [
        (Phase.REVERTED, "new", True),
        (Phase.REVERTED, "earlier", False),
        (Phase.RESIZING, "new", False),
        (Phase.REVERTING, "new", False),
        (Phase.RECREATE, "new", False),
    ],
)
def test_a_set_stops_at_a_group_that_went_back_from_the_wanted_revision(
    phase: Phase, revision: str, stops: bool
) -> None:
    assert ResizeRecord(revision, phase, 0.0).stops("new") is stops


@pytest.mark.parametrize("phase", Phase)
def test_a_set_never_stops_at_a_group_that_is_under_way(phase: Phase) -> None:
    record = ResizeRecord("new", phase, 0.0)
    assert not (record.under_way and record.stops("new"))
    assert read_record({GROUP_RESIZE: write_record(record)}) == record
