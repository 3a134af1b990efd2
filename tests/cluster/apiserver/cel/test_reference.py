"""Our evaluation against the C++ reference implementation of the language: the same value, or an error in both."""

import datetime
import math
from pathlib import Path

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.cluster.apiserver.cel import CelError, CompileError, Environment
from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.environment import mutation_environment
from kohort.cluster.apiserver.cel.errors import InstantiationError
from kohort.cluster.apiserver.cel.times import duration_text
from kohort.cluster.apiserver.cel.values import Duration, Optional, Timestamp, TypeValue, Uint
from kohort.objects.json_types import Json

VALUES: dict[str, Json] = {
    "i": 7,
    "j": -3,
    "s": "héllo",
    "e": "",
    "b": True,
    "d": 2.5,
    "l": [1, 2, 3],
    "w": ["a", "bb", ""],
    "m": {"k": 1, "z": 0},
    "any": {"list": [1, "two", 3.0, None, True], "nested": {"x": "y"}, "n": 5},
}
REFERENCE_TYPES = {
    "i": cel.Type.INT,
    "j": cel.Type.INT,
    "s": cel.Type.STRING,
    "e": cel.Type.STRING,
    "b": cel.Type.BOOL,
    "d": cel.Type.DOUBLE,
    "l": cel.Type.List(cel.Type.INT),
    "w": cel.Type.List(cel.Type.STRING),
    "m": cel.Type.Map(cel.Type.STRING, cel.Type.INT),
    "any": cel.Type.DYN,
}
OUR_TYPES = {
    "i": t.INT,
    "j": t.INT,
    "s": t.STRING,
    "e": t.STRING,
    "b": t.BOOL,
    "d": t.DOUBLE,
    "l": t.list_of(t.INT),
    "w": t.list_of(t.STRING),
    "m": t.map_of(t.STRING, t.INT),
    "any": t.DYN,
}

FAILS = "fails"
REJECTED = "rejected"


@pytest.fixture(scope="module")
def reference() -> Json:
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    return cel.NewEnv(variables=REFERENCE_TYPES, extensions=extensions)


@pytest.fixture(scope="module")
def ours() -> Environment:
    return mutation_environment().with_variables(OUR_TYPES)


def reference_answer(environment: Json, source: str) -> Json:
    try:
        program = environment.compile(source)
    except RuntimeError:
        return REJECTED
    result = program.eval(data=VALUES)
    return FAILS if result.type().name() == "ERROR" else _plain(result.plain_value())


def our_answer(environment: Environment, source: str) -> Json:
    try:
        program = environment.compile(source)
    except InstantiationError:
        return FAILS
    except CompileError:
        return REJECTED
    try:
        return _plain(program(*VALUES.values()))
    except CelError:
        return FAILS


def _plain(value: Json) -> Json:
    """Both sides in one form; numbers keep their kind, so that 1 and 1.0 and true differ."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return ("int", int(value))
    if isinstance(value, float):
        return ("double", "nan" if math.isnan(value) else value)
    if isinstance(value, (bytes, bytearray)):
        return ("bytes", bytes(value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(_plain(getattr(key, "value", key))): _plain(inner) for key, inner in value.items()}
    if isinstance(value, datetime.timedelta):
        return ("duration", round(value.total_seconds() * 1e6))
    if isinstance(value, Duration):
        return ("duration", round(value.nanos / 1000))
    if isinstance(value, datetime.datetime):
        return ("timestamp", round(value.timestamp() * 1e6))
    if isinstance(value, Timestamp):
        return ("timestamp", value.nanos // 1000)
    if isinstance(value, TypeValue):
        return ("type", value.name)
    if isinstance(value, Optional):
        return ("optional", _plain(value.value) if value.present else None)
    return ("type", _reference_type_name(value))


def _reference_type_name(value: Json) -> str:
    names = {"NULL": "null_type", "TIMESTAMP": "google.protobuf.Timestamp", "DURATION": "google.protobuf.Duration"}
    name = str(value.name()).partition("<")[0]
    return names.get(name, name.lower())


TABLE = (Path(__file__).parent / "expressions.txt").read_text()
EXPRESSIONS = [line for line in TABLE.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_a_written_expression_means_the_same_in_both(source: str, reference: Json, ours: Environment) -> None:
    assert our_answer(ours, source) == reference_answer(reference, source)


# -- generated expressions

ints = st.sampled_from(["0", "1", "2", "-1", "7", "9223372036854775807", "(-9223372036854775807 - 1)", "i", "j"])
strings = st.sampled_from(["''", "'a'", "'ab'", "'é'", "s", "e"])
bools = st.sampled_from(["true", "false", "b", "1/0 == 1"])
doubles = st.sampled_from(["0.0", "1.5", "-2.25", "1e10", "d"])


@st.composite
def int_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(ints)
    smaller = int_expressions(depth - 1)
    match draw(st.integers(0, 8)):
        case 0:
            return draw(ints)
        case 1:
            return f"({draw(smaller)} {draw(st.sampled_from('+-*/%'))} {draw(smaller)})"
        case 2:
            return f"({draw(bool_expressions(depth - 1))} ? {draw(smaller)} : {draw(smaller)})"
        case 3:
            return f"size({draw(list_expressions(depth - 1))})"
        case 4:
            return f"{draw(list_expressions(depth - 1))}[{draw(smaller)}]"
        case 5:
            return f"{draw(string_expressions(depth - 1))}.size()"
        case 6:
            return f"int({draw(st.sampled_from(['dyn(' + draw(smaller) + ')', draw(doubles)]))})"
        case 7:
            return f"m[{draw(string_expressions(depth - 1))}]"
        case _:
            return f"{draw(string_expressions(depth - 1))}.indexOf({draw(string_expressions(depth - 1))})"


@st.composite
def string_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(strings)
    smaller = string_expressions(depth - 1)
    match draw(st.integers(0, 5)):
        case 0 | 1:
            return draw(strings)
        case 2:
            return f"({draw(smaller)} + {draw(smaller)})"
        case 3:
            return f"string({draw(int_expressions(depth - 1))})"
        case 4:
            return f"({draw(bool_expressions(depth - 1))} ? {draw(smaller)} : {draw(smaller)})"
        case _:
            return f"{draw(smaller)}.replace({draw(smaller)}, {draw(smaller)})"


@st.composite
def list_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(st.sampled_from(["l", "[1, 2]", "[0]", "l.filter(x, x > 5)"]))
    smaller = list_expressions(depth - 1)
    match draw(st.integers(0, 4)):
        case 0:
            return f"[{', '.join(draw(st.lists(int_expressions(depth - 1), min_size=1, max_size=3)))}]"
        case 1:
            return f"({draw(smaller)} + {draw(smaller)})"
        case 2:
            return f"{draw(smaller)}.map(x, x + {draw(int_expressions(depth - 1))})"
        case 3:
            comparison = f"x {draw(st.sampled_from(['<', '==', '!=']))} {draw(int_expressions(depth - 1))}"
            return f"{draw(smaller)}.filter(x, {comparison})"
        case _:
            return f"({draw(bool_expressions(depth - 1))} ? {draw(smaller)} : {draw(smaller)})"


@st.composite
def bool_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(bools)
    smaller = bool_expressions(depth - 1)
    order = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    match draw(st.integers(0, 9)):
        case 0:
            return draw(bools)
        case 1:
            return f"({draw(smaller)} && {draw(smaller)})"
        case 2:
            return f"({draw(smaller)} || {draw(smaller)} || {draw(smaller)})"
        case 3:
            return f"!{draw(smaller)}"
        case 4:
            return f"({draw(int_expressions(depth - 1))} {draw(order)} {draw(int_expressions(depth - 1))})"
        case 5:
            return f"({draw(string_expressions(depth - 1))} {draw(order)} {draw(string_expressions(depth - 1))})"
        case 6:
            macro = draw(st.sampled_from(["all", "exists", "exists_one"]))
            comparison = f"{draw(int_expressions(depth - 1))} {draw(order)} x"
            return f"{draw(list_expressions(depth - 1))}.{macro}(x, {comparison})"
        case 7:
            return f"({draw(int_expressions(depth - 1))} in {draw(list_expressions(depth - 1))})"
        case 8:
            return f"({draw(list_expressions(depth - 1))} == {draw(list_expressions(depth - 1))})"
        case _:
            call = draw(st.sampled_from(["contains", "startsWith", "endsWith"]))
            return f"{draw(string_expressions(depth - 1))}.{call}({draw(string_expressions(depth - 1))})"


@settings(max_examples=400, deadline=None)
@given(source=st.one_of(bool_expressions(), int_expressions(), string_expressions(), list_expressions()))
def test_a_generated_expression_means_the_same_in_both(reference: Json, ours: Environment, source: str) -> None:
    assert our_answer(ours, source) == reference_answer(reference, source)


@settings(max_examples=200, deadline=None)
@given(nanos=st.integers(-(10**15), 10**15).map(lambda micros: micros * 1000))
def test_a_duration_written_as_text_reads_back(reference: Json, nanos: int) -> None:
    text = duration_text(Duration(nanos))
    answer = reference_answer(reference, f"duration('{text}')")
    assert abs(answer[1] - nanos // 1000) <= 1


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=12))
def test_any_text_is_parsed_or_refused_but_never_crashes(ours: Environment, text: str) -> None:
    our_answer(ours, text)


def test_numbers_of_unlike_types_compare_when_dynamic_or_not(ours: Environment) -> None:
    assert ours.compile("1 < 1.5 && 2u > 1 && 1.0 <= 1u")(*VALUES.values()) is True


def test_unsigned_arithmetic_keeps_its_kind(ours: Environment) -> None:
    assert isinstance(ours.compile("1u + 2u")(*VALUES.values()), Uint)
