"""YAML bodies, read as Kubernetes reads them: YAML 1.1 that can be written as JSON.

Only the parser of PyYAML is used, which yields events. Its composer is recursive C code and overflows the stack of the
process with 25 kB of brackets, so values are built here, with a stack of their own and a limit for its depth.

What a plain scalar means is decided here too, because the two libraries disagree: `yes`, `on` and `y` are booleans,
`017` and `0o17` are octal, time stamps and `1:30` are text. Keys become text as in JSON. Of several documents only the
first counts. Aliases are expanded into copies, within a budget: nine lines of YAML can stand for billions of values.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]

from kohort.cluster.apiserver.schema.document_limits import MAX_DEPTH, MAX_VALUES, ExcessiveDocument, check_value
from kohort.cluster.apiserver.schema.json_body import MAX_DUPLICATES, normal_numbers
from kohort.objects.json_types import Json, JsonObject

_TAG: Final = "tag:yaml.org,2002:"
_RESOLVED: Final = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))
_MERGE: Final = "<<"
_MAX_DIRECTIVES: Final = 100
"""libyaml compares every %TAG line with all the others."""
_TAG_DIRECTIVE: Final = re.compile(rb"^%TAG", re.MULTILINE)
MAX_CHARACTERS: Final = 6 * 1024 * 1024
"""Of all texts of a document, aliases expanded: twice what a body can have."""
_LONG_NUMBER: Final = 400
"""Digits beyond which a number is beyond the range of a float, too."""

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INTEGER: Final = re.compile(r"([-+]?)(?:0b([01]+)|0x([0-9a-fA-F]+)|0o?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class YamlFault(ValueError):
    """The text is not YAML, or cannot be written as JSON."""


def decode(body: bytes) -> tuple[Json, list[str]]:
    """The value of the first document, and a message for every key that is set twice. Raises YamlFault."""
    if sum(1 for _ in _TAG_DIRECTIVE.finditer(body)) > _MAX_DIRECTIVES:
        raise YamlFault(f"yaml: document has more than {_MAX_DIRECTIVES} %TAG directives")
    try:
        parser = CParser(body)
        try:
            builder = _Builder()
            value = builder.first_document(parser)
            check_value(value)
            return value, builder.duplicates
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        raise YamlFault(_worded(error)) from None
    except ExcessiveDocument as excess:
        raise YamlFault(f"yaml: {excess}") from None


def _worded(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or "control characters are not allowed"
    line = mark.line if mark is not None else 0
    if mark is not None and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come yet."""

    value: Json
    anchor: str | None
    values_before: int
    """Values that were built before this one."""
    characters_before: int
    key: str | None = None
    """Of the mapping entry whose value comes next."""
    merging: bool = False
    """Whether that entry is a merge key."""
    merged: JsonObject = field(default_factory=dict)
    """What merge keys brought; the fields of the mapping itself count before it."""


@dataclass(slots=True, frozen=True)
class _Anchored:
    value: Json
    size: int
    """Number of values in it, including itself."""
    characters: int
    """Of all texts in it."""
    merge_key: bool = False


class _Builder:
    """Builds one value from events. Every event costs the same; an alias costs as much as what it stands for."""

    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        """None while the value of an anchor is not complete."""
        self._values = 0
        self._characters = 0
        self._root: Json = None

    def first_document(self, parser: CParser) -> Json:
        while True:
            event = parser.get_event()
            if event is None or isinstance(event, (yaml.DocumentEndEvent, yaml.StreamEndEvent)):
                return self._root
            self._take(event)

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        plain = event.implicit[0]
        value = plain_scalar(event.value) if plain or event.tag in _RESOLVED else event.value
        merge_key = plain and event.value == _MERGE
        self._count(1, len(event.value))
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, len(event.value), merge_key)
        self._put(value, event, merge_key=merge_key)

    def _begin(self, value: Json, event: yaml.CollectionStartEvent) -> None:
        if self._expects_key():
            raise YamlFault("yaml: invalid map key")
        if len(self._stack) >= MAX_DEPTH:
            raise YamlFault(f"yaml: exceeded max depth of {MAX_DEPTH}")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Open(value, event.anchor, self._values, self._characters))
        self._count(1, 0)

    def _end(self) -> None:
        ended = self._stack.pop()
        value = ended.value
        for key in ended.merged:
            if key not in value:
                value[key] = ended.merged[key]
        if ended.anchor is not None:
            size, characters = self._values - ended.values_before, self._characters - ended.characters_before
            self._anchors[ended.anchor] = _Anchored(value, size, characters)
        self._put(value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise YamlFault(f"yaml: unknown anchor '{event.anchor}' referenced")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise YamlFault(f"yaml: anchor '{event.anchor}' value contains itself")
        if self._expects_key() and isinstance(anchored.value, (dict, list)):
            raise YamlFault("yaml: invalid map key")
        self._count(anchored.size, anchored.characters)
        self._put(_copy(anchored.value, MAX_DEPTH - len(self._stack)), event, merge_key=anchored.merge_key)

    def _count(self, values: int, characters: int) -> None:
        self._values += values
        self._characters += characters
        if self._values > MAX_VALUES or self._characters > MAX_CHARACTERS:
            raise YamlFault("yaml: document contains excessive aliasing")

    def _expects_key(self) -> bool:
        return bool(self._stack) and type(self._stack[-1].value) is dict and self._stack[-1].key is None

    def _put(self, value: Json, event: yaml.Event | None = None, *, merge_key: bool = False) -> None:
        """Give a complete value to the collection that it belongs to, as a key, a value or an item."""
        if not self._stack:
            self._root = value
            return
        holder = self._stack[-1]
        if type(holder.value) is list:
            holder.value.append(value)
        elif holder.key is None:
            holder.key, holder.merging = _key(value), merge_key
            if not merge_key and holder.key in holder.value and len(self.duplicates) < MAX_DUPLICATES:
                self.duplicates.append(f'line {_line(event)}: key "{holder.key}" already set in map')
        else:
            if holder.merging:
                _merge(holder.merged, value)
            else:
                holder.value[holder.key] = value
            holder.key = None


def _line(event: yaml.Event | None) -> int:
    mark = event.start_mark if event is not None else None
    return mark.line + 1 if mark is not None else 0


def _merge(merged: JsonObject, value: Json) -> None:
    """Take over the fields of a mapping, or of several, unless earlier ones brought them."""
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in sources):
        raise YamlFault("yaml: map merge requires map or sequence of maps as the value")
    for source in sources:
        for key, inner in source.items():
            merged.setdefault(key, inner)


def _copy(value: Json, levels: int) -> Json:
    """A copy that may have so many levels."""
    if not isinstance(value, (dict, list)):
        return value
    if levels <= 0:
        raise YamlFault(f"yaml: exceeded max depth of {MAX_DEPTH}")
    if isinstance(value, dict):
        return {key: _copy(inner, levels - 1) for key, inner in value.items()}
    return [_copy(item, levels - 1) for item in value]


def _key(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return repr(value)


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
    """The number that a text stands for; what is beyond the range of a float is text, as in Go."""
    digits = text.replace("_", "")
    if (match := _INTEGER.fullmatch(digits)) and len(digits) <= _LONG_NUMBER:
        sign, binary, hexadecimal, octal, decimal = match.groups()
        for part, base in ((binary, 2), (hexadecimal, 16), (octal, 8), (decimal, 10)):
            if part is not None:
                value = int(part, base)
                return _finite(-value if sign == "-" else value, text)
    if _FLOAT.fullmatch(digits):
        return _finite(float(digits), text)
    if _NOT_A_NUMBER.fullmatch(text):
        raise YamlFault(f"json: unsupported value: {_go_infinity(text)}")
    return text


def _finite(number: int | float, text: str) -> Json:
    try:
        return text if math.isinf(number) else normal_numbers(number)
    except OverflowError:
        return text


def _go_infinity(text: str) -> str:
    if "n" in text.lower() and "inf" not in text.lower():
        return "NaN"
    return "-Inf" if text.startswith("-") else "+Inf"
