"""The webhooks of LeaderWorkerSets and of the pods in their groups.

Errors of a set are reported by the mutating webhook, although there is a validating one: between the two the API server
checks the schema, whose rules protect the API while no webhook answers. The schema's errors would come first, without
the wrong value and not all at once. The validating webhook checks again, because others may have changed the set.
"""

from typing import Final

from kohort.admission.reviews import Endpoints, Refused, mutating, mutating_async, validating, validating_async
from kohort.groups import messages
from kohort.groups.caches import GroupCache
from kohort.groups.defaulting import defaulted
from kohort.groups.disruption_budget import EvictionRefused
from kohort.groups.evictions import BudgetBusy, EvictionAnswer, answer_eviction
from kohort.groups.failed_pod_backoff import held
from kohort.groups.gang import GangProvider
from kohort.groups.gang_schedulers import provider_named
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.name_collisions import collision_errors
from kohort.groups.node_records import with_previous_node
from kohort.groups.pod_mutation import PodRefused, mutated
from kohort.groups.previous_nodes import prefers_previous_nodes
from kohort.groups.template_dry_run import template_errors
from kohort.groups.type_checks import has_its_types
from kohort.groups.validation import create_errors, scale_errors, update_errors
from kohort.kube.client import Client
from kohort.kube.resources import Key
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

MUTATE_SET: Final = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
VALIDATE_SET: Final = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_POD: Final = "/mutate--v1-pod"
VALIDATE_EVICTION: Final = "/validate--v1-pod-eviction"
VALIDATE_POD: Final = "/validate--v1-pod"
"""Not registered by us. Where another operator stood before, its configuration may still ask; it gets the same yes."""


class GroupWebhooks:
    """The endpoints. Without a `cache`, which the owner sets once it has one, names of other sets are not compared: the
    controllers report a collision later. Without a `client`, templates are not checked by dry run."""

    def __init__(
        self, *, default_resize_policy: str = "None", gang_scheduler: str = "", client: Client | None = None
    ) -> None:
        self._default_resize_policy = default_resize_policy
        self._gang = provider_named(gang_scheduler)
        self.cache: GroupCache | None = None
        self.client = client

    def endpoints(self) -> Endpoints:
        return {
            MUTATE_SET: mutating(self._set),
            VALIDATE_SET: validating_async(self._all_errors),
            MUTATE_POD: mutating_async(self._pod),
            VALIDATE_POD: validating(lambda _: []),
            VALIDATE_EVICTION: self._eviction,
        }

    async def _pod(self, request: JsonObject) -> JsonObject:
        pod = _mutated_pod(request, gang=self._gang)
        if self.cache is None or self.client is None:
            return pod
        labels = pod["metadata"].get("labels") or {}
        key = Key(_namespace(request), pod["metadata"].get("name") or "")
        hold = self.cache.failed_pods.hold(key, labels.get(group_labels.REVISION, ""))
        if hold is not None and not request.get("dryRun"):
            pod = held(pod, hold)
        group_set = self.cache.sets.get(Key(key.namespace, labels.get(group_labels.NAME, "")))
        if group_set is None or not prefers_previous_nodes(group_set.metadata.annotations):
            return pod
        return await with_previous_node(self.client, group_set, pod)

    async def _eviction(self, request: JsonObject) -> JsonObject:
        """Evictions of pods count by group. 429 is what programs that evict wait for and repeat."""
        name, namespace = request.get("name") or "", request.get("namespace") or ""
        if self.client is None:
            return {"allowed": True}
        dry_run = bool(request.get("dryRun")) or bool((request["object"].get("deleteOptions") or {}).get("dryRun"))
        try:
            answer = await answer_eviction(self.client, namespace, name, dry_run=dry_run)
        except BudgetBusy as busy:
            return _too_many_requests(messages.eviction_busy(_full_name(busy.group_set), name), 1)
        match answer:
            case EvictionAnswer(group_set, EvictionRefused(limit), away):
                text = messages.eviction_refused(_full_name(group_set), name, group_set.replicas, limit, away)
                return _too_many_requests(text)
        return {"allowed": True}

    def _set(self, request: JsonObject) -> JsonObject:
        written: JsonObject = request["object"]
        if not has_its_types(written):
            return written
        wanted = defaulted(written)
        found = self._set_errors({**request, "object": wanted})
        if not written["metadata"].get("name"):  # the server makes one up after this, from generateName
            found = [error for error in found if error.field != "metadata.name"]
        if found:
            raise Refused.because_of(found)
        return wanted

    async def _all_errors(self, request: JsonObject) -> list[FieldError]:
        found = self._set_errors(request)
        new = request.get("object")
        if found or new is None or self.client is None or request.get("subResource"):
            return found
        if new["metadata"].get("deletionTimestamp"):
            return []
        return await template_errors(self.client, _namespace(request), new, request.get("oldObject"))

    def _set_errors(self, request: JsonObject) -> list[FieldError]:
        new, old = request.get("object"), request.get("oldObject")
        if new is None:
            return []
        if request.get("subResource") == "scale":
            return self._scale_errors(request, new)
        if old is None:
            found = create_errors(new)
        else:
            found = update_errors(new, old, default_resize_policy=self._default_resize_policy)
        if not found and self.cache is not None and not new["metadata"].get("deletionTimestamp"):
            others = [*self.cache.sets.list(_namespace(request))]
            known = collision_errors(old, others) if old is not None else []
            found = [error for error in collision_errors(new, others) if error not in known]
        return found

    def _scale_errors(self, request: JsonObject, scale: JsonObject) -> list[FieldError]:
        """A Scale says nothing but a number: the set itself is looked up. More groups have longer names, and names that
        others may have; fewer can always be had."""
        if self.cache is None:
            return []
        key = Key(_namespace(request), scale["metadata"].get("name") or "")
        group_set = self.cache.sets.get(key)
        wanted = (scale.get("spec") or {}).get("replicas") or 0
        if group_set is None or group_set.metadata.deleting or wanted <= group_set.replicas:
            return []
        found = {"name": key.name, "uid": group_set.metadata.uid, "annotations": group_set.metadata.annotations}
        before, after = (
            {"metadata": found, "spec": {**group_set.spec, "replicas": count}} for count in (group_set.replicas, wanted)
        )
        return scale_errors(after, before) or collision_errors(after, self.cache.sets.list(key.namespace))


def _full_name(group_set: LeaderWorkerSet) -> str:
    return f"{group_set.metadata.namespace}/{group_set.metadata.name}"


def _too_many_requests(message: str, retry_after: int = 0) -> JsonObject:
    """Clients repeat a request that has a time to wait without showing the message; refusals by a budget have none, as
    those of PodDisruptionBudgets."""
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    status = {"code": 429, "reason": "TooManyRequests", "message": message, "details": details}
    return {"allowed": False, "status": status}


def _mutated_pod(request: JsonObject, *, gang: GangProvider | None) -> JsonObject:
    pod: JsonObject = request["object"]
    try:
        return mutated(pod, _namespace(request), gang=gang)
    except PodRefused as refusal:
        raise Refused(str(refusal)) from refusal


def _namespace(request: JsonObject) -> str:
    """The object's own, which it may lack while it is created."""
    return request["object"]["metadata"].get("namespace") or request.get("namespace") or ""
