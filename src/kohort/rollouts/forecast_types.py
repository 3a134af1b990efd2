"""What is known of a release before its first step; `release_forecast` says how it is found out."""

import msgspec


class ReleaseForecast(msgspec.Struct, frozen=True, rename="camel"):
    unit: str
    """group or pod"""
    replicas: tuple[int, ...]
    """Of the new version at each step."""
    extra_replicas: int
    """The most that exist beside those of the stable version."""
    fitting: int | None = None
    """How many of those the nodes have room for; None if the nodes were not looked at."""
    lacking: tuple[str, ...] = ()
    """Resources that no node has enough of for more; empty if it is for another reason."""
    reason: str = ""
    """Why no more fit, in words."""
    step_without_room: int = 0
    """The first step that does not fit, counted from 1; one more than there are if the end does not. 0 if all fit."""
    start_seconds: int | None = None
    """How long a replica takes to become ready; None if none shows it."""
    duration_seconds: int | None = None
    approvals: int = 0
    judged: bool = False
    """By a ReleaseAnalysis, which takes time too."""

    @property
    def has_room(self) -> bool:
        return not self.step_without_room


class ForecastUnknown(msgspec.Struct, frozen=True):
    """Nodes or pods could not be read."""

    problem: str
