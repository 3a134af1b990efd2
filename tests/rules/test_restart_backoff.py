"""The first restart is immediate, later ones wait longer and longer, and time heals."""

from kohort.rules.restart_backoff import FORGIVEN_AFTER, LONGEST_PAUSE, RestartBackoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff, now, pauses = RestartBackoff[str](), 0.0, list[float]()
    for _ in range(8):
        pauses.append(backoff.pause("a", now))
        now += pauses[-1]
        backoff.done("a", now)
    assert pauses == [0, 10, 20, 40, 80, 160, LONGEST_PAUSE, LONGEST_PAUSE]
    assert (backoff.pause("b", now), backoff.times("a")) == (0.0, 8)


def test_it_is_forgiven_after_a_time_without_failure() -> None:
    backoff = RestartBackoff[str]()
    backoff.done("a", 0.0)
    backoff.done("a", 10.0)
    assert backoff.pause("a", 10.0 + FORGIVEN_AFTER + 1) == 0.0
    backoff.done("a", 10.0 + FORGIVEN_AFTER + 1)
    assert backoff.times("a") == 1
    backoff.forget_old(3 * FORGIVEN_AFTER)
    assert backoff.times("a") == 0
