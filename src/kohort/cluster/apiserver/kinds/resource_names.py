"""Names of resources (`cpu`, `hugepages-2Mi`, `example.com/gpu`) and what may be said about each of them.

Verdicts are cached: a cluster uses a few dozen names, and every container of every pod is checked for each.
"""

from typing import Final

from kohort.objects.bounded_cache import remember_short
from kohort.objects.field_errors import FieldError, invalid, not_supported
from kohort.objects.names import qualified_name
from kohort.objects.quantity import Quantity
from kohort.rules.extended_resources import is_extended, is_native

HUGE_PAGES: Final = "hugepages-"
QUOTA_HUGE_PAGES: Final = "requests.hugepages-"

_COUNTED: Final = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_QUOTA: Final = _COUNTED | frozenset(
    (
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    )
)
_STANDARD: Final = _QUOTA | {"storage"}
_CONTAINER: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
POD_LEVEL: Final = ("cpu", "hugepages-", "memory")
"""What pod-level resources may name; the middle one is a prefix."""


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def can_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


@remember_short(1024)
def is_counted(name: str) -> bool:
    """Comes in whole pieces only."""
    return name in _COUNTED or is_extended(name)


def is_quota(name: str) -> bool:
    return name in _QUOTA or name.startswith((HUGE_PAGES, QUOTA_HUGE_PAGES))


def is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or is_huge_pages(name)


@remember_short(1024)
def _general_problems(name: str) -> tuple[str, ...]:
    wrong = qualified_name(name)
    if wrong:
        return tuple(wrong)
    if "/" not in name and name not in _STANDARD and not name.startswith((HUGE_PAGES, QUOTA_HUGE_PAGES)):
        return ("must be a standard resource type or fully qualified",)
    return ()


@remember_short(1024)
def _container_problems(name: str) -> tuple[str, ...]:
    wrong = _general_problems(name)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_pages(name):
            return (*wrong, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*wrong, "doesn't follow extended resource name standard")
    return wrong


def check_general(errors: list[FieldError], path: str, name: str) -> None:
    errors += [invalid(path, name, problem) for problem in _general_problems(name)]


def check_container(errors: list[FieldError], path: str, name: str) -> None:
    errors += [invalid(path, name, problem) for problem in _container_problems(name)]


def check_pod_level(errors: list[FieldError], path: str, name: str) -> None:
    wrong = _general_problems(name)
    if wrong:
        errors += [invalid(path, name, problem) for problem in wrong]
    elif not is_pod_level(name):
        errors.append(not_supported(path, name, POD_LEVEL))


def check_quota(errors: list[FieldError], path: str, name: str) -> None:
    check_general(errors, path, name)
    if "/" not in name and not is_quota(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))


def check_amount(errors: list[FieldError], path: str, name: str, amount: Quantity) -> None:
    if amount.nano < 0:
        errors.append(invalid(path, str(amount), "must be greater than or equal to 0"))
    if is_counted(name) and amount.milli % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))


@remember_short(64)
def page_size(name: str) -> Quantity | None:
    """The page size in a huge page name, None if it does not parse."""
    try:
        return Quantity.parse(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return None


def is_whole_pages(name: str, amount: Quantity) -> bool:
    size = page_size(name)
    return size is not None and size.value > 0 and amount.value % size.value == 0
