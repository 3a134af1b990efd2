"""Compile errors of rules, as recorded from Kubernetes 1.36."""

import pytest

from kohort.cluster.apiserver.cel import CompileError, Environment, kubernetes_environment
from kohort.cluster.apiserver.cel.errors import InstantiationError
from kohort.cluster.apiserver.cel.schema_types import schema_type
from kohort.cluster.apiserver.schema.node import Node

PRIMARY = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)

CASES = [
    ("self.foo == 1", ["1:5: undefined field 'foo'"]),
    ("self.min +", [f"1:11: Syntax error: mismatched input '<EOF>' expecting {PRIMARY}"]),
    (
        "self.min + 'a' == 3 && foo",
        [
            "1:10: found no matching overload for '_+_' applied to '(int, string)'",
            "1:24: undeclared reference to 'foo' (in container '')",
        ],
    ),
    ("self.min self.max", ["1:10: Syntax error: mismatched input 'self' expecting <EOF>"]),
    ("self.min == 1 self", ["1:15: Syntax error: extraneous input 'self' expecting <EOF>"]),
    ("self.min == 1)", ["1:14: Syntax error: extraneous input ')' expecting <EOF>"]),
    ("(self.min == 1", ["1:15: Syntax error: missing ')' at '<EOF>'"]),
    ("has(self.min", ["1:13: Syntax error: missing ')' at '<EOF>'"]),
    ("self.l[0", ["1:9: Syntax error: missing ']' at '<EOF>'"]),
    ("[1, 2", ["1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}"]),
    ("{'a'}", ["1:5: Syntax error: mismatched input '}' expecting ':'"]),
    ("self.min == 1 ? true", ["1:21: Syntax error: mismatched input '<EOF>' expecting ':'"]),
    ("self.", ["1:6: Syntax error: no viable alternative at input '.'"]),
    ("self..min", ["1:6: Syntax error: no viable alternative at input '..'"]),
    ("self.true", ["1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER"]),
    (
        "self.min = 1",
        [
            "1:10: Syntax error: token recognition error at: '= '",
            "1:12: Syntax error: extraneous input '1' expecting <EOF>",
        ],
    ),
    ("self.name.startsWith(1)", ["1:21: found no matching overload for 'startsWith' applied to 'string.(int)'"]),
    ("size(self.min) == 1", ["1:5: found no matching overload for 'size' applied to '(int)'"]),
    ("self.l.all(x, y > 0)", ["1:15: undeclared reference to 'y' (in container '')"]),
    ("self.l.all(x, x)", ["1:15: expected type 'bool' but found 'int'"]),
    (
        "self.l.filter(x, x).size() == 1",
        ["1:14: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'"],
    ),
    ("[1,'a'] == []", ["1:4: expected type 'int' but found 'string'"]),
    ("self.l == [1, dyn(2)]", ["1:18: expected type 'int' but found 'dyn'"]),
    (
        "{1:'a','b':2} == {}",
        ["1:8: expected type 'int' but found 'string'", "1:12: expected type 'string' but found 'int'"],
    ),
    ("duration('x') == duration('1s')", ["1:10: invalid duration argument"]),
    ("self.name.matches('(')", ["1:19: invalid matches argument"]),
    (
        "'%s'.format([1, 'a']) != ''",
        ["1:12: too many arguments supplied to string.format (expected 1, got 2)"],
    ),
    ("'%s %s'.format([1]) != ''", ["1:15: index 1 out of range"]),
    ("'%'.format([1]) != ''", ["1:11: unexpected end of string"]),
    (
        "'%d %z'.format([1,2]) != ''",
        ['1:15: could not parse formatting clause: unrecognized formatting clause "z"'],
    ),
    (
        "'%d'.format([self.name]) != ''",
        ["1:18: error during formatting: decimal clause can only be used on integers, was given string"],
    ),
    (
        "'%b'.format(['x']) != ''",
        ["1:14: error during formatting: only integers and bools can be formatted as binary, was given string"],
    ),
    ("self.min == null", ["1:10: found no matching overload for '_==_' applied to '(int, null)'"]),
    ("self.min == 1.0", ["1:10: found no matching overload for '_==_' applied to '(int, double)'"]),
    ("self.min in [1u]", ["1:10: found no matching overload for '@in' applied to '(int, list(uint))'"]),
    ("self.name.foo()", ["1:14: undeclared reference to 'foo' (in container '')"]),
    ("foo(1)", ["1:4: undeclared reference to 'foo' (in container '')"]),
    ("9999999999999999999999 == 1", ["1:1: invalid int literal"]),
    ("self.l[0].x == 1", ["1:10: type 'int' does not support field selection"]),
    ("self.name['a'] == 1", ["1:10: found no matching overload for '_[_]' applied to '(string, string)'"]),
    ("true || 1", ["1:9: expected type 'bool' but found 'int'"]),
    ("true ? 1 : 'a'", ["1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"]),
    ("if == 1", ["1:1: reserved identifier: if"]),
    ("has(self)", ["1:5: invalid argument to has() macro"]),
    ("self.l.map(1, x)", ["1:12: argument is not an identifier"]),
    (
        "optional.of(self.min).orValue('a') == 1",
        ["1:30: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'"],
    ),
    (
        "cel.bind(x, 1, x == 1)",
        [
            "1:1: undeclared reference to 'cel' (in container '')",
            "1:9: undeclared reference to 'bind' (in container '')",
            "1:10: undeclared reference to 'x' (in container '')",
            "1:16: undeclared reference to 'x' (in container '')",
        ],
    ),
]


@pytest.fixture(scope="module")
def environment() -> Environment:
    node = Node(
        "object",
        fields={
            "min": Node("integer"),
            "max": Node("integer"),
            "name": Node("string"),
            "l": Node("array", items=Node("integer")),
        },
    )
    type = schema_type(node)
    assert type is not None
    return kubernetes_environment().with_variables({"self": type, "oldSelf": type}, raw=["self", "oldSelf"])


@pytest.mark.parametrize(("source", "expected"), CASES, ids=[source for source, _ in CASES])
def test_messages_and_places(environment: Environment, source: str, expected: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile(source)
    headlines = [line.removeprefix("ERROR: <input>:") for line in str(caught.value).splitlines() if "ERROR" in line]
    assert headlines == expected


def test_the_place_is_shown_below_the_text(environment: Environment) -> None:
    with pytest.raises(CompileError) as caught:
        environment.compile("self.name == 'é' && zzz")
    assert str(caught.value) == (
        "ERROR: <input>:1:21: undeclared reference to 'zzz' (in container '')\n"
        " | self.name == 'é' && zzz\n"
        " | ..............．.....^"
    )


@pytest.mark.parametrize(
    "source", ["dyn(self).zzz == 1", "self == oldSelf", "1 == 1 == true", "'%s %s'.format([1, 'a']) != ''"]
)
def test_accepted(environment: Environment, source: str) -> None:
    environment.compile(source)


def test_endless_nesting_is_refused(environment: Environment) -> None:
    for source in (
        "(" * 5000 + "1" + ")" * 5000,
        "!" * 3 + "-" * 4000 + "1",
        "1" + " + 1" * 20000,
        "self" + ".a" * 20000,
    ):
        with pytest.raises(CompileError):
            environment.compile(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("int('x') == 5", "type conversion error from 'string' to 'int'"),
        ("int(1e99) == 1", "integer overflow"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
        ("'a'.find('(') == ''", "error parsing regexp: missing closing ): `(`"),
    ],
)
def test_a_constant_without_a_value(source: str, reason: str) -> None:
    with pytest.raises(InstantiationError) as raised:
        kubernetes_environment().compile(source)
    assert str(raised.value) == reason
