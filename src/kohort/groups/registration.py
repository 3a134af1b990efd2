"""The controllers of groups."""

from kohort.groups.gang import PROVIDERS
from kohort.groups.metrics import GroupMetrics
from kohort.groups.podcontroller import PodController
from kohort.groups.setcontroller import SetController
from kohort.groups.views import GroupCache
from kohort.kube.manager import Manager


def register(manager: Manager, *, gang_scheduler: str = "") -> None:
    """Add the controllers of LeaderWorkerSets. `gang_scheduler` names a provider, or none."""
    if gang_scheduler and gang_scheduler not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        raise ValueError(f"unknown gang scheduler {gang_scheduler!r}; known are: {known}")
    cache = GroupCache(manager)
    metrics = GroupMetrics(manager.metrics.registry)
    SetController(manager, cache, metrics)
    PodController(manager, cache, metrics, PROVIDERS[gang_scheduler]() if gang_scheduler else None)
