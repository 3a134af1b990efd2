"""What all commands that talk to a cluster share: their options, their errors and their exit codes."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, ParamSpec, TypeVar

import click

from kohort.cli.interruption import INTERRUPTED

if TYPE_CHECKING:
    from kohort.kube.client import Client

REFUSED: Final = 1
NOT_YET: Final = 3
DIFFERENT: Final = 4
PAUSED: Final = 4
TOO_LATE: Final = 5
EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done; the workload is as it should be; nothing would change",
    1: "refused, not found or not reachable; stderr has the reason and what to do; `lint`: something was found",
    2: "the command line itself is wrong",
    3: (
        "`status` and `explain`: the workload is not, or not yet, as it should be; `status --cluster`: not all parts "
        "are ready; `plan` and `resize --dry-run`: the nodes lack the room, a group is refused, or one is waited for "
        "that does not become ready by itself; `plan --drain`: the drain would not end; `resize`: it stopped"
    ),
    4: (
        "`status` and `resize`: a release is paused and waits for approval; `plan` and `diff` with `--exit-code`: "
        "differences"
    ),
    5: "`status -w --timeout`, `resize --timeout` and `release stop`: timed out",
    INTERRUPTED: "interrupted",
}

P = ParamSpec("P")
R = TypeVar("R")


class Refusal(Exception):
    """A command cannot be carried out; the message has the reason and what to do."""


class CommandTarget(NamedTuple):
    """Which cluster, and which namespace of it."""

    kubeconfig: str | None
    context: str
    namespace: str
    client: str = "kohort-cli"
    """How the command calls itself: its user agent, and the field manager of what it writes."""


Action = Callable[["Client", str], Awaitable[int]]
"""Gets a client and the namespace; returns the exit code."""
Runner = Callable[[CommandTarget, Action], int]


def which_server(function: Callable[..., R]) -> Callable[..., R]:
    """The options that kubectl has for it, by the same names."""
    for option in (
        click.option(
            "--kubeconfig", type=click.Path(dir_okay=False), help="Configuration file.  [default: as kubectl]"
        ),
        click.option(
            "--context",
            shell_complete=suggested("contexts"),
            help="Context of the kubeconfig.  [default: its current one]",
        ),
    ):
        function = option(function)
    return function


def which_cluster(function: Callable[..., R]) -> Callable[..., R]:
    """As `which_server`, and the namespace."""
    return which_server(
        click.option(
            "-n",
            "--namespace",
            shell_complete=suggested("namespaces"),
            help="Namespace.  [default: that of the context]",
        )(function)
    )


def cluster_options(function: Callable[..., R]) -> Callable[..., R]:
    """Adds -n, --context and --kubeconfig, and hands them on as one `target`."""

    @which_cluster
    @wraps(function)
    def wrapped(kubeconfig: str | None, context: str | None, namespace: str | None, **options: str | None) -> R:
        return function(target=CommandTarget(kubeconfig, context or "", namespace or ""), **options)

    return wrapped


def set_argument(*, required: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A LeaderWorkerSet."""
    return click.argument("name", required=required, callback=_set_name, shell_complete=suggested("sets"))


def workload_argument(*, required: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Any workload that a Rollout may release."""
    return click.argument("name", required=required, callback=_workload_name, shell_complete=suggested("sets"))


def suggested(what: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What a shell offers: `sets`, `namespaces` or `contexts`."""

    def suggest(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        from kohort.cli import completion_candidates

        before = context.parent.params if context.parent else {}
        given = {name: context.params.get(name) or before.get(name) for name in ("kubeconfig", "context", "namespace")}
        target = CommandTarget(given["kubeconfig"], given["context"] or "", given["namespace"] or "")
        return [one for one in completion_candidates.of(what, target) if one.startswith(begun)]

    return suggest


KINDS: Final[Mapping[str, str]] = {
    "lws": "",
    "leaderworkerset": "",
    "leaderworkersets": "",
    "deploy": "deployment/",
    "deployment": "deployment/",
    "deployments": "deployment/",
    "sts": "statefulset/",
    "statefulset": "statefulset/",
    "statefulsets": "statefulset/",
    "rollout": "rollout/",
    "rollouts": "rollout/",
}
"""What may stand before the slash of a name, as kubectl prints it, and what the actions read."""


def _workload_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """
    >>> _workload_name(click.Context(click.Command("get")), click.Argument(["name"]), "deployment.apps/web")
    'deployment/web'
    """
    from kohort.objects.names import path_segment

    if value is None:
        return None
    kind, _, name = value.partition("/") if "/" in value else ("lws", "", value)
    known = KINDS.get(kind.split(".")[0].lower())
    if known is None or not name or path_segment(name):
        raise click.BadParameter(
            f"{value!r} names no workload: write the name of a LeaderWorkerSet, deployment/NAME, statefulset/NAME or "
            "rollout/NAME"
        )
    return f"{known}{name}"


def _set_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """For commands about groups, which only LeaderWorkerSets have."""
    name = _workload_name(context, parameter, value)
    if name is not None and "/" in name:
        raise click.BadParameter(f"{value!r} is not a LeaderWorkerSet: write its name, or lws/NAME")
    return name


def output_option(*more: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    choice = click.Choice(["text", "json", "yaml", *more])
    return click.option("-o", "--output", type=choice, default="text", help="Output format.")


def selector_option(function: Callable[P, R]) -> Callable[P, R]:
    return click.option(
        "-l", "--selector", default="", callback=_selector, metavar="LABELS", help="Only those with these labels: a=b,c"
    )(function)


def _selector(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from kohort.objects.selectors import LabelSelector

    try:
        LabelSelector.parse(value)
    except ValueError as problem:
        raise click.BadParameter(f"{value!r} selects nothing: {problem}") from None
    return value


def execute(target: CommandTarget, action: Action) -> None:
    """Run an action and end the process with its exit code. Tests pass an `obj` that runs it instead."""
    runner: Runner | None = click.get_current_context().find_root().obj
    sys.exit((runner or _run)(target, action))


def _run(target: CommandTarget, action: Action) -> int:
    import asyncio

    try:
        return asyncio.run(_connected(target, action))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _connected(target: CommandTarget, action: Action) -> int:
    from kohort.kube.client import Client
    from kohort.kube.kubeconfig import BrokenKubeconfig, KubeconfigError, load

    try:
        transport = load(target.kubeconfig, context=target.context)
    except BrokenKubeconfig as problem:
        return print_error(f"{problem}; fix the file, or choose another with --kubeconfig")
    except KubeconfigError as problem:
        return print_error(f"{problem}; {_nearest()}")
    client = Client(transport, field_manager=target.client, user_agent=target.client)
    try:
        return await guarded(action, client, target.namespace or transport.connection.namespace, target)
    finally:
        await client.close()


def _nearest() -> str:
    """How to get to a cluster: to the one of this machine, if it is there."""
    from kohort.up.data_directory import DataDirectory, default_directory

    found = DataDirectory(default_directory())
    if found.owner() is not None:
        return f"a cluster runs on this machine: export KUBECONFIG={found.kubeconfig}"
    return "`kohort up --detach` starts a cluster on this machine"


def _start_command(target: CommandTarget | None) -> str:
    """What starts the cluster of the kubeconfig in use, if that is one of this machine."""
    from kohort.kube.kubeconfig import files_in_use
    from kohort.up.data_directory import DataDirectory, default_directory, directory_in_use

    if target is None or target.context:
        return DataDirectory(default_directory()).start_command
    return DataDirectory(directory_in_use(files_in_use(target.kubeconfig)) or default_directory()).start_command


async def guarded(action: Action, client: "Client", namespace: str, target: CommandTarget | None = None) -> int:
    """The exit code of an action; its failures are printed in one line. `target` is what the user has chosen."""
    from kohort.cli.error_messages import described
    from kohort.inspection.history import NoSuchRevision
    from kohort.kube.errors import ApiError

    try:
        return await action(client, namespace)
    except (Refusal, NoSuchRevision) as problem:
        return print_error(str(problem))
    except ApiError as problem:
        return print_error(described(problem, namespace, start=_start_command(target)))


def print_error(text: str) -> int:
    """Print an error to stderr; returns its exit code."""
    from kohort.rules.terminal_text import with_visible_controls

    click.echo(with_visible_controls(f"kohort: {text}"), err=True)
    return REFUSED


def fail(text: str) -> NoReturn:
    sys.exit(print_error(text))
