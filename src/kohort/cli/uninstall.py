"""`kohort uninstall`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.installing import PATH, on_cluster, options_of, with_options
from kohort.objects.jsontypes import Json

if TYPE_CHECKING:
    from kohort.kube.client import Client


@click.command("uninstall")
@click.option("--kubeconfig", type=PATH, help="Which cluster.  [default: as kubectl]")
@click.option("--keep-objects", is_flag=True, help="Keep the definitions, all sets and their pods.")
@click.option("--yes", is_flag=True, help="Do not ask before sets are removed.")
@with_options
def command(kubeconfig: Path | None, keep_objects: bool, yes: bool, **values: Json) -> None:
    """Remove the operator. Without --keep-objects, the sets go with it and so do their pods."""
    options = options_of(values)

    async def work(client: "Client") -> None:
        from kohort.install.installation import sets_in, uninstall

        doomed = [] if keep_objects else await sets_in(client)
        if doomed:
            click.echo(f"{len(doomed)} sets will be removed with all their pods: {', '.join(doomed[:10])}", err=True)
            if not yes and sys.stdin.isatty():
                click.confirm("Go on?", abort=True)
        await uninstall(client, options, click.echo, keep_objects=keep_objects)

    on_cluster(kubeconfig, work)
