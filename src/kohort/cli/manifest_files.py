"""The option -f of commands that read manifests, and reading them before a cluster is asked."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from kohort.cli.connection import print_error

P = ParamSpec("P")
R = TypeVar("R")


def filename_option(what: str, *, required: bool = True) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`what` the files hold for this command."""
    return click.option(
        "-f",
        "--filename",
        "filenames",
        required=required,
        multiple=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help=f"{what}: a file, a directory of files, or - for standard input.",
    )


def read_files(filenames: tuple[str, ...]) -> dict[str, str]:
    """What the files hold, by their names. Ends the command if one cannot be read."""
    from kohort.cli.actions import plan
    from kohort.cli.connection import Refusal

    try:
        return plan.read(filenames)
    except Refusal as problem:
        click.get_current_context().exit(print_error(str(problem)))
