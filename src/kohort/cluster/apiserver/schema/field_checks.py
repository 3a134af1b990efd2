"""Small checks that many kinds share. Each appends to a list what is wrong at a path.

Validation runs on every write, so the common case must cost next to nothing: a check is one call, builds no path and no
message unless it fails, and allocates no list of its own.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from kohort.objects import names
from kohort.objects.bounded_cache import LONGEST, remember_short
from kohort.objects.field_errors import FieldError, duplicate, invalid, not_supported, required
from kohort.objects.json_types import Json, JsonObject, hashable
from kohort.objects.quantity import Quantity

Errors = list[FieldError]

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"
WHOLE_OBJECT: Final = "[]"
"""How Kubernetes writes the path of the whole object."""
MAX_INT32: Final = 2**31 - 1


def problems_of(rule: Callable[..., list[str]], value: str) -> tuple[str, ...]:
    """What a name rule says about a value. The same names come by all day long; long ones are not kept."""
    return _kept_problems(rule, value) if len(value) <= LONGEST else tuple(rule(value))


@lru_cache(maxsize=16384)
def _kept_problems(rule: Callable[..., list[str]], value: str) -> tuple[str, ...]:
    return tuple(rule(value))


def repeats(items: Iterable[Json]) -> list[bool]:
    """For each item, whether an equal one came before."""
    seen: set[Hashable] = set()
    found = []
    for item in items:
        key = hashable(item)
        found.append(key in seen)
        seen.add(key)
    return found


def named(errors: Errors, path: str, value: str, rule: Callable[..., list[str]], *, prefix: bool = False) -> None:
    """`value` must be a name by `rule`."""
    problems = rule(value, prefix=True) if prefix else problems_of(rule, value)
    if problems:
        errors += [invalid(path, value, problem) for problem in problems]


def labels(errors: Errors, path: str, found: Mapping[str, str] | None) -> None:
    """A map of labels; all errors stand at the map."""
    for key, value in (found or {}).items():
        for name, rule in ((key, names.qualified_name), (value, names.label_value)):
            if problems_of(rule, name):
                named(errors, path, name, rule)


def dns_label(errors: Errors, path: str, value: str) -> None:
    named(errors, path, value, names.dns1123_label)


def dns_subdomain(errors: Errors, path: str, value: str) -> None:
    named(errors, path, value, names.dns1123_subdomain)


def qualified(errors: Errors, path: str, value: str) -> None:
    named(errors, path, value, names.qualified_name)


_PATH: Final = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
_is_path = re.compile(_PATH, re.ASCII).fullmatch


def domain_prefixed_path(errors: Errors, path: str, value: str) -> None:
    """Like `example.com/controller`."""
    if not value:
        errors.append(required(path))
        return
    host, slash, rest = value.partition("/")
    if not slash or not host or not rest:
        errors.append(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    named(errors, path, host, names.dns1123_subdomain)
    if not _is_path(rest):
        errors.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')"))


def nonnegative(errors: Errors, path: str, value: int | None) -> None:
    if value is not None and value < 0:
        errors.append(invalid(path, value, NEGATIVE))


def choice(errors: Errors, path: str, value: str | None, allowed: Collection[str]) -> None:
    """An enumeration that must be set."""
    if value in allowed:
        return
    errors.append(not_supported(path, value or "", allowed) if value else required(path))


def supported(errors: Errors, path: str, value: str | None, allowed: Collection[str]) -> None:
    """An enumeration whose absence is reported like any other unsupported value."""
    if value not in allowed:
        errors.append(not_supported(path, value or "", allowed))


def immutable(errors: Errors, path: str, new: Json, old: Json) -> None:
    if not same(new, old):
        errors.append(invalid(path, new, IMMUTABLE))


_AMOUNTS: Final = frozenset(("requests", "limits", "overhead", "capacity", "hard"))
"""Fields that hold quantities by name, equal when the amounts are."""


def same(new: Json, old: Json) -> bool:
    """Equal as Kubernetes compares: an empty list or map is the same as none, amounts may be written differently."""
    if new == old:
        return True
    if not new and not old:
        return _empty(new) and _empty(old)
    if isinstance(new, dict) and isinstance(old, dict):
        return all(_same_entry(key, new.get(key), old.get(key)) for key in {*new, *old})
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return False


_MAPS: Final = _AMOUNTS | {
    "allocatable",
    "allocatedResources",
    "annotations",
    "binaryData",
    "data",
    "default",
    "defaultRequest",
    "extra",
    "labels",
    "matchLabels",
    "max",
    "maxLimitRequestRatio",
    "min",
    "nodeSelector",
    "options",
    "parameters",
    "podFixed",
    "used",
    "volumeAttributes",
}
"""Fields that hold maps. Of others that hold `{}`, a structure, it matters whether they are there at all."""


def _same_entry(key: str, new: Json, old: Json) -> bool:
    if key not in _MAPS and (new is None or old is None) and (new == {} or old == {}):
        return False
    if key in _AMOUNTS and _all_texts(new) and _all_texts(old):
        return same_amounts(new, old)
    if key == "sizeLimit" and new and old:
        return quantity(new) == quantity(old)
    return same(new, old)


def _all_texts(found: Json) -> bool:
    """The capacity of a device is a structure for each name, and requests of other kinds are lists."""
    return isinstance(found, dict) and not any(isinstance(value, dict) for value in found.values())


def same_amounts(new: JsonObject | None, old: JsonObject | None) -> bool:
    new, old = new or {}, old or {}
    return new.keys() == old.keys() and all(
        text == old[name] or quantity(text) == quantity(old[name]) for name, text in new.items()
    )


def _empty(value: Json) -> bool:
    return value is None or isinstance(value, list | dict)


def quantity(text: Json) -> Quantity:
    """A quantity that decoding has already accepted."""
    return Quantity.parse(text)


# --- addresses

_DOTTED = re.compile(r"\d{1,}(\.\d{1,}){3}", re.ASCII).fullmatch
_USUAL = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!\Z)|\Z)){4}", re.ASCII).fullmatch
"""IPv4 as nearly all addresses are written: then nothing needs to be parsed."""
_BAD_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_NETWORK: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@remember_short(4096)
def parse_address(text: str) -> Address | None:
    """An address, leading zeros in IPv4 octets forgiven; zones are not. A status names each of its addresses twice."""
    if "%" in text:
        return None
    if _DOTTED(text):
        text = ".".join(str(int(octet)) for octet in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def ip_address(errors: Errors, path: str, text: str, accepted: Iterable[str] = ()) -> None:
    """`accepted` are values of the stored object, which stay valid whatever they are."""
    if text in accepted:
        return
    problem = address_problem(text)
    if problem:
        errors.append(invalid(path, text, problem))


def address_problem(text: str) -> str:
    """What keeps a text from being an address in its usual form."""
    if _USUAL(text):
        return ""
    address = parse_address(text)
    if address is None:
        return _BAD_ADDRESS
    if _DOTTED(text) and str(address) != text:
        return "must not have leading 0s"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return ""


def cidr(errors: Errors, path: str, text: str, accepted: Iterable[str] = ()) -> None:
    if text in accepted:
        return
    head, slash, length = text.partition("/")
    address = parse_address(head)
    digits = length.isascii() and length.isdigit()
    if not slash or address is None or not digits or int(length) > address.max_prefixlen:
        errors.append(invalid(path, text, _BAD_NETWORK))
    elif (_DOTTED(head) and str(address) != head) or str(int(length)) != length:
        errors.append(invalid(path, text, "must not have leading 0s in IP or prefix length"))
    elif isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        errors.append(invalid(path, text, "must not have an IPv4-mapped IPv6 address"))
    elif ipaddress.ip_network(f"{address}/{length}", strict=False).network_address != address:
        errors.append(invalid(path, text, "must not have bits set beyond the prefix length"))


def address_warnings(path: str, text: str) -> list[str]:
    """What is unusual about the way in which an address is written."""
    address = parse_address(text)
    if address is None:
        return []
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None or (_DOTTED(text) and str(address) != text):
        return [f'{path}: non-standard IP address "{text}" is invalid: use "{mapped or address}"']
    if str(address) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']
    return []


def network_warnings(path: str, text: str) -> list[str]:
    head, _, length = text.partition("/")
    address = parse_address(head)
    if address is None or not length.isdecimal() or int(length) > address.max_prefixlen:
        return []
    network = ipaddress.ip_network(f"{address}/{int(length)}", strict=False)
    found: list[str] = []
    if network.network_address != address:
        single = f"{address}/{address.max_prefixlen}"
        problem = f'is ambiguous in this context (should be "{network}" or "{single}"?)'
        found.append(f'{path}: CIDR value "{text}" {problem}')
    if (_DOTTED(head) and str(address) != head) or str(int(length)) != length:
        found.append(f'{path}: non-standard CIDR value "{text}" is invalid: use "{network}"')
    if not found and address.version == 6 and f"{address}/{int(length)}" != text:
        found.append(f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")')
    return found


def endpoint_address(errors: Errors, path: str, text: str) -> None:
    """Addresses that traffic may be sent to."""
    for problem in _unreachable(text):
        errors.append(invalid(path, text, problem))


def is_reachable(text: str) -> bool:
    """Whether a text is an address in its usual form that traffic may be sent to."""
    return not _unreachable(text) and not address_problem(text)


@remember_short(16384)
def _unreachable(text: str) -> tuple[str, ...]:
    """What keeps traffic from being sent to an address. The addresses of a large Service are all written again when
    one of them changes."""
    address = parse_address(text)
    if address is None:
        return ("must be a valid IP address",)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    found: list[str] = []
    if address.is_unspecified:
        found.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        found.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        found.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address in _LINK_LOCAL_MULTICAST_4 or address in _LINK_LOCAL_MULTICAST_6:
        found.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return tuple(found)


_LINK_LOCAL_MULTICAST_4: Final = ipaddress.IPv4Network("224.0.0.0/24")
_LINK_LOCAL_MULTICAST_6: Final = ipaddress.IPv6Network("ff02::/16")


def dual_stack(addresses: Sequence[str]) -> bool:
    """One address of each family."""
    versions = {address.version for text in addresses if (address := parse_address(text)) is not None}
    return len(versions) == 2


# --- paths inside a volume or on a host


def no_backsteps(errors: Errors, path: str, target: str) -> None:
    if ".." in target and ".." in target.split("/"):
        errors.append(invalid(path, target, "must not contain '..'"))


def descending_path(errors: Errors, path: str, target: str) -> None:
    if target.startswith("/"):
        errors.append(invalid(path, target, "must be a relative path"))
    no_backsteps(errors, path, target)


def local_path(errors: Errors, path: str, target: str) -> None:
    """A path below a volume that does not collide with the names the node uses itself."""
    descending_path(errors, path, target)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))


# --- ports


def port_number(errors: Errors, path: str, port: int) -> None:
    if not 1 <= port <= 65535:
        errors.append(invalid(path, port, names.in_range(1, 65535)))


def port_or_name(errors: Errors, path: str, port: int | str | None) -> None:
    if isinstance(port, str):
        named(errors, path, port, names.port_name)
    else:
        port_number(errors, path, port or 0)


PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


# --- conditions in the shape that newer kinds share

_is_reason = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?").fullmatch


def conditions(errors: Errors, path: str, found: Sequence[JsonObject] | None) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(found or ()):
        here = f"{path}[{index}]"
        kind = condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(f"{here}.type", kind))
        seen.add(kind)
        qualified(errors, f"{here}.type", kind)
        supported(errors, f"{here}.status", condition.get("status"), ("False", "True", "Unknown"))
        if (condition.get("observedGeneration") or 0) < 0:
            detail = "must be greater than or equal to zero"
            errors.append(invalid(f"{here}.observedGeneration", condition["observedGeneration"], detail))
        if not condition.get("lastTransitionTime"):
            errors.append(required(f"{here}.lastTransitionTime"))
        reason = condition.get("reason") or ""
        if not reason:
            errors.append(required(f"{here}.reason"))
        elif not _is_reason(reason):
            errors.append(invalid(f"{here}.reason", reason, _BAD_REASON))


_BAD_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
