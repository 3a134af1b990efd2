"""`kohort manifests`."""

import click

from kohort.cli.install_options import options_of, with_options
from kohort.objects.json_types import Json


@click.command("manifests")
@with_options
def command(**values: Json) -> None:
    """Print everything that `kohort install` applies, as YAML for `kubectl apply --server-side -f -`."""
    from kohort.install.manifests import manifests
    from kohort.install.rendering import render

    click.echo(render(manifests(options_of(values))), nl=False)
