"""The command itself: knows the names of its subcommands and what they are for, and imports only the one called."""

from collections.abc import Mapping
from importlib import import_module

import click

from kohort import __version__
from kohort.cli import interruption
from kohort.cli.connection import which_cluster

COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("kohort.cli.up", "Start a cluster on this machine."),
    "down": ("kohort.cli.down", "Stop the cluster of a data directory."),
    "operator": ("kohort.cli.operator", "Run the operator on a cluster."),
    "manifests": ("kohort.cli.manifests", "Print what `install` would apply, as YAML."),
    "install": ("kohort.cli.install", "Install the operator on a cluster."),
    "uninstall": ("kohort.cli.uninstall", "Remove the operator from a cluster."),
    "demo": (
        "kohort.cli.demo",
        "Serve, release, resize and roll back a model, on a cluster of its own.",
    ),
    "node": ("kohort.cli.node", "Make this machine a node of a cluster."),
    "get": ("kohort.cli.get", "Show groups as a tree: pods, nodes, revisions, readiness."),
    "list": ("kohort.cli.list", "List workloads, one line each."),
    "status": ("kohort.cli.status", "Show the progress of a roll or of scaling; -w waits for its end."),
    "explain": ("kohort.cli.explain", "Explain why a set is not ready, and what to do."),
    "failures": ("kohort.cli.failures", "Show the last failures of a set's groups, with exit codes and logs."),
    "plan": ("kohort.cli.plan", "Show what applying a file would do."),
    "lint": ("kohort.cli.lint", "Check sets, Rollouts and routes in files."),
    "history": ("kohort.cli.history", "List the revisions of a set."),
    "diff": ("kohort.cli.diff", "Show how two revisions differ."),
    "releases": ("kohort.cli.releases", "List the releases of a workload, and how each ended."),
    "analysis": ("kohort.cli.analysis", "Show how the steps of a release were judged by metrics."),
    "set": ("kohort.cli.set", "Give containers another image: kohort set image."),
    "undo": ("kohort.cli.undo", "Return to an earlier revision."),
    "pause": ("kohort.cli.pause", "Hold a roll."),
    "resume": ("kohort.cli.resume", "Continue a roll."),
    "approve": ("kohort.cli.approve", "Continue a release whose step waits for approval."),
    "abort": ("kohort.cli.abort", "Abort a roll or a release, and return to what was served before."),
    "retry": ("kohort.cli.retry", "Begin a step, or an aborted release, again."),
    "release": ("kohort.cli.release", "End a release and its Rollout, and keep the stable version."),
    "restart": ("kohort.cli.restart", "Recreate groups step by step, or one at once."),
    "resize": ("kohort.cli.resize", "Change the pods per group, or CPU and memory in place."),
    "logs": ("kohort.cli.logs", "Show the logs of a set's pods, interleaved."),
    "dashboard": ("kohort.cli.dashboard", "Show sets in a browser, live."),
    "examples": ("kohort.cli.examples", "List the example manifests, or print one."),
    "completion": ("kohort.cli.completion", "Print the completion script for a shell."),
    "version": ("kohort.cli.version", "Print the version."),
}
"""Name of a subcommand: where it lives (a click command called `command`), and its line in the overview."""


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": "KOHORT"}
"""Every option can be given by a variable too: `--port` of `kohort up` is KOHORT_UP_PORT."""


class LazyGroup(click.Group):
    """Subcommands by name only, until one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(module).command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(interruption.INTERRUPTED)
        except BrokenPipeError:
            raise  # click ends without a message when the reader has closed the pipe
        except OSError as problem:
            click.echo(f"kohort: {problem}", err=True)
            ctx.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            found = super().resolve_command(ctx, args)
            interruption.raise_exception()  # the command is imported, and may have to clean up from now on
            return found
        except click.UsageError as problem:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            if not close:
                raise
            raise click.UsageError(f"{problem.message} Did you mean `kohort {close[0]}`?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings=SETTINGS)
@click.version_option(__version__, message="kohort %(version)s", help="Print the version.")
@which_cluster
def main(**cluster: str | None) -> None:
    """Multi-host inference groups on Kubernetes: created, rolled, resized and released as one unit."""
    context = click.get_current_context()
    given = {name: value for name, value in cluster.items() if value is not None}
    name = context.invoked_subcommand
    if not given or name is None:
        return
    command = main.get_command(context, name)
    known = {one.name for one in command.params} if command else set()
    for unknown in given.keys() - known:
        raise click.UsageError(f"`kohort {name}` has no --{unknown}", context)
    context.default_map = {name: given}
