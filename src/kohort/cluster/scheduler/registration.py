"""How the scheduler joins a manager."""

from kohort.cluster.scheduler.metrics import ResourceCollector
from kohort.cluster.scheduler.scheduler import Scheduler, SchedulerSettings
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
)
from kohort.objects.core import Namespace, Node
from kohort.objects.pods import Pod
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim


def register(manager: Manager, settings: SchedulerSettings = SchedulerSettings()) -> Scheduler:  # noqa: B008 (frozen)
    """Give every pod that asks for this scheduler a node."""
    scheduler = Scheduler(manager, settings)
    pods = manager.informer(PODS, Pod)
    # Nodes first: a pod on a node that is not known yet is harmless, a decision without nodes is a wasted message.
    manager.informer(NODES, Node).on_change(scheduler.node_changed)
    manager.informer(NAMESPACES, Namespace).on_change(scheduler.namespace_changed)
    manager.informer(STORAGE_CLASSES, StorageClass).on_change(scheduler.class_changed)
    manager.informer(PERSISTENT_VOLUMES, PersistentVolume).on_change(scheduler.volume_changed)
    manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim).on_change(scheduler.claim_changed)
    manager.informer(POD_DISRUPTION_BUDGETS, PodDisruptionBudget).on_change(scheduler.budget_changed)
    pods.on_change(scheduler.pod_changed)
    manager.metrics.registry.register(ResourceCollector(pods.list))
    manager.background("scheduler", scheduler.run)
    return scheduler
