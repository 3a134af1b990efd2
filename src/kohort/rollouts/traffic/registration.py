"""Registers the controller of traffic with a manager."""

from kohort.kube.manager import Manager
from kohort.kube.resources import Key
from kohort.rollouts.analysis.http_fetch import Fetch
from kohort.rollouts.traffic.controller import TrafficRoutingController
from kohort.rollouts.traffic.routing import SCRIPTS, ClusterTraffic


def register(manager: Manager, *, configuration: Key = SCRIPTS, fetch: Fetch | None = None) -> ClusterTraffic:
    """Add the controller of TrafficRoutings, and return the operations on traffic. `configuration` is
    the ConfigMap with scripts of the user."""
    traffic = ClusterTraffic(manager.client, configuration=configuration, fetch=fetch)
    TrafficRoutingController(manager, traffic)
    manager.clean_up(traffic.close)
    return traffic
