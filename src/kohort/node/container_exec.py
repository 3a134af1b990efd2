"""Commands that the agent itself runs in containers, for hooks and probes."""

from kohort.node.pod_record import PodRecord
from kohort.node.probes import Execute, NoProbeResult
from kohort.node.runtimes.interface import CannotStart, Runtime, command_in


def executor(record: PodRecord, runtime: Runtime, container: str) -> Execute:
    """Runs commands in a container of a pod. A runtime that does not answer, or cannot run the command, says nothing
    about the container: only the exit code of a command does."""

    async def execute(command: tuple[str, ...]) -> tuple[int, bytes]:
        run, launch = record.runs[container], record.launches.get(container)
        if run.instance is None or launch is None:
            raise NoProbeResult("the container is not running")
        inside = command_in(launch, f"{run.instance.id}_x", command, stdin=False, tty=False)
        try:
            return await runtime.run_command(run.instance.id, inside)
        except (CannotStart, OSError) as problem:
            raise NoProbeResult(str(problem)) from problem

    return execute
