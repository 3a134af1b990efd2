"""Validation of the expressions that select devices.

What an expression may cost is not estimated, and expressions with `cel.bind` are not compiled: the embedded control
plane stores them for drivers and never evaluates them.
"""

from functools import cache
from typing import Final

from kohort.cluster.apiserver.cel import CompileError, Environment, kubernetes_environment
from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.errors import InstantiationError
from kohort.cluster.apiserver.cel.types import StructType
from kohort.cluster.apiserver.schema.field_checks import Errors
from kohort.objects.field_errors import INTERNAL, FieldError, invalid, too_long

_EXPRESSION: Final = 10 * 1024


@cache
def _device_environment() -> Environment:
    base = kubernetes_environment()
    attributes = t.map_of(t.STRING, t.map_of(t.STRING, t.DYN))
    capacity = t.map_of(t.STRING, t.map_of(t.STRING, base.type("kubernetes.Quantity")))
    device = StructType(
        "kubernetes.DRADevice",
        {
            "driver": t.STRING,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": t.BOOL,
        },
    )
    return base.with_variables({"device": device})


def expression_errors(path: str, source: str) -> Errors:
    if len(source.encode()) > _EXPRESSION:
        return [too_long(path, _EXPRESSION)]
    if "cel.bind" in source:
        return []
    try:
        result = _device_environment().compile(source).result_type
    except InstantiationError as error:
        return [FieldError(INTERNAL, path, f"Internal error: program instantiation failed: {error}")]
    except CompileError as error:
        return [invalid(path, source, f"compilation failed: {error}")]
    if result.kind not in ("bool", "dyn"):
        return [invalid(path, source, f"must evaluate to bool or the unknown type, not {result}")]
    return []
