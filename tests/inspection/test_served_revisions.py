"""Which revisions have served, and where undo goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.inspection.served_revisions import ServedRevision, Version, judged, key_to_return_to

T1, T2, T3 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"

CASES = [
    # versions, wanted, stable, what is known, where undo goes
    ([Version(1, "a"), Version(2, "b")], "b", "b", {"a": "assumed", "b": "yes"}, "a"),
    ([Version(1, "a"), Version(2, "b")], "b", "", {"a": "assumed", "b": "assumed"}, "a"),
    # a release of c that replaced one of b; a serves
    ([Version(1, "a"), Version(2, "b"), Version(3, "c")], "c", "a", {"a": "yes", "b": "never", "c": "not yet"}, "a"),
    # b never became ready, and was undone: a is revision 3 now
    ([Version(3, "a", T1, T1), Version(2, "b", T2)], "a", "a", {"a": "yes", "b": "never"}, ""),
    # as before, but both served
    ([Version(3, "a", T1, T1), Version(2, "b", T2, T3)], "a", "a", {"a": "yes", "b": "yes"}, "b"),
    # from before the operator marked them
    ([Version(1, "a", T1), Version(2, "b", T2, T3)], "b", "b", {"a": "assumed", "b": "yes"}, "a"),
    ([Version(1, "a")], "a", "a", {"a": "yes"}, ""),
    ([], "", "", {}, ""),
]


@pytest.mark.parametrize(("versions", "wanted", "stable", "known", "target"), CASES)
def test_the_table(versions: list[Version], wanted: str, stable: str, known: dict[str, str], target: str) -> None:
    assert {key: one.value for key, one in judged(versions, wanted, stable).items()} == known
    assert key_to_return_to(versions, wanted, stable) == target


KEYS = "abcd"


@given(
    order=st.permutations(KEYS),
    served=st.sets(st.sampled_from(KEYS)),
    wanted=st.sampled_from(KEYS),
    stable=st.sampled_from([*KEYS, ""]),
)
def test_undo_never_goes_to_the_present_one_nor_to_one_that_is_known_never_to_have_served(
    order: list[str], served: set[str], wanted: str, stable: str
) -> None:
    versions = [
        Version(number, key, f"2026-01-01T00:00:0{number}Z", f"2026-01-01T00:00:0{number}Z" if key in served else "")
        for number, key in enumerate(order, 1)
    ]
    target = key_to_return_to(versions, wanted, stable)
    assert target != wanted
    if target:
        assert judged(versions, wanted, stable)[target] in (ServedRevision.YES, ServedRevision.ASSUMED)
    if stable and stable != wanted:
        assert target == stable
