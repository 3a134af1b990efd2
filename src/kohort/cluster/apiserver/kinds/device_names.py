"""How pools, attributes and shares of devices are named, and checks that rules for claims and for slices share."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.volume_sources import check_driver_name
from kohort.cluster.apiserver.schema.field_checks import Errors, dns_subdomain, qualified, repeats
from kohort.objects.field_errors import duplicate, invalid, required, too_long, too_many
from kohort.objects.json_types import Json, JsonObject

_POOL: Final = 253
_IDENTIFIER_LENGTH: Final = 32
_RAW: Final = 10 * 1024
_CONDITIONS: Final = 4
_is_identifier = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII).fullmatch
_is_uuid = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_BAD_IDENTIFIER: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)


def check_pool_name(errors: Errors, path: str, name: str | None) -> None:
    if not name:
        errors.append(required(path))
        return
    if len(name) > _POOL:
        errors.append(too_long(path, _POOL))
    for part in name.split("/"):
        dns_subdomain(errors, path, part)


def check_attribute_name(errors: Errors, path: str, name: str) -> None:
    """`name` or `domain/name`; of anything with more slashes nothing is said."""
    parts = name.split("/")
    if len(parts) == 1:
        _check_identifier(errors, path, name)
    elif len(parts) == 2:
        domain, local = parts
        if domain:
            check_driver_name(errors, path, domain)
        else:
            errors.append(invalid(path, "", "the domain must not be empty"))
        if local:
            _check_identifier(errors, path, local)
        else:
            errors.append(invalid(path, "", "the name must not be empty"))


def check_fully_qualified(errors: Errors, path: str, name: str) -> None:
    check_attribute_name(errors, path, name)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, detail))


def _check_identifier(errors: Errors, path: str, name: str) -> None:
    if len(name) > _IDENTIFIER_LENGTH:
        errors.append(too_long(path, _IDENTIFIER_LENGTH))
    if not _is_identifier(name):
        errors.append(invalid(path, name, _BAD_IDENTIFIER))


def check_share(errors: Errors, path: str, text: str) -> None:
    if not _is_uuid(text):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        errors.append(invalid(path, text, detail))


def check_raw(errors: Errors, path: str, value: Json) -> None:
    """What only a driver understands must be an object of a limited size."""
    if value is None:
        errors.append(required(path))
    elif len(msgspec.json.encode(value)) > _RAW:
        errors.append(too_long(path, _RAW))
    elif not isinstance(value, dict):
        errors.append(invalid(path, "<value omitted>", "must be a valid JSON object"))


def check_label_names(errors: Errors, path: str, device: JsonObject) -> None:
    """The conditions that a device is waited for with: either both lists or none, and nothing twice."""
    wanted, failed = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    for field, found in (("bindingConditions", wanted), ("bindingFailureConditions", failed)):
        here = f"{path}.{field}"
        if len(found) > _CONDITIONS:
            errors.append(too_many(here, len(found), _CONDITIONS))
        else:
            for index, name in enumerate(found):
                qualified(errors, f"{here}[{index}]", name)
        errors += [duplicate(f"{here}[{index}]", found[index]) for index, again in enumerate(repeats(found)) if again]
    for index, name in enumerate(failed):
        if name in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(f"{path}.bindingFailureConditions[{index}]", name, detail))
    if failed and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(f"{path}.bindingConditions", wanted or None, detail))
    if wanted and not failed:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(f"{path}.bindingFailureConditions", failed or None, detail))


def fits(errors: Errors, path: str, found: Sequence[Json], limit: int) -> bool:
    """Of a list that is too long, nothing else is said."""
    if len(found) > limit:
        errors.append(too_many(path, len(found), limit))
    return len(found) <= limit


def check_unique(errors: Errors, path: str, keys: Sequence[Json]) -> None:
    errors += [duplicate(f"{path}[{index}]", keys[index]) for index, again in enumerate(repeats(keys)) if again]
