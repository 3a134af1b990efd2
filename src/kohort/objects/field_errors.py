"""Validation errors of fields, in the wording of Kubernetes.

A `FieldError` is one entry of `status.details.causes` and one clause of the message of a 422 answer. Validation never
raises: it returns a list of these, so that a user sees everything that is wrong at once.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.objects.go_quote import go_quote
from kohort.objects.json_types import Json

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
TYPE_INVALID = "FieldValueTypeInvalid"
NOT_FOUND = "FieldValueNotFound"
INTERNAL = "InternalError"


class FieldError(msgspec.Struct, frozen=True):
    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shown(value: Json) -> str:
    """A value as Go's `%v`/`%q` mixture prints it inside a field error: strings quoted, the rest as JSON."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return go_quote(value)
    return msgspec.json.encode(value).decode()


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(REQUIRED, field, _with("Required value", detail))


def invalid(field: str, value: Json, detail: str) -> FieldError:
    return FieldError(INVALID, field, _with(f"Invalid value: {shown(value)}", detail))


def invalid_without_value(field: str, detail: str) -> FieldError:
    """Of a value that says nothing by itself."""
    return FieldError(INVALID, field, _with("Invalid value", detail))


def type_invalid(field: str, value: Json, detail: str) -> FieldError:
    return FieldError(TYPE_INVALID, field, _with(f"Invalid value: {shown(value)}", detail))


def not_supported(field: str, value: Json, allowed: Iterable[str]) -> FieldError:
    choices = ", ".join(shown(choice) for choice in allowed)
    return FieldError(NOT_SUPPORTED, field, _with(f"Unsupported value: {shown(value)}", f"supported values: {choices}"))


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(FORBIDDEN, field, _with("Forbidden", detail))


def duplicate(field: str, value: Json) -> FieldError:
    return FieldError(DUPLICATE, field, f"Duplicate value: {shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(TOO_LONG, field, f"Too long: may not be more than {_counted(limit, 'byte')}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    return FieldError(TOO_MANY, field, f"Too many: {count}: must have at most {_counted(limit, 'item')}")


def not_found(field: str, value: Json) -> FieldError:
    return FieldError(NOT_FOUND, field, f"Not found: {shown(value)}")


def listed(found: Sequence[FieldError]) -> str:
    """All errors, joined as in a message of the API.

    >>> listed([required("spec.size")]), listed([required("a"), required("b")])
    ('spec.size: Required value', '[a: Required value, b: Required value]')
    """
    return str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head
