"""`kohort lint`."""

import click

from kohort.cli.connection import Target, cluster_options, execute, output_option, print_error


@click.command("lint")
@click.option(
    "-f",
    "--filename",
    "filenames",
    required=True,
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="What to check: a file, a directory of files, or - for standard input.",
)
@output_option()
@cluster_options
def command(filenames: tuple[str, ...], output: str, target: Target) -> None:
    """Check sets, Rollouts, Services and routes in files: what the cluster would refuse, names that lead nowhere, and
    steps that do nothing. Nothing is changed. Exit code 1 if anything is found."""
    from kohort.cli.actions import plan
    from kohort.cli.connection import Refusal

    try:
        files = plan.read(filenames)
    except Refusal as problem:
        click.get_current_context().exit(print_error(str(problem)))
    execute(target, lambda client, namespace: plan.lint(client, namespace, files, output))
