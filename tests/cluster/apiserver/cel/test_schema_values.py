"""JSON under a schema as expressions see it."""

import pytest

from kohort.cluster.apiserver.cel import BudgetExceeded, CelError, Environment, kubernetes_environment
from kohort.cluster.apiserver.cel.schema_types import escaped, schema_type
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json

STRING, INTEGER = Node("string"), Node("integer")
ITEM = Node("object", fields={"key": STRING, "value": INTEGER}, required=frozenset({"key"}))
NODE = Node(
    "object",
    fields={
        "size": INTEGER,
        "ratio": Node("number"),
        "name": STRING,
        "namespace": STRING,
        "a-b.c/d": INTEGER,
        "x__y": INTEGER,
        "when": Node("string", format="date-time"),
        "day": Node("string", format="date"),
        "every": Node("string", format="duration"),
        "blob": Node("string", format="byte"),
        "either": Node("any", format="int-or-string"),
        "hidden": Node("any", preserve_unknown=True),
        "open": Node("object", preserve_unknown=True),
        "set": Node("array", items=STRING, list_type="set"),
        "map": Node("array", items=ITEM, list_type="map", list_keys=("key",)),
        "list": Node("array", items=ITEM),
        "labels": Node("map", items=STRING),
        "times": Node("map", items=Node("string", format="date-time")),
        "nullable": Node("string", nullable=True),
        "embedded": Node("object", embedded=True, preserve_unknown=True),
    },
)
OBJECT: dict[str, Json] = {
    "size": 3,
    "ratio": 2,
    "name": "n",
    "namespace": "ns",
    "a-b.c/d": 1,
    "x__y": 2,
    "when": "2024-01-02T03:04:05Z",
    "day": "2024-01-02",
    "every": "90s",
    "blob": "aGk=",
    "either": "50%",
    "hidden": {"a": 1},
    "open": {"b": 2},
    "set": ["a", "b"],
    "map": [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
    "list": [{"key": "a", "value": 1}, {"key": "b"}],
    "labels": {"x": "1"},
    "times": {"t": "2024-01-02T03:04:05Z"},
    "nullable": None,
    "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    "undeclared": 1,
}


@pytest.fixture(scope="module")
def environment() -> Environment:
    type = schema_type(NODE)
    assert type is not None
    return kubernetes_environment().with_variables({"self": type, "oldSelf": type}, raw=["self", "oldSelf"])


def run(environment: Environment, source: str, old: Json = None) -> Json:
    return environment.compile(source)(OBJECT, old if old is not None else OBJECT)


TRUE = [
    "self.size == 3 && self.ratio == 2.0",
    "self.__namespace__ == 'ns' && self.namespace == 'ns' && has(self.namespace)",
    "self.a__dash__b__dot__c__slash__d == 1 && self.x__underscores__y == 2",
    "self.when.getFullYear() == 2024 && self.when < timestamp('2025-01-01T00:00:00Z')",
    "self.day == timestamp('2024-01-02T00:00:00Z')",
    "self.every == duration('1m30s')",
    "self.blob == b'hi' && size(self.blob) == 2",
    "type(self.either) == string && self.either.endsWith('%')",
    "self.either == '50%' && self.either != 50",
    "!has(self.nullable) && has(self.name)",
    "self.labels.x == '1' && self.labels['x'] == '1' && 'x' in self.labels && !has(self.labels.y)",
    "self.labels.all(k, self.labels[k] == '1')",
    "self.times.all(k, self.times[k].getMonth() == 0)",
    "self.times.all(k, v, v.getMonth() == 0)",
    "self.list[0].value == 1 && !has(self.list[1].value)",
    "self.list.map(x, x.key) == ['a', 'b']",
    "self.list.filter(x, has(x.value))[0].value == 1",
    "self.list.exists(x, x == self.list[0])",
    "self.list.all(i, x, i == 0 ? x.key == 'a' : x.key == 'b')",
    "self.?size.orValue(0) == 3 && self.?nullable.orValue('none') == 'none'",
    "self.embedded.kind == 'Pod' && self.embedded.metadata.name == 'p'",
    "dyn(self).size == 3 && !has(dyn(self).undeclared)",
    "'a' in self.set && !('z' in self.set)",
    "self.set == ['b', 'a'] && self.set != ['a', 'c']",
    "(self.set + ['b', 'c']) == ['a', 'b', 'c'] && size(self.set + ['a']) == 2",
    "self.map == oldSelf.map",
    "[3, 1].exists(x, x == self.size)",
    "self.set.map(x, x + '!').join(',') == 'a!,b!'",
    "self == oldSelf && self.list == oldSelf.list",
    "quantity('3').asInteger() == self.size",
]


@pytest.mark.parametrize("source", TRUE)
def test_holds(environment: Environment, source: str) -> None:
    assert run(environment, source) is True


def test_an_associative_list_is_the_same_in_any_order(environment: Environment) -> None:
    old = {**OBJECT, "map": list(reversed(OBJECT["map"])), "list": list(reversed(OBJECT["list"]))}
    assert run(environment, "self.map == oldSelf.map", old) is True
    assert run(environment, "self.list == oldSelf.list", old) is False
    assert run(environment, "self == oldSelf", {**OBJECT, "map": old["map"]}) is True


def test_merging_an_associative_list_replaces_by_key(environment: Environment) -> None:
    old = {**OBJECT, "map": [{"key": "b", "value": 9}, {"key": "c", "value": 3}]}
    merged = "(self.map + oldSelf.map).map(x, x.key + string(x.value)) == ['a1', 'b9', 'c3']"
    assert run(environment, merged, old) is True


def test_moments_written_differently_are_equal(environment: Environment) -> None:
    old = {**OBJECT, "when": "2024-01-02T04:04:05+01:00"}
    assert run(environment, "self == oldSelf", old) is True


@pytest.mark.parametrize(
    "source", ["self.hidden == 1", "self.open.b == 2", "self.undeclared == 1", "self.embedded.spec == 1"]
)
def test_what_the_schema_does_not_declare_cannot_be_reached(environment: Environment, source: str) -> None:
    with pytest.raises(Exception, match="undefined field"):
        environment.compile(source)


def test_an_unset_field_has_no_value(environment: Environment) -> None:
    with pytest.raises(CelError, match=r"^no such key: value$"):
        run(environment, "self.list[1].value == 1")
    with pytest.raises(CelError, match=r"^index out of bounds: 7$"):
        run(environment, "self.list[7].key == ''")


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("plain", "plain"),
        ("if", "__if__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("1a", None),
        ("a b", None),
        ("", None),
    ],
)
def test_property_names_become_identifiers(name: str, identifier: str | None) -> None:
    assert escaped(name) == identifier


@pytest.mark.parametrize(
    "source",
    [
        "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z >= 0)))",
        "self.s.replace('a', self.s).size() > 0",
        "lists.range(100000000).size() > 0",
        "self.a.map(x, self.a).map(y, y.map(z, y)).size() > 0",
        "self.a.distinct().size() == self.a.size()",
        "self.a.exists(x, self.s.matches('(a|b)*c')) || true",
    ],
)
def test_an_expensive_evaluation_is_stopped_and_not_absorbed(source: str) -> None:
    type = schema_type(Node("object", fields={"a": Node("array", items=INTEGER), "s": STRING}))
    assert type is not None
    program = kubernetes_environment().with_variables({"self": type}, raw=["self"]).compile(source)
    with pytest.raises(BudgetExceeded):
        program({"a": list(range(3000)), "s": "a" * 100_000})
