"""The claims of a StatefulSet's pods: created before a pod, retained or deleted by the retention policy."""

import msgspec

from kohort.cluster.workloads.pod_state import claim_names
from kohort.cluster.workloads.statefulset.pods import Owner, build_claims, claim_owners, claims_of, ordinal_of
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, ApiError
from kohort.kube.events import EventRecorder
from kohort.kube.informer import Informer
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, Key
from kohort.objects.core import PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject


class ClaimsNotReady(Exception):
    """A claim of the pod was rejected, or is being deleted."""


class Claims:
    def __init__(self, client: Client, cache: Informer[PersistentVolumeClaim], recorder: EventRecorder) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder

    def as_wanted(self, stateful_set: JsonObject, pod: Pod, ordinal: int) -> bool:
        """Whether the pod mounts its claims, and they have the owners that the retention policy asks for."""
        if not has_volumes(stateful_set, pod, ordinal):
            return False
        return all(self._misowned(stateful_set, pod, name) is None for name in claims_of(stateful_set, ordinal))

    def _misowned(self, stateful_set: JsonObject, pod: Pod, claim: str) -> list[JsonObject] | None:
        """The owners that a claim should have, if they are not those it has."""
        found = self._cache.get(Key(pod.metadata.namespace, claim))
        if found is None:
            return None
        policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        ordinal = ordinal_of(pod.metadata.name, stateful_set["metadata"]["name"]) or 0
        present: list[JsonObject] = [msgspec.to_builtins(one) for one in found.metadata.owner_references]
        wanted = claim_owners(
            present,
            Owner("apps/v1", "StatefulSet", stateful_set["metadata"]["name"], stateful_set["metadata"]["uid"]),
            Owner("v1", "Pod", pod.metadata.name, pod.metadata.uid),
            when_deleted=policy.get("whenDeleted", "Retain"),
            when_scaled=policy.get("whenScaled", "Retain"),
            condemned=not in_range(stateful_set, ordinal),
        )
        return None if wanted == present else wanted

    async def ensure(self, stateful_set: JsonObject, pod_name: str) -> None:
        ordinal = ordinal_of(pod_name, stateful_set["metadata"]["name"])
        problems: list[str] = []
        for claim in build_claims(stateful_set, ordinal or 0):
            found = self._cache.get(Key(claim["metadata"]["namespace"], claim["metadata"]["name"]))
            if found is None:
                problems += await self._create(stateful_set, pod_name, claim)
            elif found.metadata.deletion_timestamp is not None:
                problems.append(f"pvc {found.metadata.name} is being deleted")
        if problems:
            raise ClaimsNotReady(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    async def _create(self, stateful_set: JsonObject, pod_name: str, claim: JsonObject) -> list[str]:
        """Create a claim, with an event for the result."""
        name, set_name = claim["metadata"]["name"], stateful_set["metadata"]["name"]
        try:
            await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim)
        except AlreadyExists:
            return []
        except ApiError as problem:
            message = f"Create Claim {name} for Pod {pod_name} in StatefulSet {set_name} failed error: {problem}"
            self._recorder.warning(STATEFUL_SETS, stateful_set, "FailedCreate", message)
            return [f"failed to create PVC {name}: {problem}"]
        message = f"Create Claim {name} Pod {pod_name} in StatefulSet {set_name} success"
        self._recorder.normal(STATEFUL_SETS, stateful_set, "SuccessfulCreate", message)
        return []

    async def fix_owners(self, stateful_set: JsonObject, pod: Pod) -> None:
        ordinal = ordinal_of(pod.metadata.name, stateful_set["metadata"]["name"]) or 0
        for claim in claims_of(stateful_set, ordinal):
            found = self._cache.get(Key(pod.metadata.namespace, claim))
            if found is not None and _belongs_to_others(stateful_set, found):
                message = (
                    f"PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging "
                    "controller, the retention policy is ignored for this claim"
                )
                self._recorder.warning(STATEFUL_SETS, stateful_set, "ConflictingController", message)
            owners = self._misowned(stateful_set, pod, claim)
            if owners is None:
                continue
            version = found.metadata.resource_version if found else ""
            body = {"metadata": {"ownerReferences": owners, "resourceVersion": version}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim, pod.metadata.namespace, body)

    def are_stale(self, stateful_set: JsonObject, pod_name: str) -> bool:
        """With whenScaled=Delete, a claim that an earlier pod of this name still owns is about to be deleted."""
        policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        if policy.get("whenScaled") != "Delete":
            return False
        ordinal = ordinal_of(pod_name, stateful_set["metadata"]["name"])
        for claim in build_claims(stateful_set, ordinal or 0):
            found = self._cache.get(Key(claim["metadata"]["namespace"], claim["metadata"]["name"]))
            if found and any(one.kind == "Pod" and one.name == pod_name for one in found.metadata.owner_references):
                return True
        return False


def _belongs_to_others(stateful_set: JsonObject, claim: PersistentVolumeClaim) -> bool:
    """Whether another controller owns a claim to which the retention policy would add an owner."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if "Delete" not in policy.values():
        return False
    ours = {("StatefulSet", stateful_set["metadata"]["name"]), ("Pod", _pod_of(stateful_set, claim))}
    return any(one.controller and (one.kind, one.name) not in ours for one in claim.metadata.owner_references)


def _pod_of(stateful_set: JsonObject, claim: PersistentVolumeClaim) -> str:
    """The pod that mounts a claim, by the name of the claim."""
    return f"{stateful_set['metadata']['name']}-{claim.metadata.name.rpartition('-')[2]}"


def has_volumes(stateful_set: JsonObject, pod: Pod, ordinal: int) -> bool:
    return set(claims_of(stateful_set, ordinal)) <= set(claim_names(pod))


def in_range(stateful_set: JsonObject, ordinal: int) -> bool:
    """The set wants a pod of this number."""
    spec = stateful_set["spec"]
    start, replicas = (spec.get("ordinals") or {}).get("start") or 0, spec.get("replicas", 1)
    return bool(start <= ordinal < start + replicas)
