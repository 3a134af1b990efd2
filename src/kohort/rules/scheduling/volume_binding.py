"""Claims, volumes and classes, and which volumes a pod would use on which node.

A claim is *bound* (the node affinity of its volume applies), *immediate* (the volume controller must bind it first) or
*delayed* (its class has WaitForFirstConsumer): the choice of the node binds a delayed claim. On that node it takes an
existing volume that fits. If there is none, the provisioner makes one there; an annotation on the claim names the node.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.objects import well_known_names
from kohort.objects.meta import compiled
from kohort.objects.quantity import ZERO, Quantity
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim
from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.affinity_terms import NodeRule
from kohort.rules.scheduling.rejection import PodProblem, PodProblemKind

ClaimKey = tuple[str, str]

SELECTED_NODE: Final = well_known_names.SELECTED_NODE
BIND_COMPLETED: Final = well_known_names.BIND_COMPLETED
BOUND_BY_CONTROLLER: Final = well_known_names.BOUND_BY_CONTROLLER
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
CLASS_ANNOTATION: Final = well_known_names.BETA_STORAGE_CLASS
ZONE_LABELS: Final = (
    well_known_names.ZONE,
    well_known_names.REGION,
    well_known_names.BETA_ZONE,
    well_known_names.BETA_REGION,
)


class VolumePlan(msgspec.Struct, frozen=True):
    """What must be written before a pod can run on a node."""

    take: tuple[tuple[ClaimKey, str], ...] = ()
    """Claims that get an existing volume."""
    make: tuple[ClaimKey, ...] = ()
    """Claims for which the provisioner makes a volume on the node."""

    @property
    def empty(self) -> bool:
        return not self.take and not self.make


class ClaimsOfPod(msgspec.Struct, frozen=True):
    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    problem: PodProblem | None = None
    """Why no node can take the pod."""


class Storage:
    def __init__(self) -> None:
        self.claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._selected: dict[ClaimKey, str] = {}
        self._reserved: dict[str, ClaimKey] = {}
        self._rules: dict[str, tuple[PersistentVolume, NodeRule | None]] = {}

    def reserve(self, plan: VolumePlan, node_name: str) -> None:
        """Other pods may not plan with these volumes and claims until they are released."""
        for claim, volume in plan.take:
            self._reserved[volume] = claim
        for claim in plan.make:
            self._selected[claim] = node_name

    def release(self, plan: VolumePlan) -> None:
        for _, volume in plan.take:
            self._reserved.pop(volume, None)
        for claim in plan.make:
            self._selected.pop(claim, None)

    def claims_of(self, namespace: str, names: Iterable[str], owned: Mapping[str, str]) -> ClaimsOfPod:
        """Sort a pod's claims; `owned` holds the uid that the claim of an ephemeral volume must be owned by."""
        bound: list[PersistentVolumeClaim] = []
        delayed: list[PersistentVolumeClaim] = []
        immediate = False
        for name in names:
            claim = self.claims.get((namespace, name))
            problem = _claim_problem(claim, namespace, name, owned.get(name))
            if claim is None or problem is not None:
                return ClaimsOfPod(problem=problem)
            if is_bound(claim):
                if claim.spec.volume_name not in self.volumes:
                    problem = PodProblem(PodProblemKind.VOLUME_NOT_FOUND, namespace, name, claim.spec.volume_name)
                    return ClaimsOfPod(problem=problem)
                bound.append(claim)
            elif not claim.spec.volume_name and self._waits(claim):
                delayed.append(claim)
            else:
                immediate = True
        if immediate:
            return ClaimsOfPod(problem=PodProblem(PodProblemKind.CLAIM_NOT_BOUND, namespace))
        return ClaimsOfPod(tuple(bound), tuple(delayed))

    def conflict(self, claims: ClaimsOfPod, node_name: str, labels: Mapping[str, str]) -> NodeReason | None:
        """Why these claims cannot be used on a node, None if they can."""
        for claim in claims.bound:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is not None and not self._reachable(volume, node_name, labels):
                return NodeReason.VOLUME_NODE_AFFINITY
        if claims.delayed and self.plan(claims, node_name, labels) is None:
            return NodeReason.NO_VOLUME_TO_BIND
        return None

    def wrong_zone(self, claims: ClaimsOfPod, labels: Mapping[str, str]) -> bool:
        for claim in claims.bound:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is not None and not _zones_agree(volume.metadata.labels, labels):
                return True
        return False

    def plan(self, claims: ClaimsOfPod, node_name: str, labels: Mapping[str, str]) -> VolumePlan | None:
        """How the delayed claims would be bound on a node; None if they cannot be."""
        take: list[tuple[ClaimKey, str]] = []
        make: list[ClaimKey] = []
        for claim in sorted(claims.delayed, key=_size):
            key = key_of_claim(claim)
            selected = self._selected.get(key) or claim.metadata.annotations.get(SELECTED_NODE, "")
            if selected and selected != node_name:
                return None
            volume = None if selected else self._smallest_fitting(claim, node_name, labels, {name for _, name in take})
            if volume is not None:
                take.append((key, volume.metadata.name))
            elif self._can_be_made(claim, labels):
                make.append(key)
            else:
                return None
        return VolumePlan(tuple(take), tuple(make))

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self.classes.get(class_name(claim))

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        found = self.class_of(claim)
        return found is not None and found.waits_for_first_consumer

    def _can_be_made(self, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool:
        found = self.class_of(claim)
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            return False
        terms = found.allowed_topologies
        return not terms or any(
            all(labels.get(entry.key) in entry.values for entry in term.match_label_expressions) for term in terms
        )

    def _smallest_fitting(
        self, claim: PersistentVolumeClaim, node_name: str, labels: Mapping[str, str], taken: set[str]
    ) -> PersistentVolume | None:
        fitting = [
            volume
            for volume in self.volumes.values()
            if volume.metadata.name not in taken
            and self._free_for(volume, claim)
            and self._reachable(volume, node_name, labels)
        ]
        return min(fitting, key=_capacity, default=None)

    def _free_for(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        spec, wanted = volume.spec, claim.spec
        holder = self._reserved.get(volume.metadata.name)
        if holder is not None and holder != key_of_claim(claim):
            return False
        reference = spec.claim_ref
        if reference is not None:
            return (reference.namespace, reference.name) == key_of_claim(claim) and reference.uid in (
                "",
                claim.metadata.uid,
            )
        return (
            volume.status.phase in ("", "Available")
            and volume.metadata.deletion_timestamp is None
            and spec.storage_class_name == class_name(claim)
            and (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
            and set(wanted.access_modes) <= set(spec.access_modes)
            and _capacity(volume) >= _size(claim)
            and (wanted.selector is None or compiled(wanted.selector).matches(volume.metadata.labels))
        )

    def _reachable(self, volume: PersistentVolume, node_name: str, labels: Mapping[str, str]) -> bool:
        known = self._rules.get(volume.metadata.name)
        if known is None or known[0] is not volume:
            affinity = volume.spec.node_affinity
            required = None if affinity is None else affinity.required
            known = (volume, None if required is None else NodeRule({}, required))
            self._rules[volume.metadata.name] = known
        return known[1] is None or known[1].matches(node_name, labels)


def key_of_claim(claim: PersistentVolumeClaim) -> ClaimKey:
    return claim.metadata.namespace, claim.metadata.name


def class_name(claim: PersistentVolumeClaim) -> str:
    annotated = claim.metadata.annotations.get(CLASS_ANNOTATION)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def _claim_problem(
    claim: PersistentVolumeClaim | None, namespace: str, name: str, owner: str | None
) -> PodProblem | None:
    """`owner` is the uid of the pod that the claim of an ephemeral volume must belong to."""
    if claim is None:
        missing = PodProblemKind.CLAIM_NOT_FOUND if owner is None else PodProblemKind.EPHEMERAL_CLAIM_NOT_CREATED
        return PodProblem(missing, namespace, name)
    if claim.status.phase == "Lost":
        return PodProblem(PodProblemKind.CLAIM_LOST_ITS_VOLUME, namespace, name, claim.spec.volume_name)
    if claim.metadata.deletion_timestamp is not None:
        return PodProblem(PodProblemKind.CLAIM_BEING_DELETED, namespace, name)
    if owner is not None and not claim.metadata.is_controlled_by(owner):
        return PodProblem(PodProblemKind.CLAIM_OF_ANOTHER_POD, namespace, name)
    return None


def _zones_agree(volume: Mapping[str, str], node: Mapping[str, str]) -> bool:
    for key in ZONE_LABELS:
        allowed = volume.get(key)
        if (
            allowed is not None
            and node.get(key) not in allowed.split("__")
            and any(zone in node for zone in ZONE_LABELS)
        ):
            return False
    return True


def _size(claim: PersistentVolumeClaim) -> Quantity:
    return Quantity.parse(claim.spec.resources.requests.get("storage", 0))


def _capacity(volume: PersistentVolume) -> Quantity:
    written = volume.spec.capacity.get("storage")
    return ZERO if written is None else Quantity.parse(written)
