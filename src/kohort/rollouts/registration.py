"""The controllers of releases."""

from typing import Final

from kohort.kube.manager import Manager
from kohort.rollouts.analysis.http_fetch import Fetch, HttpFetch
from kohort.rollouts.analysis.sources import SourceReader
from kohort.rollouts.analysis_control.analysis_controller import AnalysisController
from kohort.rollouts.analysis_control.notifications import Notifier
from kohort.rollouts.analysis_control.run_controller import RunController
from kohort.rollouts.batchrelease_controller import ReleaseController
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.feature_gates import Features
from kohort.rollouts.history import HistoryController
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.partition_controller import PartitionController
from kohort.rollouts.release_forecast import GroupPlanner
from kohort.rollouts.rollout_controller import RolloutController
from kohort.rollouts.scale_down_controller import ScaleDownController
from kohort.rollouts.traffic.model import Traffic
from kohort.rollouts.traffic.withdrawal import PodWithdrawal
from kohort.rollouts.workloads.deployment_control import DeploymentControl
from kohort.rollouts.workloads.group_control import GroupControl
from kohort.rollouts.workloads.model import Controls
from kohort.rollouts.workloads.stateful_set_control import StatefulSetControl

DEFAULT: Final = Features()


def register(
    manager: Manager,
    traffic: Traffic,
    plan_group: GroupPlanner,
    cache: RolloutCache | None = None,
    features: Features = DEFAULT,
    fetch: Fetch | None = None,
) -> RolloutCache:
    """Add the controllers of Rollouts and BatchReleases. `plan_group` makes the pods of groups that do not exist yet.
    `fetch` is how metrics are read and notifications posted."""
    cache = cache or RolloutCache(manager)
    if fetch is None:
        fetch = own = HttpFetch(loopback=features.analysis_of_loopback)
        manager.clean_up(own.close)
    withdrawal = PodWithdrawal(manager.client, fetch)
    controls: Controls = {
        one.resource.group_kind: one
        for one in (
            GroupControl(manager.client, cache),
            DeploymentControl(manager.client, cache, withdrawal),
            StatefulSetControl(manager.client, cache, withdrawal),
        )
    }
    metrics = RolloutMetrics(manager.metrics)
    PartitionController(manager, cache, withdrawal)
    ReleaseController(manager, cache, controls, metrics)
    reader = SourceReader(manager.client, fetch)
    notifier = Notifier(manager, cache, reader)
    RolloutController(manager, cache, controls, traffic, metrics, features, plan_group, notifier)
    ScaleDownController(manager, cache, withdrawal)
    RunController(manager, cache, reader)
    AnalysisController(manager, cache, reader)
    if features.history:
        HistoryController(manager, cache, features.history_limit)
    return cache
