"""What happens, chapter by chapter. Each says what it wants to see, and is over when it has seen it.

The story changes the cluster only in ways that a person would: it applies objects, and types commands of `kohort`. What
it claims in the end is measured by the client, not read from a status.
"""

import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from kohort.demo import cluster_state, manifests
from kohort.demo.cluster_state import Scene, Stuck
from kohort.demo.demo_cluster import Home
from kohort.demo.load_client import Traffic
from kohort.kube.client import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS

SAMPLE: Final = 30
"""Requests by which a share is judged. The gateway divides every 20 exactly, so chance has no part in it; what remains
is which requests of a twenty fall into the sample."""
TOLERANCE: Final = 10
GROUPS: Final = 2
MEMORY: Final = "128Mi"


@dataclass
class Chapter:
    title: str
    work: Callable[[], Awaitable[str]]
    state: str = "waiting"
    """waiting, running, done or failed"""
    found: str = ""
    seconds: float = 0.0


@dataclass
class Share:
    version: str
    asked: int
    seen: float
    requests: int

    @property
    def kept(self) -> bool:
        return abs(self.seen - self.asked) <= TOLERANCE


@dataclass
class Said:
    """A command and its answer."""

    command: str
    answer: str


@dataclass
class Story:
    home: Home
    scene: Scene
    resources: AsyncExitStack
    """Closed when the story is over, whatever its end."""
    told: Callable[[str], None] = lambda text: None
    """Gets every line that somebody without a screen should see."""
    traffic: Traffic | None = None
    shares: list[Share] = field(default_factory=list)
    said: Said | None = None
    problem: str = ""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.chapters = [
            Chapter("a model in shards: 2 groups of 3 processes", self._serve),
            Chapter("canary: v2 gets 20 %, then 50 %, then all requests", self._release),
            Chapter("resize: more memory for processes that run", self._resize),
            Chapter("a bad version: v3 never comes together, and goes", self._roll_back),
        ]

    async def tell(self) -> bool:
        """Whether everything was seen that should be."""
        for chapter in self.chapters:
            chapter.state, began = "running", time.monotonic()
            self.told(f"… {chapter.title}")
            try:
                chapter.found = await chapter.work()
                chapter.state = "done"
            except Stuck as problem:
                chapter.state, chapter.found, self.problem = "failed", str(problem), str(problem)
            chapter.seconds = time.monotonic() - began
            self.told(f"{'✓' if chapter.state == 'done' else '✗'} {chapter.found}  ({chapter.seconds:.1f} s)")
            if chapter.state == "failed":
                await self._command("explain", manifests.NAME)
                return False
        return True

    async def _serve(self) -> str:
        for one in manifests.objects(sys.executable):
            await self.home.client.apply(manifests.RESOURCES[one["kind"]], one, field_manager="kohort-demo")
        await self.scene.until(lambda: self.scene.serves("v1", GROUPS), "both groups ready")
        await self.scene.until(lambda: bool(self.scene.gateway), "the gateway has an address")
        self.traffic = await self.resources.enter_async_context(Traffic(self.scene.gateway))
        await self._all_from("v1")
        return (
            f"{GROUPS} groups, {len(self.scene.pods)} processes; requests are streamed through the gateway from now on"
        )

    async def _release(self) -> str:
        await self._change(manifests.BETTER)
        for number, asked in ((1, 20), (2, 50)):
            await self._paused(number)
            await self._measure("v2", asked)
            await self._command("approve", manifests.NAME)
        await self.scene.until(lambda: self.scene.serves("v2", GROUPS), "all groups at v2, the canary gone")
        await self._all_from("v2")
        return "; ".join(f"asked {one.asked} %, seen {one.seen:.0f} % of {one.requests}" for one in self.shares)

    async def _resize(self) -> str:
        before = cluster_state.processes(self.scene.stable_pods)
        old = cluster_state.memory_of(self.scene.stable_pods[0])
        await self._command("resize", manifests.NAME, "--memory", MEMORY)
        grown: Callable[[], bool] = lambda: all(  # noqa: E731
            cluster_state.memory_of(pod) == MEMORY for pod in self.scene.stable_pods
        )
        await self.scene.until(grown, f"every process has {MEMORY}")
        if cluster_state.processes(self.scene.stable_pods) != before:
            raise Stuck("a process was restarted by the resize")
        found = f"{len(before)} processes from {old} to {MEMORY}, none restarted"
        if self.scene.enforced:
            return found
        return f"{found}; counted, not enforced: this machine gives us no writable cgroup v2"

    async def _roll_back(self) -> str:
        await self._change(manifests.BROKEN)
        await self.scene.until(self._broken_waits, "the processes of v3 run")
        await self._all_from("v2")
        await self._command("explain", manifests.NAME)
        await self._command("abort", manifests.NAME)
        await self.scene.until(lambda: self.scene.serves("v2", GROUPS), "v3 gone, v2 as before")
        await self._all_from("v2")
        return "v3 never got a request; rolled back to v2"

    def _broken_waits(self) -> bool:
        running = [pod for pod in self.scene.canary_pods if cluster_state.version_of(pod) == "v3"]
        started = [pod for pod in running if (pod.get("status") or {}).get("phase") == "Running"]
        return len(started) == 3 and not cluster_state.is_ready(started[0])

    async def _change(self, version: manifests.Version) -> None:
        patch = manifests.release(version)
        await self.home.client.patch(LEADER_WORKER_SETS, manifests.NAME, manifests.NAMESPACE, patch, PatchType.JSON)
        self.told(f"  kubectl edit: {', '.join(f'{name}={value}' for name, value in version.items())}")

    async def _paused(self, step: int) -> None:
        await self.scene.until(lambda: self.scene.step() == (step, "StepPaused"), f"step {step} waits for approval")

    async def _measure(self, version: str, asked: int) -> None:
        seen = await self._sample(SAMPLE)
        share = Share(version, asked, 100 * seen[version] / seen.total(), seen.total())
        self.shares.append(share)
        if not share.kept:
            raise Stuck(f"{version} answered {share.seen:.0f} % of {share.requests} requests instead of {asked} %")

    async def _all_from(self, version: str) -> None:
        seen = await self._sample(SAMPLE // 3)
        if set(seen) != {version}:
            raise Stuck(f"requests were answered by {dict(seen)} instead of {version} alone")

    async def _sample(self, count: int) -> Counter[str]:
        assert self.traffic is not None
        return await self.traffic.sample(count)

    async def _command(self, *words: str) -> None:
        code, answer = await self.home.command(*words)
        self.said = Said(f"kohort {' '.join(words)}", answer)
        self.told(f"  $ {self.said.command}")
        for line in answer.splitlines():
            self.told(f"    {line}")
        # `explain` ends with 3 when there is something to explain.
        if code not in (0, 3):
            raise Stuck(f"kohort {words[0]} failed: {answer}")
