"""The disruption reconciler."""

from collections.abc import Iterable

from kohort.cluster.workloads import conditions
from kohort.cluster.workloads.disruption import plan as disruption_plan
from kohort.cluster.workloads.disruption.expected_pods import NoController, Scales, Wanted
from kohort.cluster.workloads.disruption.plan import Budget
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError
from kohort.kube.manager import Manager
from kohort.kube.resources import POD_DISRUPTION_BUDGETS, PODS, Key
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector


def register(manager: Manager) -> None:
    Disruption(manager)


class Disruption:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("controllermanager")
        self.budgets = manager.informer(POD_DISRUPTION_BUDGETS, JsonObject)
        self.pods = manager.informer(PODS, Pod)
        self._scales = Scales(manager.client)
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
        selector = _selector(budget)
        pods = [pod for pod in self.pods.list(key.namespace) if selector.matches(pod.metadata.labels)]
        if not pods:
            self.recorder.normal(POD_DISRUPTION_BUDGETS, budget, "NoPods", "No matching pods found")
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        leaving = {pod.metadata.name for pod in pods if pod.metadata.deleting}
        granted = disruption_plan.granted_evictions(noted, leaving, {pod.metadata.name for pod in pods}, clock.now())
        self._report_overdue(key, [pod for pod in pods if pod.metadata.name in granted.overdue])
        disrupted = granted.pending
        healthy = [
            pod for pod in pods if pod.ready and not pod.metadata.deleting and pod.metadata.name not in disrupted
        ]
        limits = Budget(budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable"))
        try:
            wanted = await self._scales.wanted(pods) if limits.counts_wanted_pods else Wanted()
        except (NoController, ApiError) as problem:
            await self._write_failure(budget, str(problem))
            return Requeue(after=30.0)
        if wanted.unmanaged:
            self.recorder.warning(
                POD_DISRUPTION_BUDGETS, budget, "UnmanagedPods", disruption_plan.unmanaged_message(budget["spec"])
            )
        counts = disruption_plan.count_budget(limits, existing=len(pods), wanted=wanted.count, healthy=len(healthy))
        await self._write(budget, counts, disrupted)
        return Requeue(after=disruption_plan.EVICTION_TIMEOUT.total_seconds()) if disrupted else None

    def _report_overdue(self, key: Key, pods: list[Pod]) -> None:
        """Kubernetes names the namespace twice, and not the budget."""
        message = f"Pod was expected by PDB {key.namespace}/{key.namespace} to be deleted but it wasn't"
        for pod in pods:
            self.recorder.warning(PODS, pod, "NotDeleted", message)

    async def _write(self, budget: JsonObject, counts: disruption_plan.BudgetCounts, disrupted: dict[str, str]) -> None:
        before = budget.get("status") or {}
        reason = "SufficientPods" if counts.allowed > 0 else "InsufficientPods"
        state = "True" if counts.allowed > 0 else "False"
        noted = before.get("disruptedPods") or {}
        wanted: JsonObject = {
            "observedGeneration": budget["metadata"].get("generation"),
            "currentHealthy": counts.healthy,
            "desiredHealthy": counts.desired,
            "expectedPods": counts.expected,
            "disruptionsAllowed": counts.allowed,
            "conditions": self._condition(budget, state, reason, "", budget["metadata"].get("generation")),
        }
        gone = {name: None for name in noted if name not in disrupted}
        if all(before.get(name) == value for name, value in wanted.items()) and not gone:
            return
        if gone:
            wanted["disruptedPods"] = gone
        await self._patch(budget, wanted)

    async def _write_failure(self, budget: JsonObject, message: str) -> None:
        """No disruption is allowed. The other fields of the status stay as they are, the observed generation too."""
        words = f"Failed to calculate the number of expected pods: {message}"
        self.recorder.warning(POD_DISRUPTION_BUDGETS, budget, "CalculateExpectedPodCountFailed", words)
        before = budget.get("status") or {}
        generation = before.get("observedGeneration") or None
        wanted: JsonObject = {
            "disruptionsAllowed": 0,
            "conditions": self._condition(budget, "False", "SyncFailed", message, generation),
        }
        if any(before.get(name) != value for name, value in wanted.items()):
            await self._patch(budget, wanted)

    def _condition(
        self, budget: JsonObject, state: str, reason: str, message: str, generation: int | None
    ) -> list[JsonObject]:
        found: list[JsonObject] = (budget.get("status") or {}).get("conditions") or []
        old = conditions.find(found, "DisruptionAllowed")
        wanted = (state, reason, message, generation)
        if old and (old["status"], old["reason"], old.get("message", ""), old.get("observedGeneration")) == wanted:
            return found
        moved = old is None or old["status"] != state
        entry: JsonObject = {
            "type": "DisruptionAllowed",
            "status": state,
            "reason": reason,
            "message": message,
            "lastTransitionTime": clock.timestamp() if old is None or moved else old["lastTransitionTime"],
        }
        if generation is not None:
            entry["observedGeneration"] = generation
        return [one for one in found if one["type"] != "DisruptionAllowed"] + [entry]

    async def _patch(self, budget: JsonObject, wanted: JsonObject) -> None:
        """Guarded by the version that was read: the eviction endpoint counts down in the same status."""
        await self.client.patch_status(POD_DISRUPTION_BUDGETS, budget, wanted, locked=True)


def _selector(budget: JsonObject) -> LabelSelector:
    return LabelSelector.from_object(budget["spec"].get("selector"))
