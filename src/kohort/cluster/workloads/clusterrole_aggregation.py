"""Aggregated ClusterRoles: the rules of all roles that their selectors select, written into them.

A role that aggregates may be selected by another, as `view` is by `edit` and `edit` by `admin`; each change moves up
one role at a time. A role is written only when its rules change, so roles that select each other settle as well.
"""

from collections.abc import Iterable
from typing import Final

from kohort.kube.controller import Requeue
from kohort.kube.manager import Manager
from kohort.kube.resources import CLUSTER_ROLES, Key
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector

MANAGER: Final = "clusterrole-aggregation-controller"


def register(manager: Manager) -> None:
    AggregatedRoles(manager)


class AggregatedRoles:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.roles = manager.informer(CLUSTER_ROLES, JsonObject)
        controller = manager.controller("clusterrole-aggregation", self.reconcile, max_delay=30)
        controller.watches(self.roles, self._aggregates)

    def _aggregates(self, _: JsonObject) -> Iterable[Key]:
        """All roles that aggregate: a changed role may be, or may have been, part of any of them."""
        return [Key("", role["metadata"]["name"]) for role in self.roles.list() if role.get("aggregationRule")]

    async def reconcile(self, key: Key) -> Requeue | None:
        role = self.roles.get(key)
        if role is None or not role.get("aggregationRule"):
            return None
        rules = aggregated(role, self.roles.list())
        if rules != (role.get("rules") or []):
            body = {"metadata": {"name": key.name}, "rules": rules}
            await self.client.apply(CLUSTER_ROLES, body, field_manager=MANAGER)
        return None


def aggregated(role: JsonObject, roles: Iterable[JsonObject]) -> list[JsonObject]:
    """The rules of all other roles that `role` selects, each once, selector by selector and then by name."""
    found: list[JsonObject] = []
    named = sorted(roles, key=lambda other: str(other["metadata"]["name"]))
    for part in role["aggregationRule"].get("clusterRoleSelectors") or ():
        selector = LabelSelector.from_object(part)
        for other in named:
            if other["metadata"]["name"] != role["metadata"]["name"] and selector.matches(_labels(other)):
                found += [rule for rule in other.get("rules") or () if rule not in found]
    return found


def _labels(role: JsonObject) -> dict[str, str]:
    return role["metadata"].get("labels") or {}
