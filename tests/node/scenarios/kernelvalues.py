"""What cgroup files must hold for a pod, computed from its document by the formulas of the specification (4.10) and by
nothing of the product."""

from math import ceil, log2

from kohort.objects.pods import Container, Pod, ResourceRequirements

PERIOD = 100_000
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def amount(text: str | int | float, name: str) -> int:
    """Thousandths of a cpu, or bytes."""
    written = str(text)
    if name == "cpu":
        return int(written[:-1]) if written.endswith("m") else int(written) * 1000
    return int(written[:-2]) * UNITS[written[-2:]] if written[-2:] in UNITS else int(written)


def weight(milli: int) -> int:
    shares = 2 if milli == 0 else min(max(milli * 1024 // 1000, 2), 262144)
    if shares <= 2:
        return 1
    if shares >= 262144:
        return 10000
    power = log2(shares)
    return ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def quota(milli: int | None) -> str:
    return f"{max(milli * PERIOD // 1000, 1000)} {PERIOD}" if milli else f"max {PERIOD}"


def expected_files(pod: Pod) -> dict[str, str]:
    """Content by `place/file`, as the tree of a test is read."""
    found = _files(
        f"pod{pod.metadata.uid}", _whole(pod, "requests", "cpu") or 0, _limit(pod, "cpu"), _limit(pod, "memory")
    )
    for each in pod.spec.all_containers:
        cpu, memory = _felt(pod, each, "cpu"), _felt(pod, each, "memory")
        asked = each.resources.requests.get("cpu")
        found |= _files(each.name, amount(asked, "cpu") if asked is not None else cpu or 0, cpu, memory)
    return found


def _files(place: str, milli: int, cpu: int | None, memory: int | None) -> dict[str, str]:
    return {
        f"{place}/cpu.weight": str(weight(milli)),
        f"{place}/cpu.max": quota(cpu),
        f"{place}/memory.max": str(memory) if memory else "max",
        f"{place}/memory.high": "max",
    }


def _felt(pod: Pod, container: Container, name: str) -> int | None:
    for block in (container.resources, pod.spec.resources or ResourceRequirements()):
        if name in block.limits:
            return amount(block.limits[name], name)
    return None


def _whole(pod: Pod, side: str, name: str) -> int | None:
    """The pod's own figure, else the most that its containers need at any moment."""
    own = getattr(pod.spec.resources, side, {}) if pod.spec.resources is not None else {}
    if name in own:
        return amount(own[name], name)

    def of(container: Container) -> int:
        written = getattr(container.resources, side).get(name)
        return 0 if written is None else amount(written, name)

    sidecars, start = 0, 0
    for each in pod.spec.init_containers:
        if each.sidecar:
            sidecars += of(each)
        start = max(start, sidecars if each.sidecar else sidecars + of(each))
    return max(sum(map(of, pod.spec.main_containers)) + sidecars, start)


def _limit(pod: Pod, name: str) -> int | None:
    own = pod.spec.resources.limits if pod.spec.resources is not None else {}
    declared = name in own or all(name in each.resources.limits for each in pod.spec.all_containers)
    return _whole(pod, "limits", name) if declared else None
