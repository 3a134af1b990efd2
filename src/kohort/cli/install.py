"""`kohort install`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.installing import PATH, on_cluster, options_of, with_options
from kohort.objects.jsontypes import Json

if TYPE_CHECKING:
    from kohort.kube.client import Client


@click.command("install")
@click.option("--kubeconfig", type=PATH, help="Configuration file.  [default: as kubectl]")
@click.option(
    "--wait", type=float, default=120.0, show_default=True, help="Seconds to wait for the operator; 0 not to wait."
)
@with_options
def command(kubeconfig: Path | None, wait: float, **values: Json) -> None:
    """Install the operator on a cluster, or change an installation. Can be repeated."""
    options = options_of(values)

    async def work(client: "Client") -> None:
        from kohort.install.installation import install

        await install(client, options, click.echo, wait=wait if options.replicas else 0.0)

    on_cluster(kubeconfig, work)
