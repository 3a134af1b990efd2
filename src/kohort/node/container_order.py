"""What a pod needs next: which containers to start, in which order, and when. Pure.

| container    | starts when                                                    | starts again                  |
|--------------|----------------------------------------------------------------|-------------------------------|
| regular init | all before it have succeeded, sidecars before it have started  | after a failure, unless Never |
| sidecar      | in its turn among the init containers                          | always                        |
| any other    | all init containers are through                                | as the restart policy says    |
| ephemeral    | at once                                                        | never                         |

The pause before each next start is that of `kohort.rules.container_restarts`. A container that was stopped for a resize
starts again whatever the policy, after the same pause as any other.
"""

from collections.abc import Collection, Mapping

import msgspec

from kohort.node.runtimes.interface import Instance
from kohort.objects.node_pods import NodeContainer, NodePodSpec
from kohort.rules.container_restarts import next_pause, restarts_after_exit
from kohort.rules.pod_status import ContainerProgress, pod_phase


class Run(msgspec.Struct):
    """One container on this node: the present attempt and the one before it."""

    name: str
    attempt: int = -1
    """Which start this is, counted from 0; -1 before the first."""
    instance: Instance | None = None
    previous: Instance | None = None
    begun: float = 0.0
    """When the present attempt began, on the loop's clock."""
    strikes: int = 0
    due: float | None = None
    """When it may start again."""
    delay: float = 0.0
    """How long it waits for that, once it waits."""
    lamented: int = -1
    """The last attempt whose wait has been told of."""
    hooked: bool = True
    """The postStart hook, if any, is through."""
    started: bool = False
    """The startup probe, if any, has succeeded."""
    ready: bool = False
    waiting: str = ""
    """Why it could not be started: a reason that clients know."""
    words: str = ""
    stopping: bool = False
    message: str = ""
    """What it said when it ended."""

    def begin(self, instance: Instance, attempt: int, now: float) -> None:
        """A new attempt has been started."""
        self.previous, self.instance = self.instance, instance
        self.attempt, self.begun, self.due, self.waiting, self.words = attempt, now, None, "", ""
        self.ready, self.started, self.hooked, self.message = False, False, True, ""

    @property
    def running(self) -> bool:
        return self.instance is not None and self.instance.running

    @property
    def ended(self) -> bool:
        return self.instance is not None and not self.instance.running

    @property
    def last(self) -> Instance | None:
        """The last one that is over for good: while the next start is waited for, the present one already is."""
        waits = self.due is not None or self.waiting
        return self.instance if self.ended and waits else self.previous

    @property
    def exit_code(self) -> int:
        return self.instance.exit_code or 0 if self.instance is not None else 0


class Next(msgspec.Struct):
    """What to do now; `wait` seconds until something may change by itself."""

    starts: list[NodeContainer] = []
    wait: float | None = None
    failed: bool = False
    """An init container has failed for good."""


def next_steps(spec: NodePodSpec, runs: Mapping[str, Run], now: float, restarting: Collection[str] = ()) -> Next:
    found = Next([])
    for visitor in spec.ephemeral_containers:
        if runs[visitor.name].attempt < 0:
            _restart(found, visitor, runs[visitor.name], now)
    mains = spec.containers or ()
    begun = any(runs[each.name].attempt >= 0 for each in mains)
    for container in spec.init_containers:
        run = runs[container.name]
        if container.sidecar:
            if not run.running:
                _restart(found, container, run, now)
            if not begun and not (run.running and run.started and run.hooked):
                return found
        elif not begun and not _init_passed(found, spec, container, run, now):
            return found
    for container in mains:
        run = runs[container.name]
        if run.attempt < 0 or (run.ended and (will_restart(spec, container, run) or container.name in restarting)):
            _restart(found, container, run, now)
    return found


def will_restart(spec: NodePodSpec, container: NodeContainer, run: Run) -> bool:
    """Whether a container that has ended starts again."""
    for rule in container.restart_policy_rules:
        if rule.action == "Restart" and rule.exit_codes is not None:
            listed = run.exit_code in rule.exit_codes.values
            if listed == (rule.exit_codes.operator == "In"):
                return True
    return restarts_after_exit(container.restart_policy or spec.restart_policy, run.exit_code)


def delay_after(run: Run, now: float) -> float:
    """How long a container that has just ended waits; counts it."""
    pause, run.strikes = next_pause(run.strikes, now - run.begun)
    return pause


def phase(spec: NodePodSpec, runs: Mapping[str, Run], restarting: Collection[str] = ()) -> str:
    """The pod's phase. `restarting` are containers that were stopped for a resize."""
    init_failed = spec.restart_policy == "Never" and any(
        runs[each.name].ended and runs[each.name].exit_code != 0 for each in spec.init_containers if not each.sidecar
    )
    mains = [_progress(spec, each, runs[each.name], restarting) for each in spec.containers or ()]
    return pod_phase(mains, init_failed=init_failed)


def _progress(spec: NodePodSpec, container: NodeContainer, run: Run, restarting: Collection[str]) -> ContainerProgress:
    if run.attempt < 0:
        return ContainerProgress.NOT_STARTED
    if not run.ended or will_restart(spec, container, run) or container.name in restarting or run.waiting:
        return ContainerProgress.ACTIVE
    return ContainerProgress.FAILED if run.exit_code else ContainerProgress.SUCCEEDED


def initialised(spec: NodePodSpec, runs: Mapping[str, Run]) -> list[str]:
    """Init containers that are not through yet; none once a main container has started."""
    if any(runs[each.name].attempt >= 0 for each in spec.containers or ()):
        return []
    return [
        each.name
        for each in spec.init_containers
        if not (
            (runs[each.name].running and runs[each.name].started)
            if each.sidecar
            else (runs[each.name].ended and runs[each.name].exit_code == 0)
        )
    ]


def _init_passed(found: Next, spec: NodePodSpec, container: NodeContainer, run: Run, now: float) -> bool:
    if run.attempt < 0:
        _restart(found, container, run, now)
        return False
    if run.running:
        return False
    if run.exit_code == 0:
        return True
    if spec.restart_policy == "Never":
        found.failed = True
        return False
    _restart(found, container, run, now)
    return False


def _restart(found: Next, container: NodeContainer, run: Run, now: float) -> None:
    if run.attempt >= 0 and run.due is None and not run.waiting:
        run.delay = delay_after(run, now)
        run.due = now + run.delay
    if run.due is None or run.due <= now:
        found.starts.append(container)
    else:
        wait = run.due - now
        found.wait = wait if found.wait is None else min(found.wait, wait)
