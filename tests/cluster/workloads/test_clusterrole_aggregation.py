"""Aggregated roles hold the rules of what they select, also when that changes."""

from kohort.cluster.workloads.clusterrole_aggregation import MANAGER, aggregated
from kohort.kube.resources import CLUSTER_ROLES
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster


def role(name: str, verb: str = "", labels: JsonObject | None = None, **more: JsonObject) -> JsonObject:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}] if verb else []
    return {"metadata": {"name": name, "labels": labels or {}}, "rules": rules, **more}


def test_each_rule_once_by_selector_and_name() -> None:
    whole = role("whole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"b": "1"}}, {}]})
    parts = [role("z", "get"), role("y", "list", {"b": "1"}), role("x", "get"), whole]
    assert [rule["verbs"] for rule in aggregated(whole, parts)] == [["list"], ["get"]]


def verbs(cluster: Cluster, name: str) -> set[str]:
    found = cluster.find(CLUSTER_ROLES, name) or {}
    return {verb for rule in found.get("rules") or () for verb in rule["verbs"] if "pods" in rule["resources"]}


async def test_changes_travel_up() -> None:
    async with Cluster(parts=("workloads",), nodes=0) as cluster:
        await cluster.until(lambda: "get" in verbs(cluster, "admin") and "create" in verbs(cluster, "edit"))
        assert "create" not in verbs(cluster, "view")
        label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        await cluster.client.create(CLUSTER_ROLES, role("own", "dance", label))
        await cluster.until(lambda: "dance" in verbs(cluster, "admin"))
        await cluster.client.delete(CLUSTER_ROLES, "own")
        await cluster.until(lambda: "dance" not in verbs(cluster, "admin"))
        managers = cluster.find(CLUSTER_ROLES, "view")["metadata"]["managedFields"]  # type: ignore[index]
        assert MANAGER in [entry["manager"] for entry in managers]
