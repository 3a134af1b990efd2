"""What is kept of heads that come again, and for how long."""

from kohort.cluster.gateway.recent import Recent


def kept(keys: str, limit: int = 3) -> Recent[str, str]:
    found: Recent[str, str] = Recent(limit)
    for key in keys:
        if found.get(key) is None:
            found.put(key, key.upper())
    return found


def test_what_comes_once_is_not_kept() -> None:
    assert len(kept("abc")) == 0


def test_what_comes_again_is_kept() -> None:
    found = kept("abca")
    assert (found.get("a"), found.get("b"), len(found)) == ("A", None, 1)


def test_what_is_used_stays_and_what_is_not_goes() -> None:
    found = kept("aabb")
    for _ in range(3):
        found.turn()
        assert found.get("a") == "A"
    assert found.get("b") is None


def test_two_generations_bound_it() -> None:
    found = kept("".join(chr(number) * 2 for number in range(1000)))
    assert len(found) <= 6


def test_clearing_forgets_what_came_once_as_well() -> None:
    found = kept("aab")
    found.clear()
    found.put("b", "B")
    assert (found.get("a"), found.get("b")) == (None, None)
