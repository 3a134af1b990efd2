"""String formats that CRD schemas may ask for. An unknown format is not checked."""

import binascii
import re
import unicodedata
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Final

from kohort.objects import names

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

Check = Callable[[str], bool]

_UUID: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{%d}-?%s[0-9a-f]{%d}-?[0-9a-f]{12}"
_CLOCK: Final = re.compile(r"(?i)([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII)
_GO_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WORDED_DURATION: Final = re.compile(r"\d+\s*([A-Za-zµ]+)")
_DURATION_UNITS: Final = frozenset(
    (
        "ns",
        "nano",
        "us",
        "µs",
        "micro",
        "ms",
        "milli",
        "s",
        "sec",
        "m",
        "min",
        "h",
        "hr",
        "hour",
        "d",
        "day",
        "w",
        "wk",
        "week",
    )
)
_DURATION_STEMS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_TOP_LEVEL: Final = re.compile(r"[^\W\d_]{2,63}")
_SSN: Final = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}", re.ASCII)
_CARD: Final = re.compile(
    r"4\d{12}(\d{3})?|(5[1-5]\d{4}|222[1-9]\d\d|22[3-9]\d{3}|2[3-6]\d{4}|27[01]\d{3}|2720\d\d)\d{10}|6(?:011|5\d\d)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}|6[27]\d{14}",
    re.ASCII,
)
_RGB: Final = re.compile(
    r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
    r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)",
    re.ASCII,
)
_MAC: Final = re.compile(
    r"([0-9a-fA-F]{2})([:-])(?:[0-9a-fA-F]{2}\2){4}(?:[0-9a-fA-F]{2}\2){0,2}[0-9a-fA-F]{2}"
    r"|(?:[0-9a-fA-F]{2}([:-])){19}[0-9a-fA-F]{2}"
    r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2,3}"
    r"|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){9}"
    r"|[0-9a-fA-F]{12}|[0-9a-fA-F]{16}|[0-9a-fA-F]{40}"
)
_URI_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def check_for(name: str) -> Check | None:
    """The check of a format; None when the format is not known. Hyphens in names do not matter."""
    return _CHECKS.get(name.replace("-", ""))


def _matches(pattern: str) -> Check:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    day, separator, clock = text[:10], text[10:11], text[11:]
    return separator in ("T", "t") and _date(day) and _CLOCK.fullmatch(clock) is not None


def _duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [match.group(1).lower() for match in _WORDED_DURATION.finditer(text)]
    return any(unit in _DURATION_UNITS or unit.startswith(_DURATION_STEMS) for unit in units)


def _ip(text: str) -> "IPv4Address | IPv6Address | None":
    """Leading zeros in a part of an IPv4 address are read over, zones are not addresses."""
    import ipaddress

    if "%" in text:
        return None
    if re.fullmatch(r"\d+(\.\d+){3}", text, re.ASCII):
        text = ".".join(str(int(part)) for part in text.split("."))
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _ipv4(text: str) -> bool:
    address = _ip(text)
    return address is not None and (address.version == 4 or address.ipv4_mapped is not None)


def _ipv6(text: str) -> bool:
    return ":" in text and _ip(text) is not None


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    parsed = _ip(address)
    if not slash or parsed is None or not re.fullmatch(r"\d{1,3}", bits, re.ASCII):
        return False
    return int(bits) <= parsed.max_prefixlen


def _uri(text: str) -> bool:
    """What Go accepts in a request line: an absolute path or an absolute URI."""
    if not text or re.search(r"[\x00-\x20\x7f]", text):
        return False
    scheme = _URI_SCHEME.match(text)
    if scheme is None and not text.startswith("/"):
        return False
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("/"):
        return True  # opaque, like mailto:a@b.c
    if re.search(r"%(?![0-9a-fA-F]{2})", rest):
        return False
    host = rest[2:].split("/")[0] if rest.startswith("//") else ""
    return host.count("[") == host.count("]") and not re.search(r"[<>\"{}|\\^`]", host)


def _hostname(text: str) -> bool:
    if not text or len(text.encode()) > 255:
        return False
    labels = text.split(".")
    if any(not 0 < len(label.encode()) <= 63 or not _host_label(label) for label in labels):
        return False
    if len(labels) == 1:
        return text.count("-") <= 1 and (text.count("-") == 0 or text[1] == "-")
    return _TOP_LEVEL.fullmatch(labels[-1]) is not None


def _host_label(label: str) -> bool:
    """Letters, digits, symbols such as emoji, and hyphens inside."""
    inside = all(character == "-" or unicodedata.category(character)[0] in "LNS" for character in label)
    return inside and not label.startswith("-") and not label.endswith("-")


def _email(text: str) -> bool:
    from email.utils import parseaddr  # slow to import, and hardly ever needed

    _, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    if not (at and local and domain) or "\n" in text or (text.strip() != address and not text.endswith(">")):
        return False
    return local.startswith('"') or not re.search(r"[@:;,<>()\[\]]", local)


def _base64(text: str) -> bool:
    if not text:
        return False
    try:
        binascii.a2b_base64(text.encode("ascii", "replace"), strict_mode=True)
    except ValueError:
        return False
    return "\n" not in text


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    weights = (10 if digit == "X" else int(digit) for digit in digits)
    return sum((index + 1) * weight for index, weight in enumerate(weights)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _ssn(text: str) -> bool:
    return len(text) == 11 and _SSN.fullmatch(text) is not None


_CHECKS: Final[dict[str, Check]] = {
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "uri": _uri,
    "hostname": _hostname,
    "email": _email,
    "uuid": _matches(_UUID % ("", 4, "", 4)),
    "uuid3": _matches(_UUID % ("3", 3, "", 4)),
    "uuid4": _matches(_UUID % ("4", 3, "[89ab]", 3)),
    "uuid5": _matches(_UUID % ("5", 3, "[89ab]", 3)),
    "byte": _base64,
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _ssn,
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": lambda text: _RGB.fullmatch(text) is not None,
    "k8sshortname": lambda text: not names.dns1123_label(text),
    "k8slongname": lambda text: not names.dns1123_subdomain(text),
}
