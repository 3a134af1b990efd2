"""`kohort version`."""

import click

from kohort import __version__


@click.command("version")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Output format.")
def command(output: str) -> None:
    """Print the version of kohort."""
    if output == "json":
        click.echo(f'{{"version": "{__version__}"}}')
    elif output == "yaml":
        click.echo(f"version: {__version__}")
    else:
        click.echo(f"kohort {__version__}")
