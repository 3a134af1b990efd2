"""What is kept in encoded form, and what has to make room."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.catalog.encoding_cache import EncodingCache


@given(st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=40))))
def test_the_newest_are_kept_within_the_limit(puts: list[tuple[int, bytes]]) -> None:
    kept: EncodingCache[int] = EncodingCache(100)
    for key, value in puts:
        assert kept.put(key, value) == value
        assert len(value) > 25 or kept.get(key) == value
        assert sum(len(kept.get(number) or b"") for number in range(10)) <= 100


def test_big_values_are_passed_through() -> None:
    kept: EncodingCache[str] = EncodingCache(100)
    kept.put("a", b"x" * 20)
    assert kept.put("b", b"x" * 26) == b"x" * 26
    assert kept.get("b") is None
    assert kept.get("a") is not None
