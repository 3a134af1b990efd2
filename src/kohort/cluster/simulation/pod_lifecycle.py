"""The lifecycle of one pod on a simulated node, as a state machine that is driven by time alone.

`PodLifecycle.advance` moves it to a moment: containers start, become ready, end and restart as their annotations say.
It does no I/O and reads no clock. It keeps two kinds of time: `now` counts seconds and decides, `stamp` is the time of
day that goes into the status.
"""

import secrets
from collections.abc import Iterable
from itertools import accumulate

import msgspec

from kohort.cluster.simulation.annotations import SimulatedBehavior
from kohort.kube import clock
from kohort.objects.pods import Container, ContainerStatus, Pod
from kohort.rules.container_restarts import next_pause, restarts_after_exit
from kohort.rules.pod_admission import Rejection
from kohort.rules.pod_status import ContainerProgress, pod_phase

SHORTEST_RUN = 0.1
"""A container that ends at once has run for this many seconds."""


class SimulatedTime(msgspec.Struct, frozen=True):
    now: float
    stamp: str

    def before(self, stamp: str) -> float:
        """An earlier time of day on the scale of `now`."""
        return self.now - (clock.parse_time(self.stamp) - clock.parse_time(stamp)).total_seconds()


class Ended(msgspec.Struct, frozen=True):
    """How a container ended."""

    code: int
    started: str
    finished: str
    id: str


class ContainerRun(msgspec.Struct):
    name: str
    id: str = ""
    started: str = ""
    since: float = 0.0
    running: bool = False
    restarts: int = 0
    backoff_count: int = 0
    """Ends that count for the back-off before the next start."""
    last: Ended | None = None
    due: float | None = None
    """When it starts again, while it waits for that."""
    pause: float = 0.0
    """How long it waits for its next start."""

    @property
    def finished(self) -> bool:
        """It has ended and will not start again."""
        return not self.running and self.last is not None and self.due is None

    @property
    def progress(self) -> ContainerProgress:
        if not self.id:
            return ContainerProgress.NOT_STARTED
        if not self.finished or self.last is None:
            return ContainerProgress.ACTIVE
        return ContainerProgress.FAILED if self.last.code else ContainerProgress.SUCCEEDED


class PodLifecycle(msgspec.Struct):
    uid: str
    accepted: SimulatedTime
    begun: bool = False
    """Containers have been started."""
    rejection: Rejection | None = None
    """Why the node does not run it."""
    containers: dict[str, ContainerRun] = {}
    sidecars: dict[str, ContainerRun] = {}
    ephemeral: dict[str, ContainerRun] = {}
    crash_seen: str = ""
    stopping: float | None = None
    """When its containers end because the pod is deleted."""
    stopped: bool = False

    @staticmethod
    def accept(pod: Pod, behavior: SimulatedBehavior, at: SimulatedTime) -> "PodLifecycle":
        """A pod that has just been bound."""
        lifecycle = PodLifecycle(pod.metadata.uid, at, rejection=behavior.fail, crash_seen=behavior.crash)
        lifecycle.containers = {each.name: ContainerRun(each.name) for each in pod.spec.main_containers}
        lifecycle.sidecars = {each.name: ContainerRun(each.name) for each in pod.spec.init_containers if each.sidecar}
        return lifecycle

    @staticmethod
    def recover(pod: Pod, behavior: SimulatedBehavior, at: SimulatedTime) -> "PodLifecycle":
        """A pod that an earlier process was running, from the status that it wrote."""
        started = pod.status.start_time or at.stamp
        lifecycle = PodLifecycle(
            pod.metadata.uid, SimulatedTime(at.before(started), started), crash_seen=behavior.crash
        )
        reported = pod.status
        statuses = {
            status.name: status
            for status in (
                *reported.container_statuses,
                *reported.init_container_statuses,
                *reported.ephemeral_container_statuses,
            )
        }
        lifecycle.containers = {
            each.name: _recovered(each, statuses.get(each.name), at) for each in pod.spec.main_containers
        }
        lifecycle.sidecars = {
            each.name: _recovered(each, statuses.get(each.name), at)
            for each in pod.spec.init_containers
            if each.sidecar
        }
        lifecycle.ephemeral = {
            each.name: _recovered(each, statuses[each.name], at)
            for each in pod.spec.ephemeral_containers
            if each.name in statuses
        }
        lifecycle.begun = any(run.id for run in lifecycle.containers.values())
        return lifecycle

    def advance(self, behavior: SimulatedBehavior, restart_policy: str, at: SimulatedTime) -> float | None:
        """Perform everything that is due; returns the seconds until something is due again."""
        if self.stopped or (self.rejection is not None and self.stopping is None):
            return None
        if self.stopping is not None:
            return self._advance_stop(at)
        if not self.begun:
            return self._advance_start(behavior, restart_policy, at)
        waits: list[float] = []
        crash = behavior.crash != self.crash_seen
        self.crash_seen = behavior.crash
        for run in self.containers.values():
            self._advance_container(run, behavior, restart_policy, at, crash)
            waits += _waits(run, behavior, at.now)
        return min(waits, default=None)

    def start_ephemeral(self, ephemeral: Iterable[Container], at: SimulatedTime) -> None:
        """Start ephemeral containers that were added to the running pod; they end with the pod and are never
        restarted."""
        for container in ephemeral:
            run = self.ephemeral.setdefault(container.name, ContainerRun(container.name))
            if self.phase == "Running" and not self.stopped and not run.id:
                _begin(run, at)
            elif self.phase != "Running" and run.running:
                _end(run, 0, at)

    def stop(self, behavior: SimulatedBehavior, grace: float, at: SimulatedTime) -> None:
        """The pod is being deleted; its containers get `grace` seconds at most."""
        end = at.now + min(behavior.termination_latency if self.begun else 0.0, grace)
        if self.stopping is None or end < self.stopping:
            self.stopping = end

    def restart(self, name: str, at: SimulatedTime) -> None:
        """End and start a container at once, because a resize demands it."""
        run = self.containers.get(name) or self.sidecars.get(name)
        if run is not None and run.running:
            _end(run, 0, at)
            run.restarts += 1
            _begin(run, at)

    def is_ready(self, name: str, behavior: SimulatedBehavior, now: float) -> bool:
        run = self.containers.get(name) or self.sidecars.get(name)
        if run is None or not run.running or self.stopping is not None:
            return False
        if name in self.sidecars or not behavior.concern(name):
            return True
        if behavior.never_ready:
            return False
        # Ready after the first of these moments, not after the second, and so on.
        return sum(moment <= now for moment in _readiness_changes(run, behavior)) % 2 == 1

    @property
    def phase(self) -> str:
        if self.rejection is not None or (self.stopped and not self.begun):
            return "Failed"
        return pod_phase(run.progress for run in self.containers.values())

    def _advance_start(self, behavior: SimulatedBehavior, restart_policy: str, at: SimulatedTime) -> float | None:
        if behavior.waiting:
            return None
        due = self.accepted.now + behavior.start_latency
        if at.now < due:
            return due - at.now
        self.begun = True
        for run in (*self.sidecars.values(), *self.containers.values()):
            _begin(run, at)
        return self.advance(behavior, restart_policy, at)

    def _advance_container(
        self, run: ContainerRun, behavior: SimulatedBehavior, restart_policy: str, at: SimulatedTime, crash: bool
    ) -> None:
        if run.due is not None and at.now >= run.due:
            run.restarts += 1
            _begin(run, at)
        if not run.running or not behavior.concern(run.name):
            return
        if crash:
            _end(run, behavior.exit_code or 1, at)
            self._plan_restart(run, behavior, restart_policy, at)
        elif (end := _planned_end(run, behavior)) is not None and at.now >= end:
            _end(run, behavior.exit_code, at)
            self._plan_restart(run, behavior, restart_policy, at)

    def _plan_restart(
        self, run: ContainerRun, behavior: SimulatedBehavior, restart_policy: str, at: SimulatedTime
    ) -> None:
        assert run.last is not None
        if not restarts_after_exit(restart_policy, run.last.code):
            return
        pause, run.backoff_count = next_pause(run.backoff_count, at.now - run.since)
        run.pause = pause if behavior.restart_delay is None else behavior.restart_delay
        run.due = at.now + run.pause
        if run.pause == 0:
            run.restarts += 1
            _begin(run, at)

    def _advance_stop(self, at: SimulatedTime) -> float | None:
        assert self.stopping is not None
        if at.now < self.stopping:
            return self.stopping - at.now
        for run in (*self.containers.values(), *self.sidecars.values(), *self.ephemeral.values()):
            if run.running:
                _end(run, 0, at)
            run.due = None
        self.stopped = True
        return None


def _begin(run: ContainerRun, at: SimulatedTime) -> None:
    run.id = secrets.token_hex(32)
    run.started, run.since = at.stamp, at.now
    run.running, run.due = True, None


def _end(run: ContainerRun, code: int, at: SimulatedTime) -> None:
    run.running = False
    run.last = Ended(code, run.started, at.stamp, run.id)


def _planned_end(run: ContainerRun, behavior: SimulatedBehavior) -> float | None:
    """When the present run of a container ends by itself, if it does."""
    if behavior.exit_after is None or (behavior.crashes is not None and run.restarts >= behavior.crashes):
        return None
    return run.since + max(behavior.exit_after, SHORTEST_RUN)


def _waits(run: ContainerRun, behavior: SimulatedBehavior, now: float) -> list[float]:
    """In how many seconds something can happen to a container."""
    if run.due is not None:
        return [run.due - now]
    if not run.running or not behavior.concern(run.name):
        return []
    moments = _readiness_changes(run, behavior)
    if (end := _planned_end(run, behavior)) is not None:
        moments.append(end)
    return [moment - now for moment in moments if moment > now]


def _readiness_changes(run: ContainerRun, behavior: SimulatedBehavior) -> list[float]:
    """The moments at which a running container gets ready, unready, ready again, ..."""
    return list(accumulate(behavior.readiness_flips, initial=run.since + behavior.ready_latency))


def _recovered(container: Container, status: ContainerStatus | None, at: SimulatedTime) -> ContainerRun:
    run = ContainerRun(container.name)
    if status is None:
        return run
    run.id = status.container_id.rpartition("://")[2]
    run.restarts = run.backoff_count = status.restart_count
    for state in (status.last_state, status.state):
        if state.terminated is not None:
            ended = state.terminated
            started, finished = ended.started_at or "", ended.finished_at or ""
            run.last = Ended(ended.exit_code, started, finished, ended.container_id.rpartition("://")[2])
    if status.state.running is not None:
        run.started = status.state.running.started_at or at.stamp
        run.running, run.since = True, at.before(run.started)
    elif status.state.waiting is not None and run.last is not None:
        run.due = at.now
    return run
