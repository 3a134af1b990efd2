"""What to do with a claim that is not bound, and with a volume whose claim is gone.

| claim | then |
|---|---|
| was bound, and its volume is gone or bound to another claim | it is lost |
| names a volume | bind to it once it is there, fits and is free or already ours |
| a free volume fits | bind to the one with the fewest access modes, of these the smallest |
| says nothing about a class, and there is a default one now | take that |
| class "" | wait: dynamic provisioning is switched off |
| class waits for its first consumer, no node chosen | wait for a pod, or for the scheduler if there is one |
| class without a provisioner | wait for a volume |
| class of our provisioner | provision |
| class of another provisioner | say in annotations that it is its turn, and wait |

When the claim is gone, the volume is Released. What follows depends on its reclaim policy:

| policy | volume | then |
|---|---|---|
| Retain | any | it stays |
| Delete | provisioned here | it is deleted |
| Delete | of another provisioner, or CSI | it stays: its driver deletes it |
| Delete | hostPath below /tmp | it stays; Kubernetes deletes the directory |
| Delete | other | it fails: there is no plugin that could delete it |
| Recycle | hostPath, NFS | it stays; Kubernetes runs a pod that empties it |
| Recycle | other | it fails |
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kohort.objects import well_known_names
from kohort.objects.core import PersistentVolume, PersistentVolumeClaim
from kohort.objects.quantity import Quantity
from kohort.objects.selectors import LabelSelector
from kohort.objects.storage import StorageClass
from kohort.rules.local_volumes import PROVISIONED_BY, PROVISIONER

_IN_TREE: Final = "kubernetes.io/"
"""Of provisioners that were part of Kubernetes once, and of the one that stands for none."""
STORAGE_PROVISIONER: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
SELECTED_NODE: Final = well_known_names.SELECTED_NODE
BOUND_BY_CONTROLLER: Final = well_known_names.BOUND_BY_CONTROLLER
BIND_COMPLETED: Final = well_known_names.BIND_COMPLETED


class Wait(msgspec.Struct, frozen=True):
    reason: str = ""
    """Empty where there is nothing to say."""
    message: str = ""
    warning: bool = False


class Bind(msgspec.Struct, frozen=True):
    volume: str


class Provision(msgspec.Struct, frozen=True):
    node: str
    """Where the directory must be; empty when any node will do."""


class AskProvisioner(msgspec.Struct, frozen=True):
    """Another program makes the volume."""

    provisioner: str

    @property
    def annotations(self) -> dict[str, str]:
        """By which such a program finds its claims."""
        return dict.fromkeys(STORAGE_PROVISIONER, self.provisioner)

    @property
    def message(self) -> str:
        return (
            f"Waiting for a volume to be created either by the external provisioner '{self.provisioner}' or manually "
            "by the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )


class Lost(msgspec.Struct, frozen=True):
    """The claim was bound, and is not any more: that is the end of it."""

    reason: str
    message: str


class Assign(msgspec.Struct, frozen=True):
    """Give the claim a class."""

    storage_class: str


Step = Wait | Bind | Provision | AskProvisioner | Lost | Assign


class Stay(msgspec.Struct, frozen=True):
    """A volume without a claim stays as it is."""


class Delete(msgspec.Struct, frozen=True):
    """The volume is deleted with its directory."""


class Fail(msgspec.Struct, frozen=True):
    """The reclaim policy cannot be carried out."""

    reason: str
    message: str


Reclaim = Stay | Delete | Fail


def reclaim(volume: PersistentVolume) -> Reclaim:
    """What to do with a volume whose claim is gone."""
    spec = volume.spec
    provisioner = volume.metadata.annotations.get(PROVISIONED_BY, "")
    if spec.persistent_volume_reclaim_policy == "Recycle":
        recyclable = spec.host_path is not None or spec.nfs is not None
        return Stay() if recyclable else Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!")
    if spec.persistent_volume_reclaim_policy != "Delete":
        return Stay()
    if provisioner == PROVISIONER:
        return Delete()
    if provisioner or spec.csi is not None:
        return Stay()
    if spec.host_path is not None:
        return _delete_directory(spec.host_path.path)
    problem = "no deletable volume plugin matched" if spec.nfs is not None else "no volume plugin matched"
    name = volume.metadata.name
    return Fail("VolumeFailedDelete", f'error getting deleter volume plugin for volume "{name}": {problem}')


def _delete_directory(path: str) -> Reclaim:
    """Nothing outside of /tmp is deleted; neither is what is in it, unless it was provisioned here."""
    if re.match("/tmp/.+", path):
        return Stay()
    text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return Fail("VolumeFailedDelete", text)


def next_step(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    storage_class: StorageClass | None,
    consumers: Sequence[str] = (),
    default_class: str = "",
) -> Step:
    """`consumers`: pods that want the claim and have no node yet."""
    found = list(volumes)
    if claim.spec.volume_name:
        return _bind_to_named(claim, found)
    fitting = [volume for volume in found if fits(claim, volume)]
    waits = storage_class is not None and storage_class.waits_for_first_consumer
    node = claim.metadata.annotations.get(SELECTED_NODE, "")
    preclaimed = [volume for volume in fitting if volume.spec.claim_ref is not None]
    if preclaimed:
        return Bind(preclaimed[0].metadata.name)
    if fitting and (not waits or node):
        return Bind(min(fitting, key=lambda one: (len(one.spec.access_modes), _size(one))).metadata.name)
    if claim.spec.storage_class_name is None and default_class:
        return Assign(default_class)
    if not claim.spec.storage_class_name:
        return Wait("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
    if storage_class is None:
        name = claim.spec.storage_class_name
        return Wait("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', warning=True)
    if waits and not node:
        return _wait_for(consumers)
    if storage_class.provisioner.startswith(_IN_TREE):
        text = f"no volume plugin matched name: {storage_class.provisioner}"
        return Wait("ProvisioningFailed", text, warning=True)
    if storage_class.provisioner != PROVISIONER:
        return AskProvisioner(storage_class.provisioner)
    return Provision(node)


def awaits_expansion(claim: PersistentVolumeClaim) -> bool:
    """Whether a bound claim asks for more than its volume has. Drivers make volumes larger; there are none here."""
    wanted, found = claim.spec.resources.requests.get("storage", "0"), claim.status.capacity.get("storage", "0")
    return claim.status.phase == "Bound" and Quantity.parse(wanted) > Quantity.parse(found)


def default_class(classes: Iterable[StorageClass]) -> str:
    """The class of claims that name none: the newest of those that are said to be it."""
    found = sorted((one.metadata for one in classes if one.default), key=lambda one: one.name)
    newest = max(found, key=lambda one: one.creation_timestamp or "", default=None)
    return newest.name if newest else ""


def _wait_for(consumers: Sequence[str]) -> Wait:
    if not consumers:
        return Wait("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    pods = f"pod {consumers[0]}" if len(consumers) == 1 else f"pods {','.join(consumers)}"
    return Wait("WaitForPodScheduled", f"waiting for {pods} to be scheduled")


def _bind_to_named(claim: PersistentVolumeClaim, volumes: list[PersistentVolume]) -> Step:
    named = next((one for one in volumes if one.metadata.name == claim.spec.volume_name), None)
    was_bound = BIND_COMPLETED in claim.metadata.annotations
    if named is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return Lost("ClaimLost", text) if was_bound else Wait()
    if claims(named, claim):
        return Bind(named.metadata.name)
    if named.spec.claim_ref is not None:
        if was_bound:
            return Lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        text = f'volume "{named.metadata.name}" already bound to a different claim.'
        return Wait("FailedBinding", text, warning=True)
    mismatch = "" if was_bound else _mismatch(claim, named)
    if mismatch:
        text = f'Cannot bind to requested volume "{named.metadata.name}": {mismatch}'
        return Wait("VolumeMismatch", text, warning=True)
    return Bind(named.metadata.name)


def claims(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for this claim; a reservation without uid is for any claim of that name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def fits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.spec.claim_ref is not None and not claims(volume, claim):
        return False
    if volume.spec.claim_ref is None and volume.status.phase not in ("Available", "", "Pending"):
        return False
    if claim.spec.selector is not None and not _selected(claim.spec.selector.compiled(), volume):
        return False
    return not _mismatch(claim, volume)


def _mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """In what a volume is not what a claim asks for."""
    if volume.metadata.deleting:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if _size(volume) < Quantity.parse(claim.spec.resources.requests.get("storage", "0")):
        return "requested PV is too small"
    if (claim.spec.storage_class_name or "") != volume.spec.storage_class_name:
        return "storageClassName does not match"
    if (claim.spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def _selected(selector: LabelSelector, volume: PersistentVolume) -> bool:
    return selector.matches(volume.metadata.labels)


def _size(volume: PersistentVolume) -> Quantity:
    return Quantity.parse(volume.spec.capacity.get("storage", "0"))
