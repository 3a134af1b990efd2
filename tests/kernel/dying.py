"""A resize of real processes in real cgroups by agents that are killed at every point of it in turn: before each write
to a cgroup, before each record, between writing a record and renaming it, and after the last write.

Without arguments: tries all of them. With arguments it is the agent: DIRECTORY POINT UID, and dies at POINT.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.node.resizing import sized

from kohort.node.actuation import Actuator
from kohort.node.allocation import Allocations
from kohort.node.cgroups import Cgroups, find_parent
from kohort.node.resize.judging import NodeFacts
from kohort.node.resize.plan import in_progress
from kohort.node.views import Actuated, figures_of
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.resources import container_cgroup, pod_cgroup, stored_qos_class

ROOM = NodeFacts({"cpu": Quantity.parse("8"), "memory": Quantity.parse("8Gi")})
POD = {"pod": "200m/200Mi:400m/400Mi", "c1": "50m/50Mi:100m/100Mi", "c2": "100m/100Mi:200m/200Mi"}
OTHER = {"pod": "250m/150Mi:500m/300Mi", "c1": "40m/80Mi:80m/150Mi", "c2": "150m/50Mi:300m/100Mi"}
"""The pod and each container go up in one resource and down in the other."""
FILES = ("memory.max", "memory.high", "cpu.max", "cpu.weight")
NEVER = 10_000


class Node:
    def __init__(self, directory: Path, dies_before: int = NEVER) -> None:
        parent = find_parent()
        assert parent is not None
        self.writes = 0
        self._dies_before = dies_before
        self.allocations = Allocations(directory, self._witness)
        self.cgroups = Cgroups(parent, self._witness)
        self.cgroups.prepare()

    def _witness(self, kind: str, path: Path, content: str) -> None:
        if self.writes == self._dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        self.writes += 1

    def start(self, pod: Pod) -> dict[str, subprocess.Popen[bytes]]:
        assert self.allocations.admit(pod, [], ROOM) is None
        path = self.cgroups.pod(pod.metadata.uid, stored_qos_class(pod))
        self.cgroups.create(path, pod_cgroup(pod), inner=True)
        processes = {}
        for container in pod.spec.all_containers:
            place = path / container.name
            self.cgroups.create(place, container_cgroup(pod, container), inner=False)
            processes[container.name] = subprocess.Popen(["sleep", "1000"])
            (place / "cgroup.procs").write_text(str(processes[container.name].pid))
        figures = figures_of(pod)
        self.allocations.record_actuated(pod.metadata.uid, Actuated(figures.pod, figures.containers))
        return processes

    def resize(self, pod: Pod) -> None:
        async def never(name: str) -> None:
            raise AssertionError(f"{name} was to be restarted")

        assert self.allocations.admit(pod, [], ROOM) is None
        self.allocations.judge(pod, [], ROOM)
        asyncio.run(
            Actuator(self.cgroups, self.allocations).actuate(self.allocations.as_allocated(pod), ["c1", "c2"], never)
        )

    def files(self, pod: Pod) -> dict[str, str]:
        path = self.cgroups.pod(pod.metadata.uid, stored_qos_class(pod))
        return {
            f"{name}/{file}": (path / name / file).read_text().strip() for name in (".", "c1", "c2") for file in FILES
        }

    def remove(self, pod: Pod, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        for process in processes.values():
            process.kill()
            process.wait()
        self.cgroups.remove(self.cgroups.pod(pod.metadata.uid, stored_qos_class(pod)))


def main() -> None:
    if len(sys.argv) > 1:
        Node(Path(sys.argv[1]), int(sys.argv[2])).resize(sized(sys.argv[3], **OTHER))  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)  # after the last write
    base = Path(tempfile.mkdtemp(prefix="dying-"))
    undisturbed = Node(base / "undisturbed")
    pod, after = sized("whole", **POD), sized("whole", **OTHER)  # type: ignore[arg-type]
    processes = undisturbed.start(pod)
    undisturbed.writes = 0
    undisturbed.resize(after)
    points, expected = undisturbed.writes, undisturbed.files(after)
    undisturbed.remove(after, processes)
    assert points > 10, points
    for point in range(points + 1):
        try_point(base / str(point), f"p{point}", point, expected)
    print(f"{points + 1} points")


def try_point(directory: Path, uid: str, point: int, expected: dict[str, str]) -> None:
    node = Node(directory)
    pod, after = sized(uid, **POD), sized(uid, **OTHER)  # type: ignore[arg-type]
    processes = node.start(pod)
    # An agent makes its tiers before anything else; those writes are not part of the resize.
    ahead = Node(directory).writes
    agent = subprocess.run(
        [sys.executable, __file__, str(directory), str(ahead + point), uid], capture_output=True, check=False
    )
    assert agent.returncode == -signal.SIGKILL, f"point {point}: {agent.returncode} {agent.stderr.decode()[-500:]}"
    successor = Node(directory)
    successor.resize(after)
    found = successor.files(after)
    assert found == expected, f"killed before write {point}: {found} instead of {expected}"
    actuated = successor.allocations.actuated(uid)
    assert actuated is not None and not in_progress(figures_of(after), actuated, ["c1", "c2"])
    for name, process in processes.items():
        assert process.poll() is None, f"killed before write {point}: {name} has ended"
    node.remove(after, processes)


if __name__ == "__main__":
    main()
