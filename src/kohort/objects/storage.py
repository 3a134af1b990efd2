"""Storage classes, and classes of volume attributes."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects import well_known_names
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View


class TopologyLabel(View, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(View, frozen=True):
    match_label_expressions: tuple[TopologyLabel, ...] = ()


class StorageClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def waits_for_first_consumer(self) -> bool:
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def default(self) -> bool:
        return self.metadata.annotations.get(well_known_names.DEFAULT_STORAGE_CLASS) == "true"


class VolumeAttributesClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = ""
    parameters: dict[str, str] = {}
