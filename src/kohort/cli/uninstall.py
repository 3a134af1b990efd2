"""`kohort uninstall`."""

import sys
from typing import TYPE_CHECKING

import click

from kohort.cli.connection import fail, which_server
from kohort.cli.install_options import on_cluster, options_of, with_namespace

if TYPE_CHECKING:
    from kohort.kube.client import Client

_NAMED_AT_MOST = 10


@click.command("uninstall")
@which_server
@click.option("--keep-objects", is_flag=True, help="Keep the definitions, all sets and their pods.")
@click.option("--yes", is_flag=True, help="Do not ask before sets are removed.")
@with_namespace
def command(kubeconfig: str | None, context: str | None, keep_objects: bool, yes: bool, namespace: str | None) -> None:
    """Remove the operator. Without --keep-objects, this also removes all sets and their pods."""
    options = options_of({"namespace": namespace})
    sure = yes or keep_objects
    if not sure and not sys.stdin.isatty():  # a script cannot be asked, and silence is no consent
        fail("this would remove all sets and their pods: add --yes to confirm, or --keep-objects to keep them")

    async def work(client: "Client") -> None:
        from kohort.install.installation import objects_in, uninstall

        doomed = [] if keep_objects else await objects_in(client)
        if doomed:
            click.echo(_warning(doomed), err=True)
        if not sure:
            click.confirm("Go on?", abort=True)
        await uninstall(client, options, click.echo, keep_objects=keep_objects)

    on_cluster(kubeconfig, context, work)


def _warning(doomed: list[str]) -> str:
    """
    >>> _warning(["default/llm"])
    '1 object will be removed, sets with all their pods: default/llm'
    """
    many = f"{len(doomed)} object{'s' if len(doomed) > 1 else ''} will be removed, sets with all their pods"
    more = f" and {len(doomed) - _NAMED_AT_MOST} more" if len(doomed) > _NAMED_AT_MOST else ""
    return f"{many}: {', '.join(doomed[:_NAMED_AT_MOST])}{more}"
