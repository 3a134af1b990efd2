"""Named formats: `format.dns1123Label().validate(name)` yields nothing, or what is wrong with the name."""

import base64
import binascii
import re
from collections.abc import Callable

from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.functions.urls import url_problem
from kohort.cluster.apiserver.cel.times import parse_date, parse_timestamp
from kohort.cluster.apiserver.cel.values import NONE, Extension, Optional
from kohort.objects import names

_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)

Check = Callable[[str], list[str]]


class Format(Extension):
    __slots__ = ("check", "name")
    type_name = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Check) -> None:
        self.name = name
        self.check = check

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _base64(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        parse_date(text)
    except ValueError:
        return ["invalid date"]
    return []


def _datetime(text: str) -> list[str]:
    try:
        parse_timestamp(text)
    except ValueError:
        return ["invalid datetime"]
    return []


_FORMATS = {
    name: Format(name, check)
    for name, check in (
        ("dns1123Label", names.dns1123_label),
        ("dns1123Subdomain", names.dns1123_subdomain),
        ("dns1035Label", names.dns1035_label),
        ("qualifiedName", names.qualified_name),
        ("dns1123LabelPrefix", lambda text: names.dns1123_label(text, prefix=True)),
        ("dns1123SubdomainPrefix", lambda text: names.dns1123_subdomain(text, prefix=True)),
        ("dns1035LabelPrefix", lambda text: names.dns1035_label(text, prefix=True)),
        ("labelValue", names.label_value),
        ("uri", _uri),
        ("uuid", _uuid),
        ("byte", _base64),
        ("date", _date),
        ("datetime", _datetime),
    )
}


def _constant(format: Format) -> Callable[[], Format]:
    return lambda: format


def named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def validate(format: Format, text: str) -> Optional:
    problems = format.check(text)
    return Optional(problems) if problems else NONE


def _validate_cost(format: Format, text: str) -> int:
    return len(text) // 10


LIBRARY = Library(
    (
        Function("format::validate(string): optional<list<string>>", validate, _validate_cost),
        Function("format.named(string): optional<format>", named),
        *(Function(f"format.{name}(): format", _constant(format)) for name, format in _FORMATS.items()),
    ),
    {"format": "kubernetes.NamedFormat"},
)
