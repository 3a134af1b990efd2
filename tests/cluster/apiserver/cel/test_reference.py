"""Our evaluation against the C++ reference implementation of the language: the same value, or an error in both."""

import datetime
import math

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
from kohort.objects.jsontypes import Json

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


TABLE = r"""
# arithmetic
1 + 2 * 3
-7 / 2
-7 % 3
7 % -3
7 / 0
7 % 0
9223372036854775807 + 1
-9223372036854775808 - 1
-(-9223372036854775807 - 1)
9223372036854775807 * 2
(-9223372036854775807 - 1) / -1
1u - 2u
3u * 4u
18446744073709551615u + 1u
1.5 + 2.5
1.0 / 0.0
0.0 / 0.0
-1.0 / 0.0
5u / 2u
5u % 0u
-d
2.0 * d
0x10 + 1
0xFFu
1e3
.5
--i
- -5
!!b
i + j * 2 - -j
# comparison and equality
1 == 1u
dyn(1) == dyn(1.0)
dyn(1) == dyn('1')
dyn(true) == dyn(1)
[1] == [dyn(1.0)]
null == null
1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3
'a' < 'b'
b'a' < b'b'
false < true
dyn(1) < dyn(2u)
dyn(1) < dyn(1.5)
{'a': 1} == {'a': 1}
{'a': 1} == {'a': 2}
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
[1, 2] == [2, 1]
[] == []
duration('60s') == duration('1m')
s != e
any == any
any.n == 5
any.nested == {'x': 'y'}
type(1) == int
type('') == string
type([]) == list
type({}) == map
type(null) == null_type
type(1.0) == double
type(b'') == bytes
type(type(1)) == type
type(1u) == uint
type(true) == bool
type(duration('1s')) == google.protobuf.Duration
any.list[1] == 'two'
any.list[3] == null
# logic and absorption of errors
1/0 == 1 || true
true || 1/0 == 1
1/0 == 1 && false
false && 1/0 == 1
1/0 == 1 || false
1/0 == 1 && true
1/0 == 1 || 1/0 == 2
true ? 1 : 1/0
false ? 1/0 : 2
1/0 == 1 ? 1 : 2
!(1/0 == 1)
b ? 'y' : 'n'
b ? b ? 1 : 2 : 3
dyn(1) || true
dyn(1) && false
# strings and bytes
size(s)
s.size()
size(b'\xff\xfe')
s + '!'
b'a' + b'b'
s.contains('ll')
s.startsWith('h')
s.endsWith('o')
s.matches('^h.*o$')
matches(s, 'x')
'a\nb' == 'a\x0ab'
'\u00e9' == 'é'
r'\d' == '\\d'
'''a'b''' + "c'd"
b'\303\277' == bytes('ÿ')
string(b'ab')
string(b'\xff')
bytes('é')
'\101'
'\U0001F600'.size()
e == ''
'a' in w
'q' in w
# conversions
int('42')
int('-42')
int('4x')
int('')
int(2.9)
int(-2.9)
int(1e30)
int(18446744073709551615u)
uint('42')
uint('-1')
uint(-1)
uint(3.7)
uint(-0.5)
double('1.5')
double('x')
double(i)
string(1)
string(1u)
string(-1)
string(1.5)
string(true)
string(s)
bool('true')
bool('x')
bool('FALSE')
int(timestamp('1970-01-01T00:01:00Z'))
timestamp(60)
string(timestamp('2020-02-29T01:02:03Z'))
dyn(5) + 1
dyn('a') + 1
string(1e100)
string(0.0001)
string(0.00001)
string(123456.0)
string(1234567.0)
# lists and maps
l[0]
l[3]
l[-1]
l[dyn(1u)]
l[dyn(1.0)]
l[dyn(1.5)]
l + [4]
[] + l
2 in l
5 in l
size(l)
m.k
m['k']
m.q
m['q']
has(m.k)
has(m.q)
'k' in m
'q' in m
size(m)
{1: 'a'}[1]
{1: 'a'}[2]
{true: 'a'}[true]
has(any.nested.x)
has(any.nope)
has(any.nope.deeper)
any.nope
any.list.size()
any.nested.x + '!'
any[0]
any.n.x
i[0]
{'a': {'b': 1}}.a.b
[[1], [2]][1][0]
[1, 2,]
{'a': 1,}
1 in {1: true}
[1, 2, 3][1 + 1]
# macros
l.all(x, x > 0)
l.all(x, x > 1)
l.exists(x, x == 2)
l.exists(x, x == 9)
l.exists_one(x, x == 2)
l.exists_one(x, x > 1)
l.map(x, x * 2)
l.map(x, x > 1, x * 2)
l.filter(x, x % 2 == 1)
m.all(k, k != '')
m.exists(k, m[k] == 1)
m.map(k, m[k]).size()
m.filter(k, m[k] == 0)
l.all(x, 1/(x-2) > 5)
l.all(x, x/0 == 1)
l.exists(x, 1/(x-2) == -1)
l.exists(x, x/0 == 1)
l.exists_one(x, 1/(x-2) == 1)
l.map(x, 1/(x-2))
l.filter(x, 1/(x-2) == 1)
l.map(x, l.map(y, x * y))
l.map(x, l.filter(y, y < x).size())
[].all(x, x)
l.map(x, x).map(x, x + 1)
any.list.filter(x, type(x) == int)
any.list.exists(x, x == 'two')
i.all(x, true)
dyn(i).all(x, true)
l.all(x, l.exists(y, y == x))
w.map(x, x.size())
l.map(i, i + 1)
l.filter(i, i > 1).map(i, i * i)
# time
duration('1h30m') + duration('30m')
duration('1.5s')
duration('-1s')
duration('1d' + e)
duration(e)
timestamp('2023-01-01T00:00:00Z') + duration('24h')
timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z')
timestamp('2023-01-01T00:00:00+02:00')
timestamp('nope' + e)
timestamp('2023-13-01T00:00:00Z' + e)
timestamp('2023-05-06T07:08:09.123Z').getFullYear()
timestamp('2023-05-06T07:08:09Z').getMonth()
timestamp('2023-05-06T07:08:09Z').getDate()
timestamp('2023-05-06T07:08:09Z').getDayOfMonth()
timestamp('2023-05-06T07:08:09Z').getDayOfWeek()
timestamp('2023-05-06T07:08:09Z').getDayOfYear()
timestamp('2023-05-06T07:08:09Z').getHours()
timestamp('2023-05-06T07:08:09Z').getHours('America/New_York')
timestamp('2023-05-06T07:08:09Z').getHours('+01:30')
timestamp('2023-05-06T07:08:09Z').getMinutes('-00:30')
timestamp('2023-05-06T07:08:09.123Z').getMilliseconds()
duration('90m').getHours()
duration('90m').getMinutes()
duration('90s').getSeconds()
timestamp('9999-12-31T23:59:59Z') + duration('2s')
duration('1s') < duration('2s')
timestamp('2023-01-01T00:00:00Z') > timestamp('2022-01-01T00:00:00Z')
# strings extension
'tacocat'.charAt(3)
'abc'.charAt(3)
'abc'.charAt(4)
'hello mellow'.indexOf('ello')
'hello mellow'.indexOf('ello', 2)
'hello'.indexOf('')
'hello'.indexOf('x')
'hello mellow'.lastIndexOf('ello')
'hello mellow'.lastIndexOf('ello', 6)
'TacoCat'.lowerAscii()
'TacoCÆt'.lowerAscii()
'tacocat'.upperAscii()
'hello hello'.replace('he', 'we')
'hello hello'.replace('he', 'we', 1)
'hello hello'.replace('he', 'we', 0)
'a,b,c'.split(',')
'a,b,c'.split(',', 2)
'a,b,c'.split(',', 0)
'a,b,c'.split(',', 1)
'abc'.split('')
''.split(',')
'tacocat'.substring(4)
'tacocat'.substring(0, 4)
'tacocat'.substring(-1)
'tacocat'.substring(5, 3)
'  x  '.trim()
['a', 'b'].join()
['a', 'b'].join('-')
[].join('-')
'%s-%d'.format(['a', 1])
'%.2f'.format([1.0/3.0])
'%x %X %o %b'.format([255, 255, 8, 5])
'%%'.format([])
strings.quote('a"b')
# optional values
optional.of(1).hasValue()
optional.none().hasValue()
optional.of(1).value()
optional.none().orValue(5)
optional.of(1).or(optional.of(2)).value()
m.?k.orValue(9)
m.?q.orValue(9)
m[?'q'].hasValue()
l[?0].value()
l[?9].orValue(-1)
optional.ofNonZeroValue(0).hasValue()
optional.ofNonZeroValue('a').hasValue()
m.?k.optMap(x, x + 1).value()
m.?q.optMap(x, x + 1).hasValue()
any.?nested.?x.orValue('')
any.?a.?b.orValue('none')
[1, ?m.?q, ?m.?k]
{?'a': m.?q, ?'b': m.?k}
optional.of(1) == optional.of(1)
optional.none() == optional.none()
has(any.?nested.x)
optional.none().value()
m.?k.optFlatMap(x, m.?z).value()
# not expressions
1 +
(1
[1
{'a'}
1 2
a.
'abc
foo(1)
undeclared
1 + 'a'
i.foo
s.startsWith(1)
if
in
l.all(1, true)
has(i)
has(m['k'])
size()
size(1)
i ? 1 : 2
!i
-s
99999999999999999999
'\q'
1u + 1
[1][true]
{}.a.b
@
s.size(1)
b'a' == 'a'
"""


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
