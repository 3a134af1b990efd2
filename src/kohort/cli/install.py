"""`kohort install`."""

from typing import TYPE_CHECKING

import click

from kohort.cli import option_types as values_of
from kohort.cli.connection import which_server
from kohort.cli.install_options import on_cluster, options_of, with_options
from kohort.objects.json_types import Json

if TYPE_CHECKING:
    from kohort.kube.client import Client


@click.command("install")
@which_server
@click.option(
    "--wait",
    type=values_of.Seconds(0),
    default=120.0,
    show_default=True,
    help="Seconds to wait for the operator; 0 not to wait.",
)
@with_options
def command(kubeconfig: str | None, context: str | None, wait: float, **values: Json) -> None:
    """Install the operator on a cluster, or change an installation. Can be repeated."""
    options = options_of(values)

    async def work(client: "Client") -> None:
        from kohort.install.installation import install

        await install(client, options, click.echo, wait=wait if options.replicas else 0.0)

    on_cluster(kubeconfig, context, work)
