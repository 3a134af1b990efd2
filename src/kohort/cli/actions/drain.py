"""`plan --drain`."""

from collections.abc import Collection

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import document, show
from kohort.cli.connection import NOT_YET, Refusal
from kohort.dashboard.node_volumes import claims_bound_to_node
from kohort.groups.node_loss import not_ready_since
from kohort.inspection.drain_forecast import drain_lines, forecast_drain
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden
from kohort.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, PODS
from kohort.objects.core import Node, Pod
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.volumes import PersistentVolumeClaim
from kohort.rules import group_labels


async def plan_drain(client: Client, node: str, form: str) -> int:
    """3 if a drain would not end."""
    nodes = (await client.list(NODES, type=Node)).items
    if all(one.metadata.name != node for one in nodes):
        raise Refusal(f"there is no node {node}; list them with: kubectl get nodes")
    pods = (await client.list(PODS, field_selector=f"spec.nodeName={node}", type=Pod)).items
    keys = {
        (pod.metadata.namespace, pod.metadata.labels[group_labels.NAME])
        for pod in pods
        if group_labels.NAME in pod.metadata.labels
    }
    sets: list[Snapshot] = []
    for namespace, name in sorted(keys):
        try:
            sets.append(await snapshot_reader.snapshot(client, namespace, name))
        except Refusal:  # pods that outlive their set
            continue
    claims = [
        claim
        for namespace in sorted({namespace for namespace, _ in keys})
        for claim in await snapshot_reader.list_if_readable(
            client, PERSISTENT_VOLUME_CLAIMS, namespace, PersistentVolumeClaim
        )
    ]
    bound = await claims_bound_to_node(client, node, nodes, claims)
    silent = next((not_ready_since(one) for one in nodes if one.metadata.name == node), "")
    budgets, unknown = await _budgets(client, {pod.metadata.namespace for pod in pods})
    forecast = forecast_drain(node, pods, sets, bound, silent, budgets, unknown)
    show([document(forecast, form)] if form != "text" else drain_lines(forecast))
    return 0 if forecast.ends else NOT_YET


async def _budgets(client: Client, namespaces: Collection[str]) -> tuple[list[PodDisruptionBudget], list[str]]:
    """And the namespaces where the user may not list them."""
    found: list[PodDisruptionBudget] = []
    unknown = []
    for one in sorted(namespaces):
        try:
            found += (await client.list(POD_DISRUPTION_BUDGETS, one, type=PodDisruptionBudget)).items
        except Forbidden:
            unknown.append(one)
    return found, unknown
