"""Failures of one namespace leave workers to others."""

from contextlib import ExitStack

from kohort.groups.failure_slots import MOST, MOST_PER_NAMESPACE, FailureSlots


def test_a_namespace_gets_a_share_and_all_together_leave_some() -> None:
    slots = FailureSlots()
    with ExitStack() as taken:
        found = [taken.enter_context(slots.take("a")) for _ in range(4)]
        assert found == [True] * MOST_PER_NAMESPACE + [False] * 2
        others = [taken.enter_context(slots.take(name)) for name in "bcdefg"]
        assert sum(others) == MOST - MOST_PER_NAMESPACE
    with slots.take("a") as has_slot:
        assert has_slot


def test_a_slot_is_free_after_an_error() -> None:
    slots = FailureSlots()
    for _ in range(2 * MOST):
        try:
            with slots.take("a") as has_slot:
                assert has_slot
                raise RuntimeError
        except RuntimeError:
            continue
