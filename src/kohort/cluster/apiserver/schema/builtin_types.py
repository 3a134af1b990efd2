"""The type data of the built-in kinds, where the rest of the schema engine expects it."""

from kohort.objects.type_data import (
    SCALARS,
    FieldRecord,
    Record,
    TypeExpression,
    TypeKind,
    data_digest,
    has_type,
    kinds,
    record,
    type_name,
)

__all__ = [
    "SCALARS",
    "FieldRecord",
    "Record",
    "TypeExpression",
    "TypeKind",
    "data_digest",
    "has_type",
    "kinds",
    "record",
    "type_name",
]
