"""Which containers of a pod are started, in which order, and when. Pure.

| container    | starts when                                                    | starts again                  |
|--------------|----------------------------------------------------------------|-------------------------------|
| regular init | all before it have succeeded, sidecars before it have started  | as the restart policy says    |
| sidecar      | in its turn among the init containers                          | always                        |
| any other    | all init containers are through                                | as the restart policy says    |
| ephemeral    | at once                                                        | never                         |

The pause before each next start is that of `kohort.rules.container_restarts`, counted from the end of the container: a
pod that has waited for its sandbox meanwhile does not wait twice. Another image or other resources of the container
begin afresh, as kubelet's back-off does: a container that ran out of memory and is given more starts at once.

A container that was stopped for a resize starts again whatever the policy. Kubelet does not count the end that it
brings about itself, but the one before: such a container waits only if it was started less than its pause ago. Every
container of a pod that is restarted as a whole (`RestartAllContainers`) starts again whatever the policy, too, after
the same pause as any other.
"""

from collections.abc import Collection, Mapping

import msgspec

from kohort.node.runtimes.interface import Instance
from kohort.objects.node_pods import NodeContainer, NodePodSpec
from kohort.objects.pods import ResourceRequirements
from kohort.rules.container_restarts import RESTART_ALL, action_of_rules, next_pause, restarts_after_exit
from kohort.rules.pod_status import ContainerProgress, pod_phase


class ContainerRun(msgspec.Struct):
    """One container on this node: the present attempt and the one before it."""

    name: str
    attempt: int = -1
    """Which start this is, counted from 0; -1 before the first."""
    instance: Instance | None = None
    previous: Instance | None = None
    begun_at: float = 0.0
    """When the present attempt began, on the loop's clock."""
    ended_at: float | None = None
    """When it was seen to have ended, on the same clock."""
    failures: int = 0
    """Ends and failed starts in a row, which make the pause before the next start longer."""
    counted_for: tuple[str, ResourceRequirements] | None = None
    """The image and the resources with which the ends have happened: with others, counting begins afresh."""
    restart_due: float | None = None
    """When it may start again."""
    restart_pause: float = 0.0
    """How long it waits for that."""
    backoff_reported: int = -1
    """The last attempt for which a BackOff event was written."""
    post_start_done: bool = True
    """The postStart hook, if any, has succeeded."""
    started: bool = False
    """The startup probe, if any, has succeeded."""
    ready: bool = False
    waiting_reason: str = ""
    """Why it could not be started: a reason that clients know."""
    waiting_message: str = ""
    stopping: bool = False
    outdated: bool = False
    """It ran in namespaces of the pod that are gone: init containers run again."""
    restarts_with_all: bool = False
    """It was stopped because all containers of the pod start again."""
    termination_message: str = ""
    previous_message: str = ""
    """The termination message of the attempt before the present one."""

    def begin(self, instance: Instance, attempt: int, now: float) -> None:
        """A new attempt has been started."""
        self.previous, self.instance = self.instance, instance
        self.previous_message = self.termination_message
        self.attempt, self.begun_at, self.ended_at, self.restart_due = attempt, now, None, None
        self.waiting_reason, self.waiting_message, self.termination_message = "", "", ""
        self.ready, self.started, self.post_start_done = False, False, True
        self.outdated = self.restarts_with_all = False

    @property
    def begun(self) -> bool:
        """It was started in the present namespaces of the pod, and since all of its containers were restarted."""
        return self.attempt >= 0 and not self.outdated and not self.restarts_with_all

    @property
    def running(self) -> bool:
        return self.instance is not None and self.instance.running

    @property
    def ended(self) -> bool:
        return self.instance is not None and not self.instance.running

    @property
    def last(self) -> Instance | None:
        """The last attempt that has ended: the present one while the next start is due, else the one before it."""
        waits = self.restart_due is not None or self.waiting_reason or self.restarts_with_all
        return self.instance if self.ended and waits else self.previous

    @property
    def exit_code(self) -> int:
        return self.instance.exit_code or 0 if self.instance is not None else 0


class NextStarts(msgspec.Struct):
    """Containers to start now; in `wait` seconds more may be due."""

    starts: list[NodeContainer] = []
    wait: float | None = None
    failed: bool = False
    """An init container has failed for good."""


def next_starts(
    spec: NodePodSpec, runs: Mapping[str, ContainerRun], now: float, restarting: Collection[str] = ()
) -> NextStarts:
    steps = NextStarts([])
    for container in spec.ephemeral_containers:
        if runs[container.name].attempt < 0:
            _restart(steps, container, runs[container.name], now)
    mains = spec.containers or ()
    begun = any(runs[each.name].begun for each in mains)
    for container in spec.init_containers:
        run = runs[container.name]
        if container.sidecar:
            if not run.running:
                _restart(steps, container, run, now, stopped_for_resize=container.name in restarting)
            if not begun and not (run.running and run.started and run.post_start_done):
                return steps
        elif not begun and not _init_passed(steps, spec, container, run, now):
            return steps
    for container in mains:
        run = runs[container.name]
        stopped = container.name in restarting
        if run.attempt < 0 or (run.ended and (will_restart(spec, container, run) or stopped)):
            _restart(steps, container, run, now, stopped_for_resize=stopped)
    return steps


def will_restart(spec: NodePodSpec, container: NodeContainer, run: ContainerRun) -> bool:
    """Whether a container that has ended starts again."""
    if run.restarts_with_all or action_of_rules(container.restart_policy_rules, run.exit_code):
        return True
    return restarts_after_exit(container.restart_policy or spec.restart_policy, run.exit_code)


def restarts_all(spec: NodePodSpec, runs: Mapping[str, ContainerRun]) -> ContainerRun | None:
    """A container that has ended in a way after which all containers of its pod start again."""
    for container in (*spec.init_containers, *(spec.containers or ())):
        run = runs[container.name]
        action = action_of_rules(container.restart_policy_rules, run.exit_code) if run.ended else ""
        if action == RESTART_ALL and not run.restarts_with_all:
            return run
    return None


def may_restart_all(spec: NodePodSpec) -> bool:
    """Whether the pod has a rule that restarts all containers."""
    return any(
        rule.action == RESTART_ALL
        for container in (*spec.init_containers, *(spec.containers or ()))
        for rule in container.restart_policy_rules
    )


def pause_after_end(run: ContainerRun, now: float) -> float:
    """The pause before the next start of a container that has just ended or failed to start; counts it."""
    pause, run.failures = next_pause(run.failures, now - run.begun_at)
    return pause


def phase(spec: NodePodSpec, runs: Mapping[str, ContainerRun], restarting: Collection[str] = ()) -> str:
    """The pod's phase. `restarting` are containers that were stopped for a resize."""
    init_failed = any(_init_failed(spec, each, runs[each.name]) for each in spec.init_containers if not each.sidecar)
    mains = [_progress(spec, each, runs[each.name], restarting) for each in spec.containers or ()]
    return pod_phase(mains, init_failed=init_failed)


def _init_failed(spec: NodePodSpec, container: NodeContainer, run: ContainerRun) -> bool:
    return run.ended and run.exit_code != 0 and not will_restart(spec, container, run)


def _progress(
    spec: NodePodSpec, container: NodeContainer, run: ContainerRun, restarting: Collection[str]
) -> ContainerProgress:
    if run.attempt < 0:
        return ContainerProgress.NOT_STARTED
    if not run.ended or will_restart(spec, container, run) or container.name in restarting or run.waiting_reason:
        return ContainerProgress.ACTIVE
    return ContainerProgress.FAILED if run.exit_code else ContainerProgress.SUCCEEDED


def uninitialized(spec: NodePodSpec, runs: Mapping[str, ContainerRun]) -> list[str]:
    """Init containers that are not through yet; none once a main container has started, even if all start again."""
    if any(runs[each.name].begun or runs[each.name].restarts_with_all for each in spec.containers or ()):
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


def _init_passed(steps: NextStarts, spec: NodePodSpec, container: NodeContainer, run: ContainerRun, now: float) -> bool:
    if run.attempt < 0 or (run.ended and (run.outdated or run.restarts_with_all)):
        _restart(steps, container, run, now)
        return False
    if run.running:
        return False
    if run.exit_code == 0:
        return True
    if not will_restart(spec, container, run):
        steps.failed = True
        return False
    _restart(steps, container, run, now)
    return False


def _restart(
    steps: NextStarts, container: NodeContainer, run: ContainerRun, now: float, *, stopped_for_resize: bool = False
) -> None:
    if run.attempt >= 0 and not run.waiting_reason:
        if run.counted_for != (container.image, container.resources):
            run.counted_for, run.failures, run.restart_due = (container.image, container.resources), 0, None
        if run.restart_due is None:
            _set_due(run, now, stopped_for_resize)
    if run.restart_due is None or run.restart_due <= now:
        steps.starts.append(container)
    else:
        wait = run.restart_due - now
        steps.wait = wait if steps.wait is None else min(steps.wait, wait)


def _set_due(run: ContainerRun, now: float, stopped_for_resize: bool) -> None:
    ended_at = now if run.ended_at is None else run.ended_at
    if stopped_for_resize and run.attempt == 0:
        run.restart_pause = 0.0
    else:
        run.restart_pause = pause_after_end(run, ended_at)
    run.restart_due = (run.begun_at if stopped_for_resize else ended_at) + run.restart_pause
