"""When does a container that has ended start again, and after how long a pause?

| restart policy | exit code 0 | any other exit code |
|----------------|-------------|---------------------|
| Always         | yes         | yes                 |
| OnFailure      | no          | yes                 |
| Never          | no          | no                  |

The pause grows with each end: none, 10 s, 20 s, 40 s, up to 5 minutes. A run of ten minutes resets it.
"""

from kohort.rules.restart_backoff import FORGIVEN_AFTER, pause_after


def restarts_after_exit(policy: str, exit_code: int) -> bool:
    """An absent policy means Always."""
    return policy in ("", "Always") or (policy == "OnFailure" and exit_code != 0)


def next_pause(ends: int, ran_for: float) -> tuple[float, int]:
    """The pause before the next start, and how many ends count after this one. `ends` counted before it.

    >>> next_pause(2, 1.0), next_pause(2, 600.0)
    ((20.0, 3), (0.0, 1))
    """
    counted = 0 if ran_for >= FORGIVEN_AFTER else ends
    return pause_after(counted), counted + 1
