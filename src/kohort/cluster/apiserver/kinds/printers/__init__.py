"""The columns of every built-in kind, and the functions that fill them.

kubectl prints what the server sends, so names, order, types and priorities of columns are part of the API. Kinds that
have no table of their own show their name and when they were created.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from kohort.cluster.apiserver.kinds.model import Cells, Column
from kohort.cluster.apiserver.kinds.printers.cells import NAME, Printer, name_of
from kohort.cluster.apiserver.kinds.printers.cluster import CLUSTER
from kohort.cluster.apiserver.kinds.printers.network import NETWORK
from kohort.cluster.apiserver.kinds.printers.pods import POD, POD_TEMPLATE
from kohort.cluster.apiserver.kinds.printers.storage import STORAGE
from kohort.cluster.apiserver.kinds.printers.workloads import SCALE, WORKLOADS
from kohort.kube.clock import format_time, parse_time
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

CREATED_AT: Final = Column("Created At", "date", description="When the object was created.")
ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def _name_and_creation(obj: JsonObject, now: datetime) -> list[Json]:
    created = obj["metadata"].get("creationTimestamp")
    return [name_of(obj), format_time(parse_time(created).astimezone(UTC)) if created else ZERO_TIME]


DEFAULT: Final[Printer] = ((NAME, CREATED_AT), _name_and_creation)

_PRINTERS: Final[dict[str, Printer]] = {
    "Pod": POD,
    "PodTemplate": POD_TEMPLATE,
    "Scale": SCALE,
    **WORKLOADS,
    **CLUSTER,
    **NETWORK,
    **STORAGE,
}


def columns_and_cells(resource: Resource) -> tuple[Sequence[Column], Cells]:
    """Columns and cells of a built-in resource. Kinds of that name have the same table in every group."""
    return _PRINTERS.get(resource.kind, DEFAULT)
