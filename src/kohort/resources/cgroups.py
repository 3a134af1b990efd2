"""From quantities to the numbers in cgroup v2 files, and back.

CPU time is shared by weight. Kubernetes counts in cgroup v1 shares (1024 per core) and converts to weight (1 to
10000) in two ways: a straight line, which squeezes small requests into very few values, and a curve through (2, 1),
(1024, 100), (262144, 10000), which newer runtimes use. Mixing them in one hierarchy skews the shares between its
levels, so one formula serves pods and containers here; the curve is the default.

| m      | shares | line  | curve | line read back | quota of 100 ms |
|-------:|-------:|------:|------:|---------------:|----------------:|
|      0 |      2 |     1 |     1 |              2 | -               |
|      5 |      5 |     1 |     2 |              2 | 1000            |
|     50 |     51 |     2 |    11 |             28 | 5000            |
|    100 |    102 |     4 |    17 |             79 | 10000           |
|   1000 |   1024 |    39 |   100 |            975 | 100000          |
|   2000 |   2048 |    79 |   174 |           1999 | 200000          |
| 256000 | 262144 | 10000 | 10000 |         256000 | 25600000        |
"""

import math
import re
from typing import Final, Literal

import msgspec

from kohort.objects.pods import Container, Pod, PodSpec
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import CPU, HUGE_PAGES_PREFIX, MEMORY, Amounts
from kohort.resources.effective import (
    SPEC,
    container_limit,
    limit_declared,
    limits,
    limits_of,
    pod_level_set,
    requests,
    requests_of,
)
from kohort.resources.qos import BURSTABLE, GUARANTEED, QosClass, stored_qos_class

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
MIN_QUOTA: Final = 1000
DEFAULT_PERIOD: Final = 100_000
PAGE: Final = 4096
LARGEST_MILLI: Final = 10**10
"""Ten million cores. A kernel takes less than 2**44 microseconds of quota, which this is in the longest period."""
LARGEST_BYTES: Final = (2**63 - 1) // PAGE * PAGE - PAGE
"""What is more by a page reads as `max`, and what does not fit 64 bits is taken for something else."""

Formula = Literal["curve", "line"]


class Settings(msgspec.Struct, frozen=True):
    """How a node turns figures into cgroups."""

    formula: Formula = "curve"
    cpu_period: int = DEFAULT_PERIOD
    cpu_quota: bool = True
    """False: weights only, no container is throttled."""
    protect_memory: bool = False
    """Reserve requested memory with memory.min and memory.low."""
    throttling_factor: float | None = None
    """Where between request and limit `memory.high` begins to slow a container down; None never."""
    node_allocatable_memory: int = 0
    single_process_oom_kill: bool = False
    """When memory runs out, the kernel kills one process of a container instead of all of them."""


DEFAULT_SETTINGS: Final = Settings()


class CgroupValues(msgspec.Struct, frozen=True):
    """What the files of one cgroup should hold; None is the file's word `max`."""

    cpu_weight: int = 1
    cpu_quota: int | None = None
    cpu_period: int = DEFAULT_PERIOD
    memory_max: int | None = None
    memory_high: int | None = None
    memory_min: int = 0
    memory_low: int = 0
    hugetlb_max: dict[str, int] = {}
    """By resource name: `hugepages-2Mi`."""

    def files(self) -> dict[str, str]:
        """File name to content. Memory protection appears only when set, so that a kernel without it is never asked."""
        content = {
            "cpu.weight": str(self.cpu_weight),
            "cpu.max": cpu_max(self.cpu_quota, self.cpu_period),
            "memory.max": _or_max(self.memory_max),
            "memory.high": _or_max(self.memory_high),
            "memory.min": str(self.memory_min),
            "memory.low": str(self.memory_low),
        }
        return content | {hugetlb_file(name): str(size) for name, size in self.hugetlb_max.items()}


def pod_cgroup(pod: Pod, settings: Settings = DEFAULT_SETTINGS, huge_page_sizes: tuple[str, ...] = ()) -> CgroupValues:
    """The cgroup above the containers of an *allocated* pod; `huge_page_sizes` are the resource names that the node
    has."""
    quality = stored_qos_class(pod)
    asked, allowed = requests(pod, SPEC), limits(pod, SPEC)
    memory_max = _bytes(allowed, MEMORY) if _limited(pod.spec, quality, MEMORY) else None
    request = _bytes(asked, MEMORY) or 0
    high = None
    if pod_level_set(pod.spec) and memory_max is not None and request != memory_max:
        high = memory_high(request, memory_max, settings)
    return CgroupValues(
        cpu_weight=cpu_weight(_milli(asked, CPU) or 0, settings.formula),
        cpu_quota=_quota(_milli(allowed, CPU) if _limited(pod.spec, quality, CPU) else None, settings),
        cpu_period=settings.cpu_period,
        memory_max=memory_max,
        memory_high=high,
        memory_min=request if settings.protect_memory and quality == GUARANTEED else 0,
        memory_low=request if settings.protect_memory and quality == BURSTABLE else 0,
        hugetlb_max={name: _bytes(asked, name) or 0 for name in huge_page_sizes},
    )


def container_cgroup(
    pod: Pod, container: Container, settings: Settings = DEFAULT_SETTINGS, huge_page_sizes: tuple[str, ...] = ()
) -> CgroupValues:
    """The cgroup of one container of an *allocated* pod; the same rule at its start and at every later resize."""
    quality = stored_qos_class(pod)
    cpu_limit = container_limit(pod.spec, container, CPU)
    memory_limit = container_limit(pod.spec, container, MEMORY)
    cpu_request = requests_of(container).get(CPU, cpu_limit)
    request = _bytes(requests_of(container), MEMORY) or 0
    return CgroupValues(
        cpu_weight=cpu_weight(0 if cpu_request is None else cpu_request.milli, settings.formula),
        cpu_quota=_quota(None if cpu_limit is None else cpu_limit.milli, settings),
        cpu_period=settings.cpu_period,
        memory_max=min(memory_limit.value, LARGEST_BYTES) if memory_limit else None,
        memory_high=_container_memory_high(pod.spec, container, request, settings),
        memory_min=request if settings.protect_memory and quality == GUARANTEED else 0,
        memory_low=request if settings.protect_memory and quality == BURSTABLE else 0,
        hugetlb_max={name: _inherited_bytes(pod.spec, container, name) for name in huge_page_sizes},
    )


def container_memory_files(settings: Settings = DEFAULT_SETTINGS) -> dict[str, str]:
    """What every container's cgroup holds, whatever its figures: it is killed as a whole when memory runs out, so that
    its end is seen and its restart policy applies, and it does not swap.

    >>> container_memory_files()
    {'memory.oom.group': '1', 'memory.swap.max': '0'}
    """
    return {"memory.oom.group": "0" if settings.single_process_oom_kill else "1", "memory.swap.max": "0"}


def cpu_shares(milli: int) -> int:
    return MIN_SHARES if milli <= 0 else min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def cpu_weight(milli: int, formula: Formula = "curve") -> int:
    shares = cpu_shares(milli)
    return weight_on_line(shares) if formula == "line" else weight_on_curve(shares)


def weight_on_line(shares: int) -> int:
    return 10000 if shares >= MAX_SHARES else 1 + (max(shares, MIN_SHARES) - 2) * 9999 // 262142


def weight_on_curve(shares: int) -> int:
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def shares_from_weight(weight: int, formula: Formula = "curve") -> int:
    """The shares that a weight stands for; many shares have the same weight, so this is one of them."""
    if formula == "line":
        return (weight - 1) * 262142 // 9999 + 2
    height = 612 * (math.log10(max(weight, 1)) + 7 / 34)
    return round(2 ** ((math.sqrt(125 * 125 + 4 * height) - 125) / 2))


def milli_from_shares(shares: int) -> int:
    return 0 if shares < MIN_SHARES else -(-shares * 1000 // 1024)


def milli_from_weight(weight: int, formula: Formula = "curve") -> int:
    return milli_from_shares(shares_from_weight(weight, formula))


def cpu_quota(milli: int, period: int = DEFAULT_PERIOD) -> int | None:
    """Microseconds per period; None if there is no limit. Limits below 10m are raised to the least the kernel takes,
    and those beyond any machine are lowered to what it takes at all.

    >>> cpu_quota(5), cpu_quota(1000), cpu_quota(10**33) == cpu_quota(LARGEST_MILLI)
    (1000, 100000, True)
    """
    return None if milli <= 0 else max(min(milli, LARGEST_MILLI) * period // 1000, MIN_QUOTA)


def milli_from_quota(quota: int, period: int) -> int:
    return quota * 1000 // period


def cpu_max(quota: int | None, period: int = DEFAULT_PERIOD) -> str:
    """Content of `cpu.max`.

    >>> cpu_max(cpu_quota(250)), cpu_max(None)
    ('25000 100000', 'max 100000')
    """
    return f"{_or_max(quota)} {period}"


def memory_high(request: int, limit: int | None, settings: Settings) -> int | None:
    """Where slowing down begins, in whole pages; None if it should not.

    >>> memory_high(100 << 20, 200 << 20, Settings(throttling_factor=0.9))
    199229440
    """
    if settings.throttling_factor is None:
        return None
    ceiling = settings.node_allocatable_memory if limit is None else limit
    high = int(request + settings.throttling_factor * (ceiling - request)) // PAGE * PAGE
    return high if high > request else None


def hugetlb_file(name: str) -> str:
    """The file that limits a huge page size.

    >>> hugetlb_file("hugepages-2Mi"), hugetlb_file("hugepages-1Gi"), hugetlb_file("hugepages-64Ki")
    ('hugetlb.2MB.max', 'hugetlb.1GB.max', 'hugetlb.64KB.max')
    """
    size = re.sub("i$", "", name.removeprefix(HUGE_PAGES_PREFIX))
    return f"hugetlb.{size.upper()}B.max"


def tier_weight(pods_milli: int, formula: Formula = "curve") -> int:
    """Weight of the cgroup above all Burstable pods, from the sum of their allocated cpu requests."""
    return cpu_weight(pods_milli, formula)


def _limited(spec: PodSpec, quality: QosClass, name: str) -> bool:
    return quality == GUARANTEED or limit_declared(spec, name)


def _container_memory_high(spec: PodSpec, container: Container, request: int, settings: Settings) -> int | None:
    own = _bytes(limits_of(container), MEMORY)
    if own is None and container_limit(spec, container, MEMORY) is not None:
        return None  # the pod's limit governs it, and so does the pod's memory.high
    if request and request == own:
        return None
    return memory_high(request, own, settings)


def _inherited_bytes(spec: PodSpec, container: Container, name: str) -> int:
    limit = container_limit(spec, container, name)
    return 0 if limit is None else min(limit.value, LARGEST_BYTES)


def _quota(milli: int | None, settings: Settings) -> int | None:
    return cpu_quota(milli, settings.cpu_period) if milli is not None and settings.cpu_quota else None


def _milli(amounts: Amounts, name: str) -> int | None:
    amount = amounts.get(name)
    return None if amount is None else amount.milli


def _bytes(amounts: Amounts, name: str) -> int | None:
    """Whole bytes, as many as a kernel can count; a limit of zero is no limit."""
    amount: Quantity | None = amounts.get(name)
    return min(amount.value, LARGEST_BYTES) if amount else None


def _or_max(value: int | None) -> str:
    return "max" if value is None else str(value)
