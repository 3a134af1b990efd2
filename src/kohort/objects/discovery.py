"""EndpointSlices. Real servers write `null` for an empty list of endpoints or ports."""

from kohort.objects import well_known_names
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View


class EndpointConditions(View, frozen=True):
    """Absent means unknown, which readers must take as true for `ready` and `serving`."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetReference(View, frozen=True):
    kind: str = ""
    name: str = ""


class Endpoint(View, frozen=True):
    addresses: tuple[str, ...] | None = None
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    node_name: str | None = None
    zone: str | None = None
    target_ref: TargetReference | None = None

    @property
    def pod(self) -> str:
        """The name of the pod behind it; empty if something else is."""
        target = self.target_ref
        return target.name if target is not None and target.kind == "Pod" else ""


class SlicePort(View, frozen=True):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None


class EndpointSlice(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[SlicePort, ...] | None = None

    @property
    def service_name(self) -> str:
        return self.metadata.labels.get(well_known_names.SERVICE_NAME, "")
