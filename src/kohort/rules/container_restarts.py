"""When does a container that has ended start again, and after how long a pause?

| restart policy | exit code 0 | any other exit code |
|----------------|-------------|---------------------|
| Always         | yes         | yes                 |
| OnFailure      | no          | yes                 |
| Never          | no          | no                  |

Rules of the container come first; of several that apply, the first one does:

| action of the rule   | follows                                                                    |
|----------------------|----------------------------------------------------------------------------|
| Restart              | the container starts again                                                 |
| RestartAllContainers | all containers are stopped at once and start again, init containers first  |

The pause grows with each end: none, 10 s, 20 s, 40 s, up to 5 minutes. A run of more than ten minutes
resets it (`restart_backoff`).
"""

from collections.abc import Iterable
from typing import Final, Protocol

from kohort.rules.restart_backoff import pause_after, resets_count

RESTART: Final = "Restart"
RESTART_ALL: Final = "RestartAllContainers"


class ExitCodes(Protocol):
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[int, ...]: ...


class RestartRule(Protocol):
    @property
    def action(self) -> str: ...
    @property
    def exit_codes(self) -> ExitCodes | None: ...


def action_of_rules(rules: Iterable[RestartRule], exit_code: int) -> str:
    """The action of the first rule that applies to an exit code; empty if none does."""
    for rule in rules:
        if rule.exit_codes is not None:
            listed = exit_code in rule.exit_codes.values
            if listed == (rule.exit_codes.operator == "In"):
                return rule.action
    return ""


def restarts_after_exit(policy: str, exit_code: int) -> bool:
    """An absent policy means Always."""
    return policy in ("", "Always") or (policy == "OnFailure" and exit_code != 0)


def next_pause(ends: int, ran_for: float) -> tuple[float, int]:
    """The pause before the next start, and how many ends count after this one. `ends` counted before it.

    >>> next_pause(2, 1.0), next_pause(2, 601.0)
    ((20.0, 3), (0.0, 1))
    """
    counted = 0 if resets_count(ran_for) else ends
    return pause_after(counted), counted + 1
