"""`kohort dashboard`."""

import os

import click

from kohort.cli.connection import Target, cluster_options, execute
from kohort.cli.option_types import listed


@click.command("dashboard")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8088, show_default=True, help="Port; 0 for any free one."
)
@click.option(
    "--auth",
    type=click.Choice(["link", "token", "proxy"]),
    default="link",
    show_default=True,
    help="How users log in: by the link that is printed, with a token of the cluster each, or at a proxy in front.",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(dir_okay=False),
    help="For --auth proxy: the secret that the proxy sends as X-Kohort-Proxy-Secret.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Other names by which browsers reach it, such as that of an Ingress.",
)
@click.option("--namespaces", default="", metavar="LIST", help="Show only these namespaces.  [default: all]")
@click.option("--allow-actions", is_flag=True, help="Let users act: approve, pause, abort, restart, undo.")
@cluster_options
def command(
    host: str,
    port: int,
    auth: str,
    proxy_secret_file: str | None,
    allowed_hosts: tuple[str, ...],
    namespaces: str,
    allow_actions: bool,
    target: Target,
) -> None:
    """Show sets in a browser: state, groups, releases and causes, live.

    With --auth link, pages show what the user of the kubeconfig may read. With --auth token, each user sees only what
    the API server allows that user to list. Actions are previewed, are done with the rights of the user, and leave an
    event with the user's name.
    """
    # A person in front of the terminal wants problems, not progress.
    os.environ.setdefault("KOHORT_LOG", "warning")
    from kohort.cli.actions import dashboard

    if (auth == "proxy") != bool(proxy_secret_file):
        raise click.UsageError("--auth proxy and --proxy-secret-file belong together")
    hosts = tuple(host for given in allowed_hosts for host in listed(given))
    places = tuple(listed(namespaces))
    execute(
        target,
        lambda client, namespace: dashboard.serve(
            client,
            namespace,
            host,
            port,
            auth,
            hosts,
            allow_actions=allow_actions,
            namespaces=places,
            secret_file=proxy_secret_file,
        ),
    )
