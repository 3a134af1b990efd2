"""The webhooks of Rollouts and of the workloads that they release.

A workload is changed here for one reason only: a new template and the hold that keeps it from rolling must be stored
together. The answer is computed from caches; while those are not complete, an update of a guarded workload is refused
for a moment rather than let through without its hold.
"""

import base64
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from kohort.admission.jsondiff import operations
from kohort.admission.reviews import Endpoints
from kohort.kube.resources import Key
from kohort.objects.fielderrors import FieldError, listed
from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import OwnerReference
from kohort.rollouts import olderversion, validation, versions, wire
from kohort.rollouts.api import Rollout, WorkloadRef
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.workloads import deployments
from kohort.rollouts.workloads.admitting import Admitted, Situation, admit_deployment, admit_group_set

MUTATE_SET: Final = "/mutate-rollouts-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_DEPLOYMENT: Final = "/mutate-apps-v1-deployment"
VALIDATE_ROLLOUT: Final = "/validate-rollouts-kruise-io-rollout"
CONVERT: Final = "/convert"
MUTATING: Final = "kruise-rollout-mutating-webhook-configuration"
VALIDATING: Final = "kruise-rollout-validating-webhook-configuration"
_NOT_READY: Final = "the rollout webhook has just started and does not know all Rollouts yet; try again in a moment"

Admit = Callable[[JsonObject, JsonObject, Situation], Admitted]


class RolloutWebhooks:
    """The endpoints, served before there are caches and while those are replaced: `cache` is set by whoever has one."""

    def __init__(self) -> None:
        self.cache: RolloutCache | None = None

    def endpoints(self) -> Endpoints:
        return {
            MUTATE_SET: self._known(lambda request, cache: _workload(request, cache, _set_situation, admit_group_set)),
            MUTATE_DEPLOYMENT: self._known(
                lambda request, cache: _workload(request, cache, _deployment_situation, admit_deployment)
            ),
            VALIDATE_ROLLOUT: self._known(_rollout),
            CONVERT: convert,
        }

    def _known(self, answer: Callable[[JsonObject, RolloutCache], JsonObject]) -> Callable[[JsonObject], JsonObject]:
        def answered(request: JsonObject) -> JsonObject:
            if self.cache is None or not self.cache.synced:
                return _denied(503, "ServiceUnavailable", _NOT_READY)
            return answer(request, self.cache)

        return answered


# Workloads


def _workload(
    request: JsonObject,
    cache: RolloutCache,
    situation: Callable[[JsonObject, RolloutCache], Situation],
    admit: Admit,
) -> JsonObject:
    new, old = request.get("object"), request.get("oldObject")
    if request.get("operation") != "UPDATE" or request.get("subResource") or new is None or old is None:
        return {"allowed": True}
    admitted = admit(new, old, situation(old, cache))
    if admitted.refusal:
        return _denied(409, "Conflict", admitted.refusal)
    answer: JsonObject = {"allowed": True}
    if admitted.warnings:
        answer["warnings"] = list(admitted.warnings)
    changes = operations(new, admitted.document)
    if changes:
        answer["patch"] = base64.b64encode(msgspec.json.encode(changes)).decode()
        answer["patchType"] = "JSONPatch"
    return answer


def _set_situation(old: JsonObject, cache: RolloutCache) -> Situation:
    metadata = old["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    ref = WorkloadRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", key.name)
    rollout = cache.rollout_for(key.namespace, ref)
    return Situation(rollout, cache.live_hash(key), _tokens(old, ref, cache))


def _deployment_situation(old: JsonObject, cache: RolloutCache) -> Situation:
    metadata = old["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    ref = WorkloadRef("apps/v1", "Deployment", key.name)
    active = deployments.active(cache.replica_sets_of(metadata.get("uid", "")))
    live = active[0].metadata.labels.get(wire.TEMPLATE_HASH, "") if active else ""
    present = tuple(deployments.revision_of(one.spec.template) for one in active)
    return Situation(cache.rollout_for(key.namespace, ref), live, _tokens(old, ref, cache), present)


def _tokens(old: JsonObject, ref: WorkloadRef, cache: RolloutCache) -> frozenset[str]:
    """Who may lift the hold of this workload: the BatchRelease that controls it, and the Rollouts that name it."""
    namespace = old["metadata"]["namespace"]
    rollouts = [cache.rollouts.get(key) for key in cache.rollouts_of(namespace, ref)]
    found = {one.metadata.uid for one in rollouts if one is not None}
    info = (old["metadata"].get("annotations") or {}).get(wire.CONTROL_INFO, "")
    if info:
        with contextlib.suppress(msgspec.DecodeError):
            found.add(msgspec.json.decode(info, type=OwnerReference).uid)
    for release in cache.releases.list(namespace):
        if release.spec.workload_ref.identity == ref.identity:
            found.add(release.metadata.uid)
    return frozenset(found - {""})


# Rollouts


def convert(request: JsonObject) -> JsonObject:
    """The answer to a ConversionReview. Needs no caches: it must work from the first moment on."""
    try:
        done = [versions.converted(one, request["desiredAPIVersion"]) for one in request.get("objects") or ()]
    except ValueError as problem:
        return {"convertedObjects": [], "result": {"status": "Failure", "message": str(problem)}}
    return {"convertedObjects": done, "result": {"status": "Success"}}


def _rollout(request: JsonObject, cache: RolloutCache) -> JsonObject:
    document = request.get("object")
    if document is None or request.get("subResource"):
        return {"allowed": True}
    older = document.get("apiVersion") == versions.ALPHA
    if older and (wrong := olderversion.errors(document)):
        return _denied(422, "Invalid", _told(document["metadata"].get("name", ""), wrong))
    try:
        new = validation.parse(versions.converted(document, versions.BETA))
        stored = request.get("oldObject")
        old = validation.parse(versions.converted(stored, versions.BETA)) if stored is not None else None
    except ValueError as problem:
        return _denied(400, "BadRequest", str(problem))
    others = cache.rollouts.list(new.metadata.namespace)
    if old is None:
        found = validation.create_errors(new, others)
    elif new.metadata.deleting:
        found = []
    else:
        found = validation.update_errors(new, old, others, steps_may_change=older)
    if found:
        return _denied(422, "Invalid", _told(new.metadata.name, found))
    told = validation.warnings(new, _replicas(new, cache))
    return {"allowed": True, **({"warnings": told} if told else {})}


def _replicas(rollout: Rollout, cache: RolloutCache) -> int | None:
    key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
    if rollout.spec.workload_ref.is_group_set:
        found = cache.sets.get(key)
        return found.replicas if found is not None else None
    deployment = cache.deployments.get(key)
    return deployment.spec.replicas if deployment is not None else None


def _told(name: str, found: list[FieldError]) -> str:
    return f'Rollout.rollouts.kruise.io "{name}" is invalid: {listed(found)}'


def _denied(code: int, reason: str, message: str) -> JsonObject:
    return {"allowed": False, "status": {"code": code, "reason": reason, "message": message}}
