"""The row that a table shows of an object, at one moment."""

from datetime import UTC, datetime, timedelta

from kohort.cluster.apiserver.kinds.printers import columns_and_cells
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(kind: str, obj: JsonObject, group: str = "") -> dict[str, Json]:
    """The cells of a five minutes old object, by column."""
    metadata = {"name": "x", "creationTimestamp": ago(minutes=5), **obj.get("metadata", {})}
    columns, fill = columns_and_cells(Resource(group, "v1", kind.lower() + "s", kind))
    filled = fill({"kind": kind, **obj, "metadata": metadata}, NOW)
    assert len(filled) == len(columns)
    return {column.name: cell for column, cell in zip(columns, filled, strict=True)}
