"""Commands that the agent itself runs in containers, for hooks and probes."""

from kohort.node.pod_record import PodRecord
from kohort.node.probes import Execute
from kohort.node.runtimes.interface import CannotStart, Runtime, command_in

CANNOT_EXECUTE = 126
"""The exit code that shells use for a command that cannot be run."""


def executor(record: PodRecord, runtime: Runtime, container: str) -> Execute:
    """Runs commands in a container of a pod."""

    async def execute(command: tuple[str, ...]) -> tuple[int, bytes]:
        run, launch = record.runs[container], record.launches.get(container)
        if run.instance is None or launch is None:
            return CANNOT_EXECUTE, b"the container is not running"
        inside = command_in(launch, f"{run.instance.id}_x", command, stdin=False, tty=False)
        try:
            return await runtime.run_command(run.instance.id, inside)
        except CannotStart as problem:
            return CANNOT_EXECUTE, str(problem).encode()

    return execute
