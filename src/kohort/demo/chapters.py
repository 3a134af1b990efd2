"""The chapters of the demo. Each changes the cluster and ends when the expected state is reached.

The demo changes the cluster only in ways that a user would: it applies objects and runs commands of `kohort`. Its
figures are measured by the client, not read from a status.
"""

import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from kohort.demo import cluster_state, manifests
from kohort.demo.cluster_state import DemoClusterState, ExpectationFailed
from kohort.demo.demo_cluster import DemoCluster
from kohort.demo.load_client import LoadClient
from kohort.kube.client import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, RELEASE_ANALYSES, ROLLOUTS
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import JsonObject
from kohort.rollouts.step_analysis import AnalysisReason
from kohort.rules import rollout_labels

SAMPLE: Final = 30
"""Requests by which a share is measured. The gateway divides every 20 requests exactly, not by chance; what varies is
which requests of a twenty fall into the sample."""
TOLERANCE: Final = 10
GROUPS: Final = 2
MEMORY: Final = "128Mi"


@dataclass
class Chapter:
    title: str
    run: Callable[[], Awaitable[str]]
    """Returns its result in one line; raises ExpectationFailed."""
    state: str = "waiting"
    """waiting, running, done or failed"""
    result: str = ""
    seconds: float = 0.0


@dataclass
class Share:
    """Which part of the requests a version should answer, and which part it answered, in percent."""

    version: str
    wanted: int
    measured: float
    requests: int

    @property
    def within_tolerance(self) -> bool:
        return abs(self.measured - self.wanted) <= TOLERANCE


@dataclass
class CommandOutput:
    command: str
    output: str


@dataclass
class Demo:
    cluster: DemoCluster
    state: DemoClusterState
    resources: AsyncExitStack
    """Closed after the last chapter, or after a failure."""
    print_line: Callable[[str], None] = lambda text: None
    """Prints progress where there is no terminal to draw on."""
    client: LoadClient | None = None
    shares: list[Share] = field(default_factory=list)
    last_command: CommandOutput | None = None
    problem: str = ""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.chapters = [
            Chapter("a model in shards: 2 groups of 3 processes", self._serve),
            Chapter("canary: v2 gets 20 %, then 50 %, then all requests", self._release),
            Chapter("resize: more memory for processes that run", self._resize),
            Chapter("a bad version: v3 never becomes ready and is rolled back", self._roll_back),
            Chapter("a slow version: v4 answers correctly, is judged, and goes back by itself", self._judge),
        ]

    async def run(self) -> bool:
        """Whether all chapters succeeded."""
        for chapter in self.chapters:
            chapter.state, began = "running", time.monotonic()
            self.print_line(f"… {chapter.title}")
            try:
                chapter.result = await chapter.run()
                chapter.state = "done"
            except ExpectationFailed as problem:
                chapter.state, chapter.result, self.problem = "failed", str(problem), str(problem)
            chapter.seconds = time.monotonic() - began
            self.print_line(f"{'✓' if chapter.state == 'done' else '✗'} {chapter.result}  ({chapter.seconds:.1f} s)")
            if chapter.state == "failed":
                await self._command("explain", manifests.NAME)
                return False
        return True

    async def _serve(self) -> str:
        for manifest in manifests.objects(sys.executable):
            resource = manifests.RESOURCES[manifest["kind"]]
            await self.cluster.client.apply(resource, manifest, field_manager="kohort-demo")
        await self.state.until(lambda: self.state.serves("v1", GROUPS), "both groups ready")
        await self.state.until(lambda: bool(self.state.gateway), "the gateway has an address")
        self.client = await self.resources.enter_async_context(LoadClient(self.state.gateway))
        await self._all_from("v1")
        return (
            f"{GROUPS} groups, {len(self.state.pods)} processes; requests are streamed through the gateway from now on"
        )

    async def _release(self) -> str:
        await self._change(manifests.BETTER)
        for number, wanted in ((1, 20), (2, 50)):
            await self._paused(number)
            await self._measure("v2", wanted)
            await self._command("approve", manifests.NAME)
        await self.state.until(lambda: self.state.serves("v2", GROUPS), "all groups at v2, the canary gone")
        await self._all_from("v2")
        return "; ".join(f"asked {one.wanted} %, seen {one.measured:.0f} % of {one.requests}" for one in self.shares)

    async def _resize(self) -> str:
        before = cluster_state.processes(self.state.stable_pods)
        old = cluster_state.memory_of(self.state.stable_pods[0])
        await self._command("resize", manifests.NAME, "--memory", MEMORY, "--pods-only")
        grown: Callable[[], bool] = lambda: all(  # noqa: E731
            cluster_state.memory_of(pod) == MEMORY for pod in self.state.stable_pods
        )
        await self.state.until(grown, f"every process has {MEMORY}")
        if cluster_state.processes(self.state.stable_pods) != before:
            raise ExpectationFailed("a process was restarted by the resize")
        result = f"{len(before)} processes from {old} to {MEMORY}, none restarted"
        if self.state.enforced:
            return result
        return f"{result}; limits are recorded, not enforced: this machine has no writable cgroup v2"

    async def _roll_back(self) -> str:
        await self._change(manifests.BROKEN)
        await self.state.until(self._broken_waits, "the processes of v3 run")
        await self._all_from("v2")
        await self._command("explain", manifests.NAME)
        await self._command("abort", manifests.NAME)
        await self.state.until(lambda: self.state.serves("v2", GROUPS), "v3 removed, v2 serves as before")
        await self._all_from("v2")
        return "v3 never got a request; rolled back to v2"

    async def _judge(self) -> str:
        client = self.cluster.client
        await client.apply(RELEASE_ANALYSES, manifests.analysis(), field_manager="kohort-demo")
        annotations = {rollout_labels.ANALYSIS_NAME: manifests.ANALYSIS}
        await client.patch(ROLLOUTS, manifests.NAME, manifests.NAMESPACE, {"metadata": {"annotations": annotations}})
        await self._change(manifests.SLOW)
        await self.state.until(self._failed_its_analysis, "v4 failed its analysis and its canary is gone")
        await self._all_from("v2")
        await self._command("analysis", manifests.NAME)
        await self._command("abort", manifests.NAME)
        await self.state.until(lambda: self.state.serves("v2", GROUPS), "v2 serves as before")
        await self._all_from("v2")
        assert self.client is not None
        answered = counted(self.client.versions["v4"], "request")
        return f"v4 answered {answered}, all correctly, too slowly; it was rolled back without a command"

    def _failed_its_analysis(self) -> bool:
        conditions = (self.state.find("Rollout").get("status") or {}).get("conditions") or ()
        found: JsonObject = next((one for one in conditions if one["type"] == rollout_labels.ANALYSIS_CONDITION), {})
        return found.get("reason") == AnalysisReason.FAILED and not self.state.canary_pods

    def _broken_waits(self) -> bool:
        running = [pod for pod in self.state.canary_pods if cluster_state.version_of(pod) == "v3"]
        started = [pod for pod in running if (pod.get("status") or {}).get("phase") == "Running"]
        return len(started) == 3 and not cluster_state.is_ready(started[0])

    async def _change(self, version: manifests.Version) -> None:
        patch = manifests.release(version)
        await self.cluster.client.patch(LEADER_WORKER_SETS, manifests.NAME, manifests.NAMESPACE, patch, PatchType.JSON)
        self.print_line(f"  kubectl edit: {', '.join(f'{name}={value}' for name, value in version.items())}")

    async def _paused(self, step: int) -> None:
        await self.state.until(lambda: self.state.step() == (step, "StepPaused"), f"step {step} waits for approval")

    async def _measure(self, version: str, wanted: int) -> None:
        seen = await self._sample(SAMPLE)
        share = Share(version, wanted, 100 * seen[version] / seen.total(), seen.total())
        self.shares.append(share)
        if not share.within_tolerance:
            requests = counted(share.requests, "request")
            raise ExpectationFailed(f"{version} answered {share.measured:.0f} % of {requests} instead of {wanted} %")

    async def _all_from(self, version: str) -> None:
        seen = await self._sample(SAMPLE // 3)
        if set(seen) != {version}:
            raise ExpectationFailed(f"requests were answered by {dict(seen)} instead of {version} alone")

    async def _sample(self, count: int) -> Counter[str]:
        assert self.client is not None
        return await self.client.sample(count)

    async def _command(self, *words: str) -> None:
        code, output = await self.cluster.command(*words)
        self.last_command = CommandOutput(f"kohort {' '.join(words)}", output)
        self.print_line(f"  $ {self.last_command.command}")
        for line in output.splitlines():
            self.print_line(f"    {line}")
        # `explain` ends with 3 when there is something to explain.
        if code not in (0, 3):
            raise ExpectationFailed(f"kohort {words[0]} failed: {output}")
