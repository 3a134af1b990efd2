"""How many replicas may a rolling update add, and how many may be away meanwhile?

| written                     | maxSurge                | maxUnavailable                         |
|-----------------------------|-------------------------|----------------------------------------|
| nothing, LeaderWorkerSet    | 0                       | 1                                      |
| nothing, Deployment         | 25%                     | 25%                                    |
| nothing, StatefulSet        | it has none             | 1                                      |
| a percentage of replicas    | rounded up              | rounded down                           |
| more than there are         | groups: all of them     | Deployments: all; others: as written   |
| both come to 0              | 0                       | 1                                      |

The last row is needed because scaling does not pass admission: a set whose percentages come to nothing after it would
be stuck for ever.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from kohort.objects import int_or_string

DEFAULT_ROLLING_OF_GROUPS: Final[Mapping[str, int]] = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
"""The rolling update of a LeaderWorkerSet whose user wrote none."""
DEFAULT_LIMIT_OF_DEPLOYMENTS: Final = "25%"

Amount = int | str | None
Field = Literal["maxSurge", "maxUnavailable"]


class RollLimits(NamedTuple):
    surge: int
    unavailable: int

    @property
    def replaced_at_once(self) -> int:
        """How many replicas may be away or new at the same time: the maxUnavailable of a leader StatefulSet, which
        counts surge groups that are not ready too."""
        return max(1, self.surge + self.unavailable)

    @property
    def resized_at_once(self) -> int:
        """How many groups are resized in place at a time: no surge stands in for a group that is resized."""
        return max(1, self.unavailable)


def group_limits(rolling: Mapping[str, Amount], replicas: int) -> RollLimits:
    """The limits of a LeaderWorkerSet with this `rollingUpdateConfiguration`, in groups."""
    return _moving(*_written(rolling, replicas))


def comes_to_nothing(rolling: Mapping[str, Amount], replicas: int) -> bool:
    """What is written lets no group be added or away. Admission refuses that for a set that has groups."""
    return not any(_written(rolling, replicas))


def written_groups(field: Field, value: Amount, replicas: int) -> int:
    """What one field of a LeaderWorkerSet comes to. Raises ValueError for text that is not a percentage."""
    amount = DEFAULT_ROLLING_OF_GROUPS[field] if value is None else value
    if field == "maxUnavailable":
        return int_or_string.resolve(amount, replicas, round_up=False)
    return min(int_or_string.resolve(amount, replicas, round_up=True), replicas)


def deployment_limits(surge: Amount, unavailable: Amount, replicas: int) -> RollLimits:
    """The limits of a Deployment, in pods."""
    more, away = (DEFAULT_LIMIT_OF_DEPLOYMENTS if one is None else one for one in (surge, unavailable))
    return _moving(
        int_or_string.resolve(more, replicas, round_up=True),
        min(int_or_string.resolve(away, replicas, round_up=False), replicas),
    )


def stateful_set_limit(unavailable: Amount, replicas: int) -> int:
    """How many pods of a StatefulSet may be away."""
    return max(1, int_or_string.resolve(1 if unavailable is None else unavailable, replicas, round_up=False))


def _written(rolling: Mapping[str, Amount], replicas: int) -> tuple[int, int]:
    surge = written_groups("maxSurge", rolling.get("maxSurge"), replicas)
    return surge, written_groups("maxUnavailable", rolling.get("maxUnavailable"), replicas)


def _moving(surge: int, unavailable: int) -> RollLimits:
    return RollLimits(surge, unavailable if surge else max(1, unavailable))
