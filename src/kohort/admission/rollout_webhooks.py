"""The webhooks of Rollouts and of the workloads that they release.

A workload is changed here for one reason only: a new template and the hold that keeps it from rolling must be stored
together. The answer is computed from caches; while those are not complete, an update of a guarded workload is refused
for a moment rather than let through without its hold.
"""

import asyncio
import base64
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from kohort.admission.jsondiff import operations
from kohort.admission.reviews import Endpoints
from kohort.admission.secret_access import AccessUnknown, refused_uses
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, STATEFUL_SETS, Key
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError, listed
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import OwnerReference
from kohort.rollouts import v1alpha1_checks, validation, version_conversion
from kohort.rollouts.action_result import Problem
from kohort.rollouts.analysis.analysis_rules import InvalidAnalysis, parse_plan
from kohort.rollouts.analysis.analysis_types import AnalysisSpec, ReleaseAnalysis
from kohort.rollouts.analysis.secret_uses import SecretUse, uses_to_review
from kohort.rollouts.analysis_control.judgements import judgement_of, unjudged
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.feature_gates import Features, keeps_hold
from kohort.rollouts.rollout_types import Rollout, WorkloadRef
from kohort.rollouts.traffic.model import Selectors, ServingPods, Traffic, TrafficRequest
from kohort.rollouts.workloads import deployment_hold, serving_pods
from kohort.rollouts.workloads.update_admission import (
    AdmissionContext,
    AdmissionDecision,
    admit_deployment,
    admit_group_set,
    admit_stateful_set,
)
from kohort.rules import group_labels, rollout_labels

MUTATE_SET: Final = "/mutate-rollouts-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_DEPLOYMENT: Final = "/mutate-apps-v1-deployment"
MUTATE_STATEFUL_SET: Final = "/mutate-apps-v1-statefulset"
VALIDATE_ROLLOUT: Final = "/validate-rollouts-kruise-io-rollout"
VALIDATE_ANALYSIS: Final = "/validate-kohort-dev-v1alpha1-releaseanalysis"
CONVERT: Final = "/convert"
MUTATING: Final = "kruise-rollout-mutating-webhook-configuration"
VALIDATING: Final = "kruise-rollout-validating-webhook-configuration"
_ALLOWED: Final[JsonObject] = {"allowed": True}
_LOOK_SECONDS: Final = 2.0
"""Less than an API server waits for a webhook."""
_NOT_READY: Final = "the rollout webhook has just started and does not know all Rollouts yet; try again in a moment"

Admit = Callable[[JsonObject, JsonObject, AdmissionContext], AdmissionDecision]


class RolloutWebhooks:
    """The endpoints, served before there are caches and while those are replaced: their owner sets `cache`, and
    `client` if it is not known at the beginning."""

    def __init__(self, client: Client | None = None) -> None:
        self.client = client
        """Asks the cluster what a user may do. Without it, no ReleaseAnalysis is let through."""
        self.cache: RolloutCache | None = None
        self.traffic: Traffic | None = None
        """Looks up the Services and routes that a Rollout names; without it, nothing is said about them."""
        self.features = Features()

    def endpoints(self) -> Endpoints:
        return {
            MUTATE_SET: self._known(lambda request, cache: _workload(request, cache, _set_context, admit_group_set)),
            MUTATE_DEPLOYMENT: self._known(
                lambda request, cache: _workload(request, cache, _deployment_context, admit_deployment)
            ),
            MUTATE_STATEFUL_SET: self._known(
                lambda request, cache: _workload(request, cache, _stateful_set_context, admit_stateful_set)
            ),
            VALIDATE_ROLLOUT: self._rollout,
            VALIDATE_ANALYSIS: self._analysis,
            CONVERT: convert,
        }

    async def _rollout(self, request: JsonObject) -> JsonObject:
        if self.cache is None or not self.cache.synced:
            return _denied(503, "ServiceUnavailable", _NOT_READY)
        review = _judged(request, self.cache, self.features)
        if review.changed is None or self.traffic is None:
            return review.answer
        warnings = [*review.answer.get("warnings", ()), *await _unresolved(review.changed, self.cache, self.traffic)]
        return {**review.answer, **({"warnings": warnings} if warnings else {})}

    async def _analysis(self, request: JsonObject) -> JsonObject:
        if self.cache is None or not self.cache.synced or self.client is None:
            return _denied(503, "ServiceUnavailable", _NOT_READY)
        review = _judged_analysis(request, self.cache)
        return await _with_access(request, review.uses, self.client) if review.uses else review.answer

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
    context: Callable[[JsonObject, RolloutCache], AdmissionContext],
    admit: Admit,
) -> JsonObject:
    new, old = request.get("object"), request.get("oldObject")
    if request.get("operation") != "UPDATE" or request.get("subResource") or new is None or old is None:
        return {"allowed": True}
    admitted = admit(new, old, context(old, cache))
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


def _set_context(old: JsonObject, cache: RolloutCache) -> AdmissionContext:
    metadata = old["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    ref = WorkloadRef.to(LEADER_WORKER_SETS, key.name)
    rollout = cache.rollout_for(key.namespace, ref)
    return AdmissionContext(rollout, cache.live_hash(key), _tokens(old, ref, cache))


def _deployment_context(old: JsonObject, cache: RolloutCache) -> AdmissionContext:
    metadata = old["metadata"]
    key = Key(metadata["namespace"], metadata["name"])
    ref = WorkloadRef.to(DEPLOYMENTS, key.name)
    active = deployment_hold.active(cache.replica_sets_of(metadata.get("uid", "")))
    live = active[0].metadata.labels.get(rollout_labels.TEMPLATE_HASH, "") if active else ""
    present = tuple(deployment_hold.revision_of(one.spec.template) for one in active)
    return AdmissionContext(cache.rollout_for(key.namespace, ref), live, _tokens(old, ref, cache), present)


def _stateful_set_context(old: JsonObject, cache: RolloutCache) -> AdmissionContext:
    metadata = old["metadata"]
    ref = WorkloadRef.to(STATEFUL_SETS, metadata["name"])
    live = (old.get("status") or {}).get("currentRevision", "")
    return AdmissionContext(cache.rollout_for(metadata["namespace"], ref), live, _tokens(old, ref, cache))


def _tokens(old: JsonObject, ref: WorkloadRef, cache: RolloutCache) -> frozenset[str]:
    """Who may lift the hold of this workload: the BatchRelease that controls it, and the Rollouts that name it."""
    namespace = old["metadata"]["namespace"]
    rollouts = [cache.rollouts.get(key) for key in cache.rollouts_of(namespace, ref)]
    found = {one.metadata.uid for one in rollouts if one is not None}
    info = (old["metadata"].get("annotations") or {}).get(rollout_labels.CONTROL_INFO, "")
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
        done = [version_conversion.converted(one, request["desiredAPIVersion"]) for one in request.get("objects") or ()]
    except ValueError as problem:
        return {"convertedObjects": [], "result": {"status": "Failure", "message": str(problem)}}
    return {"convertedObjects": done, "result": {"status": "Success"}}


class _Review(msgspec.Struct, frozen=True):
    answer: JsonObject
    changed: Rollout | None = None
    """The Rollout, where it was admitted and its references may be others than before."""


def _judged(request: JsonObject, cache: RolloutCache, features: Features) -> _Review:
    document, stored = request.get("object"), request.get("oldObject")
    if request.get("subResource"):
        return _Review(_ALLOWED)
    if document is None:
        return _Review(_deleted(stored, features))
    older = document.get("apiVersion") == version_conversion.ALPHA
    if older and (wrong := v1alpha1_checks.errors(document)):
        return _Review(_denied(422, "Invalid", _invalid_message(document["metadata"].get("name", ""), wrong)))
    try:
        new = validation.parse(version_conversion.converted(document, version_conversion.BETA))
        old = (
            validation.parse(version_conversion.converted(stored, version_conversion.BETA))
            if stored is not None
            else None
        )
    except ValueError as problem:
        return _Review(_denied(400, "BadRequest", str(problem)))
    others = cache.rollouts.list(new.metadata.namespace)
    limit = features.partition_percent_limit
    if old is None:
        found = [*validation.create_errors(new, others, partition_limit=limit), *_part_of_a_set(new, cache)]
    elif new.metadata.deleting:
        found = []
    else:
        found = validation.update_errors(new, old, others, steps_may_change=older, partition_limit=limit)
    if found:
        return _Review(_denied(422, "Invalid", _invalid_message(new.metadata.name, found)))
    judgement = judgement_of(new, cache)
    unusable = [judgement.problem] if judgement is not None and judgement.problem else []
    warnings = unusable + validation.warnings(new, cache.replicas_of(new.metadata.namespace, new.spec.workload_ref))
    if old is not None and new.spec.disabled and not old.spec.disabled:
        warnings += filter(None, (validation.ending_warning(old, "disabled", keeps_hold=keeps_hold(new, features)),))
    names_others = not new.metadata.deleting and (old is None or new.spec != old.spec)
    answer = {**_ALLOWED, **({"warnings": warnings} if warnings else {})}
    return _Review(answer, new if names_others and not new.spec.disabled else None)


def _part_of_a_set(rollout: Rollout, cache: RolloutCache) -> list[FieldError]:
    """A StatefulSet of a LeaderWorkerSet follows its set, and cannot be released by itself."""
    ref = rollout.spec.workload_ref
    owned = cache.leader_sets.get(Key(rollout.metadata.namespace, ref.name)) if ref.is_stateful_set else None
    if owned is None:
        return []
    name = owned.metadata.labels.get(group_labels.NAME, "")
    text = f"StatefulSet {ref.name} is part of LeaderWorkerSet {name}: name the LeaderWorkerSet"
    return [field_errors.invalid("Spec.ObjectRef.WorkloadRef", ref.name, text)]


def _deleted(stored: JsonObject | None, features: Features) -> JsonObject:
    """A Rollout can always be deleted; what that does to a release is said."""
    if stored is None:
        return _ALLOWED
    try:
        old = validation.parse(version_conversion.converted(stored, version_conversion.BETA))
    except ValueError:
        return _ALLOWED
    warnings = validation.ending_warning(old, "deleted", keeps_hold=keeps_hold(old, features))
    return {**_ALLOWED, **({"warnings": [warnings]} if warnings and not old.metadata.deleting else {})}


async def _unresolved(rollout: Rollout, cache: RolloutCache, traffic: Traffic) -> list[str]:
    """What the Rollout names and cannot be used now. It may come later, so nothing is refused; and a cluster that does
    not answer in time does not delay the request."""
    ref = rollout.spec.workload_ref
    request = TrafficRequest(
        namespace=rollout.metadata.namespace,
        owner=rollout.owner_reference(),
        refs=rollout.strategy.traffic_routings,
        selectors=Selectors(_revision_key(ref)),
        serving=_serving(rollout, cache),
    )
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            found = await traffic.check(request)
    except (TimeoutError, ApiError):
        return []
    problems = [found.text] if isinstance(found, Problem) else []
    return [*problems, *(event.message for event in found.events if event.warning)]


def _revision_key(ref: WorkloadRef) -> str:
    if ref.is_group_set:
        return group_labels.REVISION
    return rollout_labels.REVISION_HASH if ref.is_stateful_set else rollout_labels.TEMPLATE_HASH


def _serving(rollout: Rollout, cache: RolloutCache) -> ServingPods | None:
    key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
    if rollout.spec.workload_ref.is_group_set:
        found = cache.sets.get(key)
        return serving_pods.of_group_set(found) if found is not None else None
    if rollout.spec.workload_ref.is_stateful_set:
        stateful_set = cache.stateful_sets.get(key)
        return serving_pods.of_stateful_set(stateful_set) if stateful_set is not None else None
    deployment = cache.deployments.get(key)
    return serving_pods.of_deployment(deployment) if deployment is not None else None


# Analyses


class _AnalysisReview(msgspec.Struct, frozen=True):
    answer: JsonObject
    uses: tuple[SecretUse, ...] = ()
    """Where it was admitted so far: what the user must be allowed to read besides."""


def _judged_analysis(request: JsonObject, cache: RolloutCache) -> _AnalysisReview:
    """A ReleaseAnalysis that cannot be used is refused, in the words in which a release would say so. One that is
    stored already can be labelled and deleted; also while it is being deleted, it is not let to use other Secrets."""
    document, stored = request.get("object"), request.get("oldObject") or {}
    if document is None or request.get("subResource") or document.get("spec") == stored.get("spec"):
        return _AnalysisReview(_ALLOWED)
    metadata = document["metadata"]
    prefix = f"{_analysis_name(document)} is invalid: "
    try:
        analysis = msgspec.convert(document, ReleaseAnalysis)
        found = [] if metadata.get("deletionTimestamp") else unjudged(parse_plan(analysis.spec), analysis, cache)
    except msgspec.ValidationError as problem:
        return _AnalysisReview(_denied(400, "BadRequest", f"not a ReleaseAnalysis: {problem}"))
    except InvalidAnalysis as problem:
        return _AnalysisReview(_denied(422, "Invalid", f"{prefix}{problem}"))
    if found:
        return _AnalysisReview(_denied(422, "Invalid", f"{prefix}{'; '.join(found)}"))
    return _AnalysisReview(_ALLOWED, uses_to_review(analysis.spec, _stored_spec(stored)))


def _stored_spec(stored: JsonObject) -> AnalysisSpec | None:
    try:
        return msgspec.convert(stored.get("spec"), AnalysisSpec)
    except msgspec.ValidationError:
        return None


async def _with_access(request: JsonObject, uses: tuple[SecretUse, ...], client: Client) -> JsonObject:
    name = _analysis_name(request["object"])
    try:
        found = await refused_uses(client, request.get("userInfo") or {}, request.get("namespace") or "", uses)
    except AccessUnknown as problem:
        return _denied(503, "ServiceUnavailable", f"{name}: {problem}", {"retryAfterSeconds": 1})
    if not found:
        return _ALLOWED
    causes = [{"reason": one.reason, "field": one.field, "message": one.message} for one in found]
    return _denied(403, "Forbidden", f"{name} is forbidden: {listed(found)}", {"causes": causes})


def _analysis_name(document: JsonObject) -> str:
    return f'ReleaseAnalysis.kohort.dev "{document["metadata"].get("name", "")}"'


def _invalid_message(name: str, found: list[FieldError]) -> str:
    return f'Rollout.rollouts.kruise.io "{name}" is invalid: {listed(found)}'


def _denied(code: int, reason: str, message: str, details: JsonObject | None = None) -> JsonObject:
    status = {"code": code, "reason": reason, "message": message, **({"details": details} if details else {})}
    return {"allowed": False, "status": status}
