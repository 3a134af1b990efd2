"""Which volume a claim gets, and when one is provisioned."""

import msgspec
import pytest

from kohort.cluster.workloads.volumes.plan import (
    SELECTED_NODE,
    AskProvisioner,
    Assign,
    Bind,
    Delete,
    Fail,
    Lost,
    Provision,
    Reclaim,
    Stay,
    Step,
    Wait,
    default_class,
    next_step,
    reclaim,
)
from kohort.objects.core import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec
from kohort.objects.json_types import Json
from kohort.objects.meta import ObjectMeta, ObjectReference
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import (
    CsiVolume,
    HostPath,
    LocalVolume,
    NfsVolume,
    PersistentVolumeStatus,
    VolumeResources,
)
from kohort.rules.local_volumes import PROVISIONER


def claim(
    size: str = "1Gi", storage_class: str | None = "", volume: str = "", **annotations: str
) -> PersistentVolumeClaim:
    notes = {SELECTED_NODE if key == "node" else key.replace("__", "/"): value for key, value in annotations.items()}
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="ns", uid="claim-uid", annotations=notes),
        spec=PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=VolumeResources(requests={"storage": size}),
            storage_class_name=storage_class,
            volume_name=volume,
        ),
    )


def volume(
    name: str, size: str = "1Gi", storage_class: str = "", claimed_by: str = "", mode: str = "ReadWriteOnce"
) -> PersistentVolume:
    reference = ObjectReference(namespace="ns", name=claimed_by, uid="") if claimed_by else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            capacity={"storage": size}, access_modes=(mode,), storage_class_name=storage_class, claim_ref=reference
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )


LATER = StorageClass(ObjectMeta(name="later"), provisioner=PROVISIONER, volume_binding_mode="WaitForFirstConsumer")
NOW = StorageClass(ObjectMeta(name="now"), provisioner=PROVISIONER, volume_binding_mode="Immediate")
OTHER = StorageClass(ObjectMeta(name="other"), provisioner="example.com/disks")


def step(subject: PersistentVolumeClaim, *volumes: PersistentVolume, storage_class: StorageClass | None = None) -> Step:
    return next_step(subject, volumes, storage_class)


def test_the_smallest_volume_that_fits_is_taken() -> None:
    assert step(claim("2Gi"), volume("big", "10Gi"), volume("fit", "2Gi"), volume("small", "1Gi")) == Bind("fit")


def test_a_volume_with_fewer_access_modes_is_preferred() -> None:
    many = msgspec.structs.replace(volume("v").spec, access_modes=("ReadWriteOnce", "ReadWriteMany"))
    assert step(claim(), msgspec.structs.replace(volume("many"), spec=many), volume("one", "5Gi")) == Bind("one")


_NO_PLUGIN = 'error getting deleter volume plugin for volume "v": no volume plugin matched'
_NOT_DELETABLE = 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'
_ELSEWHERE = "host_path deleter only supports /tmp/.+ but received provided /srv"


@pytest.mark.parametrize(
    ("policy", "provisioner", "source", "wanted"),
    [
        ("Retain", PROVISIONER, {"host_path": HostPath("/srv")}, Stay()),
        ("Delete", PROVISIONER, {"host_path": HostPath("/srv")}, Delete()),
        ("Delete", "example.com/disks", {"host_path": HostPath("/srv")}, Stay()),
        ("Delete", "", {"csi": CsiVolume("a.b")}, Stay()),
        ("Delete", "", {"host_path": HostPath("/tmp/x")}, Stay()),
        ("Delete", "", {"host_path": HostPath("/srv")}, Fail("VolumeFailedDelete", _ELSEWHERE)),
        ("Delete", "", {"nfs": NfsVolume("a")}, Fail("VolumeFailedDelete", _NOT_DELETABLE)),
        ("Delete", "", {"local": LocalVolume("/srv")}, Fail("VolumeFailedDelete", _NO_PLUGIN)),
        ("Recycle", "", {"nfs": NfsVolume("a")}, Stay()),
        (
            "Recycle",
            "",
            {"csi": CsiVolume("a.b")},
            Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        ),
    ],
)
def test_what_becomes_of_a_volume_whose_claim_is_gone(
    policy: str, provisioner: str, source: dict[str, Json], wanted: Reclaim
) -> None:
    notes = {"pv.kubernetes.io/provisioned-by": provisioner} if provisioner else {}
    spec = PersistentVolumeSpec(persistent_volume_reclaim_policy=policy, **source)
    assert reclaim(PersistentVolume(metadata=ObjectMeta(name="v", annotations=notes), spec=spec)) == wanted


def test_a_reserved_volume_is_preferred_and_those_of_others_are_not_touched() -> None:
    assert step(claim(), volume("free"), volume("mine", claimed_by="c")) == Bind("mine")
    assert isinstance(step(claim(), volume("theirs", claimed_by="d")), Wait)


def test_a_claim_waits_for_pods_that_have_no_node_yet() -> None:
    def words(*pods: str) -> Step:
        return next_step(claim(storage_class="later"), (), LATER, pods)

    assert words("a") == Wait("WaitForPodScheduled", "waiting for pod a to be scheduled")
    assert words("a", "b") == Wait("WaitForPodScheduled", "waiting for pods a,b to be scheduled")


def test_access_modes_and_class_must_agree() -> None:
    assert isinstance(step(claim(), volume("v", mode="ReadOnlyMany")), Wait)
    assert isinstance(step(claim(), volume("v", storage_class="fast")), Wait)


def test_provisioning_follows_the_class() -> None:
    assert step(claim(storage_class="now"), storage_class=NOW) == Provision("")
    waiting = step(claim(storage_class="later"), storage_class=LATER)
    assert isinstance(waiting, Wait)
    assert waiting.reason == "WaitForFirstConsumer"
    assert step(claim(storage_class="later", node="n1"), storage_class=LATER) == Provision("n1")
    assert step(claim(storage_class="other"), storage_class=OTHER) == AskProvisioner("example.com/disks")
    assert isinstance(step(claim(storage_class="")), Wait)
    none = StorageClass(ObjectMeta(name="none"), provisioner="kubernetes.io/no-provisioner")
    text = "no volume plugin matched name: kubernetes.io/no-provisioner"
    assert step(claim(storage_class="none"), storage_class=none) == Wait("ProvisioningFailed", text, warning=True)


def test_a_claim_that_names_its_volume() -> None:
    assert step(claim(volume="v"), volume("v")) == Bind("v")
    assert step(claim(volume="v")) == Wait(), "it may come"
    taken = Wait("FailedBinding", 'volume "v" already bound to a different claim.', warning=True)
    assert step(claim(volume="v"), volume("v", claimed_by="d")) == taken


@pytest.mark.parametrize(
    ("subject", "found", "mismatch"),
    [
        (claim("2Gi", volume="v"), volume("v"), "requested PV is too small"),
        (claim(volume="v"), volume("v", storage_class="fast"), "storageClassName does not match"),
        (claim(volume="v"), volume("v", mode="ReadOnlyMany"), "incompatible accessMode"),
    ],
)
def test_a_volume_that_a_claim_names_must_fit(
    subject: PersistentVolumeClaim, found: PersistentVolume, mismatch: str
) -> None:
    text = f'Cannot bind to requested volume "v": {mismatch}'
    assert step(subject, found) == Wait("VolumeMismatch", text, warning=True)


def test_a_claim_without_a_class_takes_the_newest_default() -> None:
    def default(name: str, made: str) -> StorageClass:
        notes = {"storageclass.kubernetes.io/is-default-class": "true"}
        return StorageClass(ObjectMeta(name=name, creation_timestamp=made, annotations=notes))

    newest = default_class([default("old", "2026-01-01T00:00:00Z"), default("new", "2026-01-02T00:00:00Z"), NOW])
    assert next_step(claim(storage_class=None), (), None, (), newest) == Assign("new")
    assert isinstance(next_step(claim(storage_class=""), (), None, (), newest), Wait), "it wants none"


def test_a_bound_claim_whose_volume_is_gone_is_lost() -> None:
    notes = {"pv.kubernetes.io/bind-completed": "yes"}
    bound = PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="ns", annotations=notes),
        spec=PersistentVolumeClaimSpec(volume_name="v"),
    )
    text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert step(bound) == Lost("ClaimLost", text)
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    assert step(bound, volume("v", claimed_by="d")) == Lost("ClaimMisbound", text)
