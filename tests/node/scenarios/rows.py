"""The rows of the specification's checklist (section 8) as data: what a pod is before and after, and who restarts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.node.resizing import sized

from kohort.objects.node_pods import NodePod

NEVER = {"cpu": "NotRequired", "memory": "NotRequired"}
CPU = {"cpu": "RestartContainer", "memory": "NotRequired"}
MEMORY = {"cpu": "NotRequired", "memory": "RestartContainer"}
BOTH = {"cpu": "RestartContainer", "memory": "RestartContainer"}


@dataclass(frozen=True)
class Row:
    id: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    policy: Mapping[str, str] = field(default_factory=dict)
    restarts: tuple[str, ...] = ()
    """Who restarts, on the way there and on the way back."""
    qos: str = "Burstable"
    back: bool = True

    def pod(self, sizes: Mapping[str, str], generation: int) -> NodePod:
        return sized(policy=self.policy, qos=self.qos, generation=generation, **sizes)  # type: ignore[arg-type]


def guaranteed(cpu: int, memory: int) -> str:
    return f"{cpu}m/{memory}Mi:{cpu}m/{memory}Mi"


def touched(policy: Mapping[str, str], resources: Iterable[str]) -> bool:
    return any(policy.get(each) == "RestartContainer" for each in resources)


GUARANTEED_STEPS = (
    (25, 35, ("cpu",)),
    (20, 40, ("memory",)),
    (25, 40, ("cpu", "memory")),
    (25, 30, ("cpu", "memory")),
)
"""cpu up; memory up; both up; cpu up and memory down: from 20m and 35Mi."""
GUARANTEED_POLICIES = (
    (NEVER, False),
    (NEVER, True),
    (MEMORY, False),
    (CPU, False),
    (BOTH, False),
    (BOTH, True),
)
"""Policy, and whether the sidecar is resized as well."""


def guaranteed_rows() -> list[Row]:
    """T1 to T24."""
    found = []
    for group, (policy, both) in enumerate(GUARANTEED_POLICIES):
        for number, (cpu, memory, resources) in enumerate(GUARANTEED_STEPS, 1):
            old, new = guaranteed(20, 35), guaranteed(cpu, memory)
            after = {"c1": new, "side": new if both else old}
            names = (("side", "c1") if both else ("c1",)) if touched(policy, resources) else ()
            row = Row(f"T{group * 4 + number}", {"c1": old, "side": old}, after, policy, names, "Guaranteed")
            found.append(row)
    return found


def three(*sizes: tuple[int, int]) -> dict[str, str]:
    """Containers c1 to c3, each 2m and 2Mi more than the one before."""
    return {f"c{k + 1}": guaranteed(cpu + 2 * k, memory + 2 * k) for k, (cpu, memory) in enumerate(sizes)}


THREE = three((20, 35), (20, 35), (20, 35))
SEVERAL = [
    Row("T25", THREE, three((25, 40), (25, 40), (15, 30)), NEVER, qos="Guaranteed"),
    Row("T26", THREE, three((25, 40), (15, 30), (15, 30)), NEVER, qos="Guaranteed"),
    Row("T27", THREE, three((25, 35), (15, 40), (25, 40)), NEVER, qos="Guaranteed"),
]

BURSTABLE_STEPS = (
    ("25m/35Mi:30m/45Mi", ("cpu",)),
    ("20m/35Mi:35m/45Mi", ("cpu",)),
    ("20m/40Mi:30m/45Mi", ("memory",)),
    ("20m/35Mi:30m/50Mi", ("memory",)),
    ("25m/40Mi:35m/50Mi", ("cpu", "memory")),
    ("25m/30Mi:35m/40Mi", ("cpu", "memory")),
    ("25m/40Mi:25m/40Mi", ("cpu", "memory")),
)
"""cpu request; cpu limit; memory request; memory limit; all up; cpu up and memory down; requests up and limits down:
from 20m/35Mi, limited at 30m/45Mi."""
FOUR_POLICIES = (NEVER, CPU, MEMORY, BOTH)


def burstable_rows() -> list[Row]:
    """T28 to T55. A second container keeps the class when requests meet limits."""
    found = []
    for group, policy in enumerate(FOUR_POLICIES):
        for number, (after, resources) in enumerate(BURSTABLE_STEPS):
            names = ("c1",) if touched(policy, resources) else ()
            before = {"c1": "20m/35Mi:30m/45Mi", "c2": "5m/5Mi:10m/10Mi"}
            found.append(Row(f"T{28 + group * 7 + number}", before, {**before, "c1": after}, policy, names))
    return found


FIVE_BEFORE = {
    "c1": "20m/35Mi",
    "c2": "20m/35Mi",
    "c3": "20m/35Mi:30m/45Mi",
    "c4": "20m/-",
    "c5": "-/35Mi",
}
FIVE_AFTER = {
    "c1": "25m/35Mi:35m/-",
    "c2": "20m/30Mi:-/45Mi",
    "c3": "20m/30Mi:30m/45Mi",
    "c4": "15m/35Mi",
    "c5": "25m/40Mi",
}
OTHERS = [Row("T56", FIVE_BEFORE, FIVE_AFTER, NEVER, back=False), Row("T57", {"c1": "2m:10m"}, {"c1": "1m:5m"}, NEVER)]


def pod_level_rows() -> list[Row]:
    """P5 to P10, and P21 to P35 as far as they succeed; P1 to P4, P11 to P20 and P28 are the rows above, on a node that
    can resize pods."""
    own = {"c1": guaranteed(20, 35), "side": guaranteed(20, 35)}
    empty = {"c1": "", "side": ""}
    found = []
    for name, policy in zip(("never", "cpu", "memory", "both"), FOUR_POLICIES, strict=True):
        for number, cpu, memory, resources in (
            (5, 85, 95, ("cpu",)),
            (6, 80, 100, ("memory",)),
            (7, 85, 95, ("cpu",)),
            (8, 80, 100, ("memory",)),
        ):
            inside = own if number < 7 else empty
            names = ("side", "c1") if number >= 7 and touched(policy, resources) else ()
            start, end = {**inside, "pod": guaranteed(80, 95)}, {**inside, "pod": guaranteed(cpu, memory)}
            found.append(Row(f"P{number}-{name}", start, end, policy, names, "Guaranteed"))
        for number, (after, _) in enumerate(BURSTABLE_STEPS):
            inside = {"c1": "20m/35Mi:25m/40Mi"}
            start, end = {**inside, "pod": "80m/95Mi:90m/105Mi"}, {**inside, "pod": _plus_sixty(after)}
            found.append(Row(f"P{21 + number}-{name}", start, end, policy))
    found += [
        Row("P9", {**own, "pod": guaranteed(80, 95)}, {**own, "pod": guaranteed(85, 100)}, NEVER, qos="Guaranteed"),
        Row("P10", {**own, "pod": guaranteed(80, 95)}, {**own, "pod": guaranteed(85, 90)}, NEVER, qos="Guaranteed"),
        Row("P29", {"c1": "2m:10m", "pod": "4m:20m"}, {"c1": "2m:10m", "pod": "5m:25m"}, NEVER),
        Row("P30", {"c1": "2m:10m", "pod": "4m:10m"}, {"c1": "2m:10m", "pod": "5m:25m"}, NEVER, back=False),
        Row("P31", {"c1": "2m:10m"}, {"c1": "2m:10m", "pod": "5m:25m"}, NEVER, back=False),
        Row("P32", {"c1": "", "pod": "20m/35Mi"}, {"c1": "", "pod": "25m/40Mi"}, NEVER),
    ]
    return found


def _plus_sixty(text: str) -> str:
    def more(part: str) -> str:
        cpu, memory = part.split("/")
        return f"{int(cpu.removesuffix('m')) + 60}m/{int(memory.removesuffix('Mi')) + 60}Mi"

    return ":".join(more(part) for part in text.split(":"))
