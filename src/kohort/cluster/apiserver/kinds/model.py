"""What the engine must know of a kind, built-in or custom.

The write pipeline calls the hooks of a kind's `Strategy`; everything else is data. A custom resource is a `Kind` whose
schema, columns and subresources come from its definition and whose strategy is the one for custom resources.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube.resources import Resource
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.names import dns1123_subdomain


@dataclass(slots=True)
class WriteContext:
    """The circumstances of one write, for hooks that need more than the object."""

    user: User
    reader: Reader
    dry_run: bool = False
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates by their Kubernetes name."""
    patch: bool = False
    """What the request leaves out stays as it is, so what is missing now was taken away on purpose."""


class Strategy:
    """How a kind behaves on writes. The defaults are those of a plain object with spec and status.

    Hooks change objects in place. `obj` is always a private copy; `old` must not be changed.
    """

    create_on_update = False
    """PUT to a missing name creates."""
    unconditional_update = True
    """PUT without resourceVersion is accepted."""
    has_status = True
    """`status` is ignored by the main endpoint and written through `/status`."""
    keeps_status_on_create = False
    """A status in the body of a create is stored (nodes register themselves with theirs)."""
    has_generation = True
    default_propagation = "Background"
    collectable = True
    """May get garbage collection finalizers (everything but events)."""
    deletion_returns_object = False
    """DELETE answers with the object instead of a Status."""
    names_finalizers_freely = False
    """Objects may carry finalizers that are neither standard nor qualified with a domain."""
    rechecks_metadata = 0
    """How often the update rules of this kind include the rules for new metadata; see `metadata.on_update`."""
    checks_metadata_change = True
    """Whether the update rules of this kind check the change of metadata, as the server does for all kinds anyway."""
    checks_status_metadata = True
    """The same for its rules for `/status`."""

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """What is wrong with a name (`prefix`: with a generateName base); empty when nothing is."""
        return dns1123_subdomain(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults. Runs on every decode and on what is read from storage; must be idempotent."""

    def default_status(self, obj: JsonObject) -> None:
        """The same when nothing but the status was sent: kinds with long specs need not go through them again."""
        self.default(obj)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        """Before validation of a new object; `status` is already reset where it must be."""

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        """Before validation of an update; status has been restored and server-set metadata too.

        Subresources that carry the whole object (`resize`, `ephemeralcontainers`, `finalize`, `approval`) come through
        here as well: `context.subresource` names them, and the hook puts back whatever they may not change.
        """

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        """`obj` is the old object with only its status (and what the kind allows) replaced."""

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return []

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        """Also for the subresources named in `prepare_update`."""
        return []

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return []

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return []

    def settle(self, obj: JsonObject) -> None:
        """After all rules have been passed: what is only seen once the object is stored."""

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        """Whether this update counts as a change of the desired state."""
        return obj.get("spec") != old.get("spec")

    def graceful_seconds(self, obj: JsonObject, requested: int | None) -> int:
        """How long a deletion waits before the object may vanish; 0 for all kinds but pods."""
        return 0

    def after_delete(self, context: WriteContext, obj: JsonObject) -> None:
        """Release what the object held outside itself, for example an allocated address."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


Cells = Callable[[JsonObject, datetime], list[Json]]
"""The cells of one row, in the order of the columns. The second argument is the present time, for ages."""


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    """Group and version of the kind, when not those of the parent."""


FULL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(slots=True)
class Kind:
    resource: Resource
    schema: Callable[[], Node]
    """The root node; called when first needed, so it must cache."""
    strategy: Strategy
    singular: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = FULL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    columns: Sequence[Column] = ()
    cells: Cells | None = None
    selectable: Callable[[JsonObject], dict[str, str]] = lambda _: {}
    """Values of the fields usable in a field selector, besides metadata.name and metadata.namespace."""
    selectable_names: frozenset[str] = frozenset()
    bucket: str = ""
    """Where objects are stored; versions of one resource share it. Set from the resource when empty."""
    from_storage: Callable[[JsonObject], JsonObject] | None = None
    to_storage: Callable[[JsonObject], JsonObject] | None = None
    """Conversion to and from the storage version; None when this is the storage version."""
    stored_defaults: Callable[[JsonObject], None] | None = None
    """What the storage version adds to an object that comes in this one, if it has defaults of its own."""
    scale_paths: tuple[str, str, str] | None = None
    """specReplicasPath, statusReplicasPath, labelSelectorPath of the scale subresource."""
    deprecation_warning: str = ""
    custom: bool = False

    def __post_init__(self) -> None:
        if not self.bucket:
            self.bucket = self.resource.qualified
