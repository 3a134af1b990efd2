"""YAML bodies, read as Kubernetes reads them: YAML 1.1 that can be written as JSON.

Only the parser of PyYAML is used. What a plain scalar means is decided here, because the two libraries disagree:
`yes`, `on` and `y` are booleans, `017` and `0o17` are octal, time stamps and `1:30` are text. Keys become text as in
JSON. Of several documents only the first counts. Aliases are expanded into copies, within a budget: nine lines of YAML
can stand for billions of values.
"""

import re
from typing import Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.resolver import BaseResolver

from kohort.cluster.apiserver.schema.jsontext import normal_numbers
from kohort.objects.jsontypes import Json, JsonObject

_PLAIN: Final = "plain"
_TAG: Final = "tag:yaml.org,2002:"
_MAX_NODES: Final = 500_000

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INTEGER: Final = re.compile(r"([-+]?)(?:0b([01]+)|0x([0-9a-fA-F]+)|0o?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class YamlFault(ValueError):
    """The text is not YAML, or cannot be written as JSON."""


class _Loader(CParser, BaseResolver):
    """The C parser alone; plain scalars get a tag of their own and are resolved below."""

    def __init__(self, stream: bytes) -> None:
        CParser.__init__(self, stream)
        BaseResolver.__init__(self)

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: tuple[bool, bool] | bool) -> str:
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        resolved: str = BaseResolver.resolve(self, kind, value, implicit)  # type: ignore[no-untyped-call]
        return resolved


def decode(body: bytes) -> tuple[Json, list[str]]:
    """The value of the first document, and a message for every key that is set twice. Raises YamlFault."""
    loader = _Loader(body)
    try:
        node = loader.get_node() if loader.check_node() else None
        builder = _Builder()
        return (builder.build(node) if node is not None else None), builder.duplicates
    except yaml.YAMLError as error:
        raise YamlFault(_worded(error)) from None
    except RecursionError:
        raise YamlFault("yaml: exceeded max depth") from None
    finally:
        loader.dispose()


def _worded(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or "control characters are not allowed"
    line = mark.line if mark is not None else 0
    if mark is not None and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


class _Builder:
    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self.budget = _MAX_NODES

    def build(self, node: yaml.Node) -> Json:
        self.budget -= 1
        if self.budget < 0:
            raise YamlFault("yaml: document contains excessive aliasing")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item) for item in node.value]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode) -> JsonObject:
        fields: JsonObject = {}
        merged: JsonObject = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merged = self._merged(value_node) | merged
                continue
            key = _key(key_node)
            if key in fields:
                self.duplicates.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            fields[key] = self.build(value_node)
        return merged | fields if merged else fields

    def _merged(self, node: yaml.Node) -> JsonObject:
        value = self.build(node)
        if isinstance(value, dict):
            return value
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            result: JsonObject = {}
            for item in value:
                result = item | result
            return result
        raise YamlFault("yaml: map merge requires map or sequence of maps as the value")


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise YamlFault("yaml: invalid map key")
    value = _scalar(node)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return repr(value)


def _scalar(node: yaml.Node) -> Json:
    tag, text = node.tag, node.value
    if tag == _PLAIN:
        return plain_scalar(text)
    if tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"):
        return plain_scalar(text)
    return text


def plain_scalar(text: str) -> Json:
    """The meaning of a scalar without quotes."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in "+-.0123456789":
        return _number(text)
    return text


def _number(text: str) -> Json:
    digits = text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        sign, binary, hexadecimal, octal, decimal = match.groups()
        for part, base in ((binary, 2), (hexadecimal, 16), (octal, 8), (decimal, 10)):
            if part is not None:
                value = int(part, base)
                return normal_numbers(-value if sign == "-" else value)
    if _FLOAT.fullmatch(digits):
        return normal_numbers(float(digits))
    if _NOT_A_NUMBER.fullmatch(text):
        raise YamlFault(f"json: unsupported value: {_go_infinity(text)}")
    return text


def _go_infinity(text: str) -> str:
    if "n" in text.lower() and "inf" not in text.lower():
        return "NaN"
    return "-Inf" if text.startswith("-") else "+Inf"
