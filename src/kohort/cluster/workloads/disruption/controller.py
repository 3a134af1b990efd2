"""The disruption reconciler."""

from collections.abc import Iterable

from kohort.cluster.workloads import conditions
from kohort.cluster.workloads.disruption import plan as rules
from kohort.cluster.workloads.disruption.plan import Budget
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.discovery import served_resources
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.manager import Manager
from kohort.kube.owners import Reference, controller_of
from kohort.kube.resources import POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Key, Resource
from kohort.objects.core import Pod
from kohort.objects.jsontypes import JsonObject
from kohort.objects.selectors import LabelSelector


class NoController(Exception):
    """The controller of a pod does not say how many there should be."""


def register(manager: Manager) -> None:
    Disruption(manager)


class Disruption:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("controllermanager")
        self.budgets = manager.informer(POD_DISRUPTION_BUDGETS, JsonObject)
        self.pods = manager.informer(PODS, Pod)
        self._scalable: dict[tuple[str, str], Resource] = {}
        controller = manager.controller("disruption", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.budgets)
        controller.watches(self.pods, self._budgets_of)

    def _budgets_of(self, pod: Pod) -> Iterable[Key]:
        return [
            Key(pod.metadata.namespace, budget["metadata"]["name"])
            for budget in self.budgets.list(pod.metadata.namespace)
            if _selector(budget).matches(pod.metadata.labels)
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        budget = self.budgets.get(key)
        if budget is None:
            return None
        pods = [
            pod
            for pod in self.pods.list(key.namespace)
            if not pod.finished and _selector(budget).matches(pod.metadata.labels)
        ]
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        leaving = {pod.metadata.name for pod in pods if pod.metadata.deleting}
        disrupted = rules.still_disrupted(noted, leaving, {pod.metadata.name for pod in pods}, clock.now())
        healthy = [
            pod for pod in pods if pod.ready and not pod.metadata.deleting and pod.metadata.name not in disrupted
        ]
        wish = Budget(budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable"))
        try:
            wanted = await self._wanted(pods) if wish.counts_wanted_pods else 0
        except (NoController, ApiError) as problem:
            await self._write_failure(budget, str(problem))
            return Requeue(after=30.0)
        verdict = rules.judge(wish, existing=len(pods), wanted=wanted, healthy=len(healthy))
        await self._write(budget, verdict, disrupted)
        return Requeue(after=rules.EVICTION_TIMEOUT.total_seconds()) if disrupted else None

    async def _wanted(self, pods: list[Pod]) -> int:
        """What the controllers of these pods want, each counted once. Pods without one are not wanted by anybody."""
        owners: dict[str, tuple[str, Reference]] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is not None:
                owners[reference.uid] = (pod.metadata.namespace, reference)
        total = 0
        seen: set[str] = set()
        for namespace, reference in owners.values():
            uid, replicas = await self._scale_of(namespace, reference)
            if uid not in seen:
                seen.add(uid)
                total += replicas
        return total

    async def _scale_of(self, namespace: str, reference: Reference) -> tuple[str, int]:
        if reference.kind == "ReplicaSet":
            replica_set = await self.client.get(REPLICA_SETS, reference.name, namespace)
            owner = controller_of(replica_set)
            if owner is not None:
                reference = owner
        resource = await self._resource_of(reference)
        if reference.api_version == "batch/v1":
            raise NoController(f"{resource.plural}.batch does not implement the scale subresource")
        scale = await self.client.get(resource, reference.name, namespace, subresource="scale")
        return scale["metadata"]["uid"], scale["spec"].get("replicas") or 0

    async def _resource_of(self, reference: Reference) -> Resource:
        key = (reference.api_version, reference.kind)
        if key not in self._scalable:
            served = await served_resources(self.client, all_versions=True)
            self._scalable = {(one.resource.api_version, one.resource.kind): one.resource for one in served}
        if key not in self._scalable:
            raise NoController(f"{reference.api_version} {reference.kind} is not served, so nobody knows its scale")
        return self._scalable[key]

    async def _write(self, budget: JsonObject, verdict: rules.Verdict, disrupted: dict[str, str]) -> None:
        before = budget.get("status") or {}
        reason = "SufficientPods" if verdict.allowed > 0 else "InsufficientPods"
        state = "True" if verdict.allowed > 0 else "False"
        noted = before.get("disruptedPods") or {}
        wanted: JsonObject = {
            "observedGeneration": budget["metadata"].get("generation"),
            "currentHealthy": verdict.healthy,
            "desiredHealthy": verdict.desired,
            "expectedPods": verdict.expected,
            "disruptionsAllowed": verdict.allowed,
            "conditions": self._condition(budget, state, reason, ""),
        }
        gone = {name: None for name in noted if name not in disrupted}
        if all(before.get(name) == value for name, value in wanted.items()) and not gone:
            return
        if gone:
            wanted["disruptedPods"] = gone
        await self._patch(budget, wanted)

    async def _write_failure(self, budget: JsonObject, message: str) -> None:
        self.recorder.warning(POD_DISRUPTION_BUDGETS, budget, "CalculateExpectedPodCountFailed", message)
        wanted: JsonObject = {
            "disruptionsAllowed": 0,
            "observedGeneration": budget["metadata"].get("generation"),
            "conditions": self._condition(budget, "False", "SyncFailed", message),
        }
        before = budget.get("status") or {}
        if any(before.get(name) != value for name, value in wanted.items()):
            await self._patch(budget, wanted)

    def _condition(self, budget: JsonObject, state: str, reason: str, message: str) -> list[JsonObject]:
        found: list[JsonObject] = (budget.get("status") or {}).get("conditions") or []
        old = conditions.find(found, "DisruptionAllowed")
        generation = budget["metadata"].get("generation")
        wanted = (state, reason, message, generation)
        if old and (old["status"], old["reason"], old.get("message", ""), old.get("observedGeneration")) == wanted:
            return found
        moved = old is None or old["status"] != state
        entry: JsonObject = {
            "type": "DisruptionAllowed",
            "status": state,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": clock.timestamp() if old is None or moved else old["lastTransitionTime"],
        }
        return [one for one in found if one["type"] != "DisruptionAllowed"] + [entry]

    async def _patch(self, budget: JsonObject, wanted: JsonObject) -> None:
        """Guarded by the version that was read: the eviction endpoint counts down in the same status."""
        metadata = budget["metadata"]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": wanted}
        try:
            await self.client.patch(
                POD_DISRUPTION_BUDGETS, metadata["name"], metadata["namespace"], body, subresource="status"
            )
        except NotFound:
            return


def _selector(budget: JsonObject) -> LabelSelector:
    return LabelSelector.from_object(budget["spec"].get("selector"))
