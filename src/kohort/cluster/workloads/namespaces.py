"""Deletes the content of terminating namespaces, then the namespaces.

A deleted namespace stays, phase Terminating, until nothing is left in it. Everything that can be deleted is
deleted: pods first, and all else when the last of them is gone, because they may need it until then. The remaining
objects are counted in the status, so that a user sees which finalizer keeps the namespace. When it is empty, the
`kubernetes` finalizer is removed from its spec and the API server deletes it.

| condition | True when |
|---|---|
| NamespaceDeletionDiscoveryFailure | the served resources cannot be listed |
| NamespaceDeletionGroupVersionParsingFailure | never here: names come parsed from discovery |
| NamespaceDeletionContentFailure | some deletion failed |
| NamespaceContentRemaining | objects are left |
| NamespaceFinalizersRemaining | some of them wait for a finalizer |
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.discovery import ServedResource, served_resources
from kohort.kube.errors import ApiError, Conflict, MethodNotAllowed, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import NAMESPACES, PODS, Key, Resource
from kohort.objects.core import Namespace
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, PartialObject

FINALIZER = "kubernetes"
_POLL_SECONDS = 0.5
_SLOWEST_POLL_SECONDS = 5.0
_FAST_POLLS = 4
"""Polls of a namespace before they become rarer: most are empty by then, the others wait for a finalizer."""


class NamespaceContents(msgspec.Struct):
    """What is left in a namespace after a reconcile."""

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    """By qualified resource name."""
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    failures: list[str] = []
    discovery_failure: str = ""

    @property
    def empty(self) -> bool:
        return not self.objects and not self.failures and not self.discovery_failure


def register(manager: Manager) -> None:
    Namespaces(manager)


class Namespaces:
    def __init__(self, manager: Manager) -> None:
        self.client: Client = manager.client
        self.namespaces = manager.informer(NAMESPACES, Namespace)
        self._tries: Counter[Key] = Counter()
        controller = manager.controller("namespace", self.reconcile, workers=4, max_delay=30)
        controller.watches(self.namespaces)

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self.namespaces.get(key)
        if namespace is None or not namespace.metadata.deleting:
            self._tries.pop(key, None)
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        remains = await self._empty(key.name)
        await self._report(namespace, remains)
        if remains.empty:
            await self._finalize(namespace)
            return None
        self._tries[key] += 1
        rarer = 1.5 ** min(10, max(0, self._tries[key] - _FAST_POLLS))
        return Requeue(after=min(_SLOWEST_POLL_SECONDS, _POLL_SECONDS * rarer))

    async def _empty(self, name: str) -> NamespaceContents:
        remains = NamespaceContents()
        try:
            served = await served_resources(self.client)
        except ApiError as problem:
            remains.discovery_failure = problem.message
            return remains
        for one in in_deletion_order(served):
            try:
                if not await self._delete_all(one, name):
                    continue
                for left in await self._list(one.resource, name):
                    remains.objects[one.resource.qualified] += 1
                    remains.finalizers.update(left.metadata.finalizers)
            except NotFound:
                continue
            except ApiError as problem:
                remains.failures.append(f"{one.resource.qualified}: {problem.message}")
            if one.resource == PODS and remains.objects:
                break
        return remains

    async def _list(self, resource: Resource, namespace: str) -> list[PartialObject]:
        page = await self.client.list(resource, namespace, type=PartialObject, metadata_only=True)
        return page.items

    async def _delete_all(self, one: ServedResource, namespace: str) -> bool:
        """Whether there was anything to delete."""
        if not await self._list(one.resource, namespace):
            return False
        try:
            await self.client.delete_collection(one.resource, namespace, propagation="Background")
        except MethodNotAllowed:
            for obj in await self._list(one.resource, namespace):
                await self.client.delete(one.resource, obj.metadata.name, namespace, propagation="Background")
        return True

    async def _finalize(self, namespace: Namespace) -> None:
        live = await self.client.find(NAMESPACES, namespace.metadata.name)
        if live is None:
            return
        left = [one for one in live["spec"].get("finalizers") or [] if one != FINALIZER]
        live["spec"]["finalizers"] = left
        try:
            await self.client.update(NAMESPACES, live, subresource="finalize")
        except (NotFound, Conflict):
            return

    async def _report(self, namespace: Namespace, remains: NamespaceContents) -> None:
        wanted = conditions(remains)
        before = {one.type: one for one in namespace.status.conditions}
        if all(_same(before.get(one["type"]), one) for one in wanted):
            return
        stamped = [{**one, "lastTransitionTime": _since(before.get(one["type"]), one)} for one in wanted]
        others = [msgspec.to_builtins(one) for name, one in before.items() if name not in {w["type"] for w in wanted}]
        await self.client.patch_status(NAMESPACES, namespace, {"conditions": others + stamped})


def in_deletion_order(served: Iterable[ServedResource]) -> list[ServedResource]:
    """Namespaced resources that can be emptied, pods first."""
    found = [one for one in served if one.resource.namespaced and one.allows("delete", "list")]
    return sorted(found, key=lambda one: (one.resource != PODS, one.resource.qualified))


def _dotted(name: str) -> str:
    """`resource.group` also where the group has no name."""
    return name if "." in name else f"{name}."


def conditions(remains: NamespaceContents) -> list[JsonObject]:
    """The five conditions of a terminating namespace."""
    left = ", ".join(
        f"{_dotted(name)} has {count} resource instances" for name, count in sorted(remains.objects.items())
    )
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items()))
    failed = "; ".join(remains.failures)
    return [
        _condition(
            "NamespaceDeletionDiscoveryFailure",
            remains.discovery_failure,
            "DiscoveryFailed",
            "Discovery failed for some groups, {}",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        _condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            "",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        _condition(
            "NamespaceDeletionContentFailure",
            failed,
            "ContentDeletionFailed",
            "Failed to delete all resource types, {}",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _condition(
            "NamespaceContentRemaining",
            left,
            "SomeResourcesRemain",
            "Some resources are remaining: {}",
            "ContentRemoved",
            "All content successfully removed",
        ),
        _condition(
            "NamespaceFinalizersRemaining",
            held,
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: {}",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]


def _condition(type: str, problem: str, reason: str, text: str, good_reason: str, good_text: str) -> JsonObject:
    if problem:
        return {"type": type, "status": "True", "reason": reason, "message": text.format(problem)}
    return {"type": type, "status": "False", "reason": good_reason, "message": good_text}


def _same(before: Condition | None, wanted: JsonObject) -> bool:
    if before is None:
        return False
    return (before.status, before.reason, before.message) == (wanted["status"], wanted["reason"], wanted["message"])


def _since(before: Condition | None, wanted: JsonObject) -> str:
    if before is not None and before.status == wanted["status"] and before.last_transition_time:
        return before.last_transition_time
    return clock.timestamp()
