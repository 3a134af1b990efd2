"""Which names the API accepts, and its messages about the others.

Every function returns a list of messages, empty if the name is fine. The wording is part of the interface: users search
for it, and tests of other projects compare it. Lengths count bytes of UTF-8.

`prefix=True` means that characters will be appended (`generateName`), so a trailing dash is allowed.
"""

import re
from collections.abc import Iterable
from typing import Final

LABEL_LENGTH: Final = 63
"""Characters that a host name, and the value of a label, may have."""

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_WILDCARD_SUBDOMAIN: Final = rf"\*\.{_SUBDOMAIN}"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY_NAME})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER_NAME: Final = "[-A-Za-z0-9]+"

_is_label = re.compile(_LABEL).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_wildcard_subdomain = re.compile(_WILDCARD_SUBDOMAIN).fullmatch
_is_key_name = re.compile(_KEY_NAME).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_header_name = re.compile(_HEADER_NAME).fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch
_has_lower_letter = re.compile("[a-z]").search

_LABEL_WRONG: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WRONG: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_WILDCARD_WRONG: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_LABEL_1035_WRONG: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_NAME_WRONG: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_WRONG: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_RELAXED_ENV_NAME_WRONG: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_CONFIG_KEY_WRONG: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_HEADER_NAME_WRONG: Final = "a valid HTTP header must consist of alphanumeric characters or '-'"


def dns1123_label(name: str, prefix: bool = False) -> list[str]:
    """Namespaces, containers, StatefulSets: at most 63 of `a-z0-9-`, not at an edge a dash."""
    name = _finished(name, prefix)
    problems = _too_long(name, LABEL_LENGTH, "characters")
    if not _is_label(name):
        if _is_subdomain(name):
            problems.append("must not contain dots")
        else:
            problems.append(_mismatch(_LABEL_WRONG, _LABEL, "my-name", "123-abc"))
    return problems


def dns1123_subdomain(name: str, prefix: bool = False) -> list[str]:
    """Most kinds: labels joined by dots, at most 253."""
    return _subdomain(_finished(name, prefix), "characters")


def wildcard_dns1123_subdomain(name: str) -> list[str]:
    """Hosts of an Ingress that begin with `*.`."""
    problems = _too_long(name, 253, "characters")
    if not _is_wildcard_subdomain(name):
        problems.append(_mismatch(_WILDCARD_WRONG, _WILDCARD_SUBDOMAIN, "*.example.com"))
    return problems


def dns1035_label(name: str, prefix: bool = False) -> list[str]:
    """Like a DNS-1123 label, but the first character is a letter."""
    name = _finished(name, prefix)
    problems = _too_long(name, LABEL_LENGTH, "characters")
    if not _is_label_1035(name):
        problems.append(_mismatch(_LABEL_1035_WRONG, _LABEL_1035, "my-name", "abc-123"))
    return problems


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """RBAC kinds: whatever survives in a URL path. Neither length nor emptiness is checked here."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]


def qualified_name(name: str, prefix: bool = False) -> list[str]:
    """Keys of labels, annotations, taints, finalizers, resources: `[subdomain/]name`."""
    parts = name.split("/")
    examples = ("MyName", "my.name", "123-abc")
    if len(parts) > 2:
        reason = _mismatch(_KEY_NAME_WRONG, _KEY_NAME, *examples)
        return [f"a valid label key {reason} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems: list[str] = []
    if len(parts) == 2:
        domain = parts[0]
        problems += [f"prefix part {message}" for message in (_subdomain(domain, "bytes") if domain else [EMPTY])]
    local = parts[-1]
    if not local:
        problems.append(f"name part {EMPTY}")
    else:
        problems += [f"name part {message}" for message in _too_long(local, 63, "bytes")]
    if not _is_key_name(local):
        problems.append("name part " + _mismatch(_KEY_NAME_WRONG, _KEY_NAME, *examples))
    return problems


def label_value(value: str, prefix: bool = False) -> list[str]:
    problems = _too_long(value, LABEL_LENGTH, "bytes")
    if not _is_value(value):
        problems.append(_mismatch(_VALUE_WRONG, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def port_name(name: str, prefix: bool = False) -> list[str]:
    """IANA service names: at most 15 of `a-z0-9-` with a letter, no double or outer dash."""
    problems = _too_long(name, 15, "characters")
    if not _is_port_charset(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_lower_letter(name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def env_name(name: str, prefix: bool = False) -> list[str]:
    """Environment variables as the current API takes them: printable ASCII without `=`."""
    problems = [] if name else [f"environment variable name {EMPTY}"]
    if not all(" " <= character <= "~" and character != "=" for character in name):
        problems.append(_RELAXED_ENV_NAME_WRONG)
    return problems


def config_key(name: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    problems = _too_long(name, 253, "characters")
    if not _is_config_key(name):
        problems.append(_mismatch(_CONFIG_KEY_WRONG, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return problems + _climbs_up(name)


def http_header_name(name: str) -> list[str]:
    return [] if _is_header_name(name) else [_mismatch(_HEADER_NAME_WRONG, _HEADER_NAME, "X-Header-Name")]


EMPTY: Final = "must be non-empty"


def in_range(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def _subdomain(name: str, unit: str) -> list[str]:
    problems = _too_long(name, 253, unit)
    if not _is_subdomain(name):
        problems.append(_mismatch(_SUBDOMAIN_WRONG, _SUBDOMAIN, "example.com"))
    return problems


def _finished(name: str, prefix: bool) -> str:
    """A prefix that ends in a dash, as if something harmless followed it."""
    if prefix and len(name) > 1 and name.endswith("-") and name[-2].isascii():
        return name[:-2] + "a"
    return name


def _too_long(name: str, limit: int, unit: str) -> list[str]:
    length = len(name) if name.isascii() else len(name.encode())
    return [f"must be no more than {limit} {unit}"] if length > limit else []


def _mismatch(message: str, pattern: str, *examples: str) -> str:
    return f"{message} (e.g. {_quoted(examples)}, regex used for validation is '{pattern}')"


def _quoted(examples: Iterable[str]) -> str:
    return ",  or ".join(f"'{example}'" for example in examples)


def _climbs_up(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"must not be '{name}'"]
    return ["must not start with '..'"] if name.startswith("..") else []
