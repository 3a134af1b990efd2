"""`kohort version`."""

import click

from kohort import __version__


@click.command("version")
def command() -> None:
    """Print the version of kohort."""
    click.echo(f"kohort {__version__}")
