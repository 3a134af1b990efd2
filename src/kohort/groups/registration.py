"""The controllers of groups."""

from kohort.groups.caches import GroupCache
from kohort.groups.gang import Gangs
from kohort.groups.gang_schedulers import provider_named
from kohort.groups.group_problems import GroupProblems
from kohort.groups.metrics import GroupMetrics
from kohort.groups.pod_controller import PodController
from kohort.groups.set_controller import SetController
from kohort.kube.manager import Manager


def register(manager: Manager, *, gang_scheduler: str = "") -> GroupCache:
    """Add the controllers of LeaderWorkerSets, and return what they cache. `gang_scheduler` names a provider, or
    none."""
    provider = provider_named(gang_scheduler)
    cache = GroupCache(manager)
    metrics = GroupMetrics(manager.metrics.registry)
    problems = GroupProblems()
    SetController(manager, cache, problems, metrics)
    gangs = Gangs(manager.client, manager.recorder("leaderworkerset"), provider) if provider is not None else None
    PodController(manager, cache, problems, metrics, gangs)
    return cache
