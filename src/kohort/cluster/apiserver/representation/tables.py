"""Objects as tables: what `kubectl get` prints.

The server always sends all columns; clients hide those with a priority above zero unless the user wants it wide.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.model import Cells, Column, Kind
from kohort.cluster.apiserver.kinds.printers import DEFAULT, columns_and_cells
from kohort.cluster.apiserver.kinds.printers.cells import NAME, name_of, since
from kohort.cluster.apiserver.kinds.printers.pods import row_conditions
from kohort.cluster.apiserver.patch.go_error_text import go_json, go_text
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.representation.jsonpath import JsonPath, PathError
from kohort.kube import clock
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

_SCALE: Final = Resource("autoscaling", "v1", "scales", "Scale")
_AGE: Final = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "Age of the object.",
}
_CUSTOM_SCALE: Final = {
    "additionalPrinterColumns": [
        {
            "name": "Desired",
            "type": "integer",
            "jsonPath": ".spec.replicas",
            "description": "Number of desired replicas",
        },
        {
            "name": "Available",
            "type": "integer",
            "jsonPath": ".status.replicas",
            "description": "Number of actual replicas",
        },
        _AGE,
    ]
}


def table(
    kind: Kind,
    objects: Iterable[JsonObject],
    include_object: str = "Metadata",
    *,
    metadata: JsonObject | None = None,
    version: str = "v1",
    now: datetime | None = None,
) -> JsonObject:
    """A Table with one row for each object. `include_object`: how much of it a row contains, None, Metadata or Object.

    Without `metadata` of a list, the table of a single object has its resourceVersion. The rows of an empty list are
    null for kinds without columns of their own.
    """
    shown = list(objects)
    columns, cells = _columns_and_cells(kind, shown)
    moment = now or clock.now()
    rows = [_row(obj, cells(obj, moment), include_object, version) for obj in shown]
    return _document(columns, rows, _metadata_of(shown) if metadata is None else metadata, version)


def rows_of(kind: Kind, objects: Iterable[JsonObject], include_object: str, version: str) -> list[msgspec.Raw]:
    """The encoded rows of a part of a list, for `table_of_rows`."""
    _, cells = _columns_and_cells(kind, [])
    moment = clock.now()
    return [msgspec.Raw(compact(_row(obj, cells(obj, moment), include_object, version))) for obj in objects]


def table_of_rows(kind: Kind, rows: list[msgspec.Raw], metadata: JsonObject, version: str) -> JsonObject:
    return _document(_columns_and_cells(kind, [])[0], rows, metadata, version)


def _document(
    columns: Sequence[Column], rows: list[JsonObject] | list[msgspec.Raw], metadata: JsonObject, version: str
) -> JsonObject:
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [definition(column) for column in columns],
        "rows": rows if rows or columns is not DEFAULT[0] else None,
    }


def _columns_and_cells(kind: Kind, objects: list[JsonObject]) -> tuple[Sequence[Column], Cells]:
    if objects and objects[0].get("kind") == "Scale" and kind.resource.kind != "Scale":
        return custom_columns(_CUSTOM_SCALE) if kind.custom else columns_and_cells(_SCALE)
    return (kind.columns, kind.cells) if kind.cells is not None else DEFAULT


def _metadata_of(objects: list[JsonObject]) -> JsonObject:
    revision = objects[0]["metadata"].get("resourceVersion") if len(objects) == 1 else None
    return {"resourceVersion": revision} if revision else {}


def definition(column: Column) -> JsonObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(obj: JsonObject, cells: list[Json], include_object: str, version: str) -> JsonObject:
    row: JsonObject = {"cells": cells}
    conditions = row_conditions(obj)
    if conditions:
        row["conditions"] = conditions
    if include_object == "Object":
        row["object"] = obj
    elif include_object == "None":
        row["object"] = None
    else:
        metadata = {key: value for key, value in obj["metadata"].items() if value is not None}
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}
    return row


# --- columns that a definition of custom resources declares ---


def custom_columns(crd_version: JsonObject) -> tuple[tuple[Column, ...], Cells]:
    """Name and the additionalPrinterColumns of one version; name and age when there are none."""
    declared = crd_version.get("additionalPrinterColumns") or [_AGE]
    columns, paths = [NAME], []
    for column in declared:
        try:
            paths.append(JsonPath(column["jsonPath"]))
        except PathError:
            break
        columns.append(_custom_column(column))
    types = [column.type for column in columns[1:]]

    def cells(obj: JsonObject, now: datetime) -> list[Json]:
        return [name_of(obj), *(_cell(obj, path, type_, now) for path, type_ in zip(paths, types, strict=True))]

    return tuple(columns), cells


def _custom_column(column: JsonObject) -> Column:
    described = column.get("description") or (
        f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return Column(column["name"], column["type"], column.get("format", ""), column.get("priority", 0), described)


def _cell(obj: JsonObject, path: JsonPath, type_: str, now: datetime) -> Json:
    """The first value at the path, if it is of the column's type; otherwise nothing."""
    try:
        found = path.find(obj)
    except PathError:
        return None
    return _typed(found[0], type_, now) if found else None


def _typed(value: Json, type_: str, now: datetime) -> Json:
    if type_ == "string":
        return _printed(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if type_ == "integer":
        return int(value) if number else None
    if type_ == "number":
        return (int(value) if value == int(value) else value) if number else None
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if type_ == "date" and isinstance(value, str):
        return since(value, now.astimezone(UTC))
    return None


def _printed(value: Json) -> str:
    if isinstance(value, dict | list):
        return go_json(value)
    return "<no value>" if value is None else go_text(value)
