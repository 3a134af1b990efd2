"""Storage as pods, claims and volumes describe it."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from msgspec import field

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, ObjectReference, Selector
from kohort.objects.placement import NodeSelector
from kohort.objects.view import View

ResourceList = dict[str, str | int | float]
"""Resource names to quantities as written; `Quantity.parse` reads each. The API stores text, custom resources may keep
numbers."""


class VolumeResources(View, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(View, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    selector: Selector | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(View, frozen=True):
    target_volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(View, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class PersistentVolumeClaimTemplate(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class HostPath(View, frozen=True):
    path: str = ""
    type: str = ""


class LocalVolume(View, frozen=True):
    path: str = ""


class NfsVolume(View, frozen=True):
    server: str = ""


class CsiVolume(View, frozen=True):
    driver: str = ""


class VolumeNodeAffinity(View, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(View, frozen=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPath | None = None
    local: LocalVolume | None = None
    nfs: NfsVolume | None = None
    csi: CsiVolume | None = None


class PersistentVolumeStatus(View, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class KeyToPath(View, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapSource(View, frozen=True):
    """A ConfigMap as a volume or as one source of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretSource(View, frozen=True):
    secret_name: str = ""
    """In a volume; inside a projected volume the field is `name`."""
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class EmptyDir(View, frozen=True):
    medium: str = ""
    size_limit: str | int | None = None


class ClaimSource(View, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralSource(View, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ServiceAccountTokenSource(View, frozen=True):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class ObjectFieldSelector(View, frozen=True):
    field_path: str = ""
    api_version: str = ""


class ResourceFieldSelector(View, frozen=True):
    resource: str = ""
    container_name: str = ""
    divisor: str | int | float | None = None


class DownwardFile(View, frozen=True):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardSource(View, frozen=True):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int | None = None


class ProjectedPart(View, frozen=True):
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    service_account_token: ServiceAccountTokenSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")


class ProjectedSource(View, frozen=True):
    sources: tuple[ProjectedPart, ...] | None = None
    default_mode: int | None = None


class ImageSource(View, frozen=True):
    reference: str = ""
    pull_policy: str = ""


class Volume(View, frozen=True):
    """A volume of a pod. Sources that the node agent cannot mount are left out; `unsupported_source` names the
    source."""

    name: str = ""
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    projected: ProjectedSource | None = None
    downward_api: DownwardSource | None = field(default=None, name="downwardAPI")
    nfs: JsonObject | None = None
    csi: JsonObject | None = None
    image: ImageSource | None = None

    @property
    def unsupported_source(self) -> str:
        for name in ("nfs", "csi"):
            if getattr(self, name) is not None:
                return name
        return ""

    def claim_name(self, pod_name: str) -> str:
        """The claim behind this volume, empty if none; an ephemeral volume's claim is named after the pod."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod_name}-{self.name}" if self.ephemeral is not None else ""
