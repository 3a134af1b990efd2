"""Every write to a cgroup during a resize, in the order of KEP-5419: for memory, and then for cpu, the pod's cgroup
goes up, containers go down, the pod's cgroup goes down, containers go up. A limit precedes its weight on the way up and
follows it on the way down. A memory limit goes down behind `memory.high`, so that nothing is killed by surprise.
"""

from typing import NamedTuple

from tests.kernel.bench import MI, Bench, block, equal

from kohort.objects.json_types import JsonObject

WEIGHTS = {"10m": 4, "50m": 11, "100m": 17, "200m": 29, "500m": 59}
"""What the specification says that these requests weigh."""


class Size(NamedTuple):
    """Of the pod or of a container."""

    request: str
    cpu: int
    memory: int
    asked: int = 8
    """Millicores of the limit, and Mi of limit and request."""

    def block(self) -> JsonObject:
        return block((self.request, f"{self.cpu}m"), (f"{self.asked}Mi", f"{self.memory}Mi"))


class Sizes(NamedTuple):
    pod: Size
    c1: Size
    c2: Size

    def containers(self) -> list[JsonObject]:
        return [{"name": "c1", "resources": self.c1.block()}, {"name": "c2", "resources": self.c2.block()}]


START = Sizes(Size("200m", 500, 300, 64), Size("50m", 100, 100), Size("100m", 400, 200))


def memory_up(who: str, size: Size) -> list[str]:
    return [f"{who}/memory.max {size.memory * MI}"]


def memory_down(who: str, size: Size) -> list[str]:
    limit = size.memory * MI
    return [f"{who}/memory.high {limit}", f"{who}/memory.max {limit}", f"{who}/memory.high max"]


def cpu_up(who: str, size: Size) -> list[str]:
    return [f"{who}/cpu.max {size.cpu * 100} 100000", f"{who}/cpu.weight {WEIGHTS[size.request]}"]


def cpu_down(who: str, size: Size) -> list[str]:
    return cpu_up(who, size)[::-1]


def everything_up(to: Sizes) -> list[str]:
    return [
        *memory_up("pod", to.pod), *memory_up("c1", to.c1), *memory_up("c2", to.c2),
        *cpu_up("pod", to.pod), *cpu_up("c1", to.c1), *cpu_up("c2", to.c2),
    ]  # fmt: skip


def everything_down(to: Sizes) -> list[str]:
    return [
        *memory_down("c1", to.c1), *memory_down("c2", to.c2), *memory_down("pod", to.pod),
        *cpu_down("c1", to.c1), *cpu_down("c2", to.c2), *cpu_down("pod", to.pod),
    ]  # fmt: skip


def pod_less_memory_more_cpu(to: Sizes) -> list[str]:
    """c1 has more memory and less cpu, c2 the other way round."""
    return [
        *memory_down("c2", to.c2), *memory_down("pod", to.pod), *memory_up("c1", to.c1),
        *cpu_up("pod", to.pod), *cpu_down("c1", to.c1), *cpu_up("c2", to.c2),
    ]  # fmt: skip


def pod_more_memory_less_cpu(to: Sizes) -> list[str]:
    """c1 has more of both, c2 less of both."""
    return [
        *memory_up("pod", to.pod), *memory_down("c2", to.c2), *memory_up("c1", to.c1),
        *cpu_down("c2", to.c2), *cpu_down("pod", to.pod), *cpu_up("c1", to.c1),
    ]  # fmt: skip


def containers_among_themselves(to: Sizes) -> list[str]:
    return [
        *memory_down("c1", to.c1), *memory_up("c2", to.c2),
        *cpu_down("c1", to.c1), *cpu_up("c2", to.c2),
    ]  # fmt: skip


def the_pod_alone(to: Sizes) -> list[str]:
    return [*memory_up("pod", to.pod), *cpu_up("pod", to.pod)]


def limit_up_and_request_down(to: Sizes) -> list[str]:
    """Of the pod: what goes up is written at its place, what goes down at its own."""
    quota, weight = cpu_up("pod", to.pod)
    return [quota, weight]


def requests_of_memory(to: Sizes) -> list[str]:
    """The kernel does not know them."""
    return []


STEPS = (
    (everything_up, Sizes(Size("500m", 1000, 600, 64), Size("100m", 200, 200), Size("200m", 500, 300))),
    (everything_down, START),
    (pod_less_memory_more_cpu, Sizes(Size("500m", 800, 250, 64), Size("10m", 50, 150), Size("200m", 600, 100))),
    (pod_more_memory_less_cpu, Sizes(Size("200m", 600, 400, 64), Size("50m", 400, 300), Size("100m", 200, 50))),
    (containers_among_themselves, Sizes(Size("200m", 600, 400, 64), Size("10m", 100, 100), Size("100m", 500, 300))),
    (the_pod_alone, Sizes(Size("500m", 900, 500, 64), Size("10m", 100, 100), Size("100m", 500, 300))),
    (limit_up_and_request_down, Sizes(Size("200m", 1000, 500, 64), Size("10m", 100, 100), Size("100m", 500, 300))),
    (requests_of_memory, Sizes(Size("200m", 1000, 500, 80), Size("10m", 100, 100, 16), Size("100m", 500, 300))),
)


async def writes_come_in_the_order_of_the_proposal(bench: Bench) -> None:
    pod = await bench.run("ordered", START.containers(), START.pod.block())
    name, pids = f"pod{pod['metadata']['uid']}", [bench.pid(pod, each) for each in ("c1", "c2")]
    for expected, sizes in STEPS:
        bench.writes.clear()
        pod = await bench.resize("ordered", {"containers": sizes.containers(), "resources": sizes.pod.block()})
        found = [line.replace(f"{name}/", "pod/") for line in bench.writes if not line.startswith("burstable/")]
        equal((expected.__name__, found), (expected.__name__, expected(sizes)))
        equal([bench.pid(pod, each) for each in ("c1", "c2")], pids)
    await bench.delete("ordered")
