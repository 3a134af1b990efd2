"""`kohort dashboard`."""

import os

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute
from kohort.cli.option_types import WholeNumber, listed


@click.command("dashboard")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=WholeNumber(0, 65535), default=8088, show_default=True, help="Port; 0 for any free one.")
@click.option(
    "--auth",
    type=click.Choice(["link", "token", "certificate", "proxy"]),
    default="link",
    show_default=True,
    help="How users log in: by the link that is printed, with a token or a client certificate of the cluster each, "
    "or at a proxy in front.",
)
@click.option(
    "--tls-cert",
    type=click.Path(dir_okay=False),
    help="Serve HTTPS with this certificate (PEM, with its chain); renewed files are loaded without a restart.",
)
@click.option("--tls-key", type=click.Path(dir_okay=False), help="The key of --tls-cert (PEM).")
@click.option(
    "--client-ca",
    metavar="FILE|cluster",
    help="Authority whose client certificates name users (PEM), or 'cluster' for the cluster's own; also beside "
    "--auth token.  [default with --auth certificate: cluster]",
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
@click.option(
    "--allow-actions", is_flag=True, help="Let users act: approve, pause, abort, restart, undo, resize, scale."
)
@cluster_options
def command(
    host: str,
    port: int,
    auth: str,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    proxy_secret_file: str | None,
    allowed_hosts: tuple[str, ...],
    namespaces: str,
    allow_actions: bool,
    target: CommandTarget,
) -> None:
    """Show sets in a browser: state, groups, releases and causes, live.

    With --auth link, pages show what the user of the kubeconfig may read. With the others, each user sees only what the
    API server allows that user to list. Actions are previewed, are done with the rights of the user, and leave an event
    with the user's name.
    """
    # A person in front of the terminal wants problems, not progress.
    os.environ.setdefault("KOHORT_LOG", "warning")
    from kohort.cli.actions import dashboard

    if (auth == "proxy") != bool(proxy_secret_file):
        raise click.UsageError("--auth proxy and --proxy-secret-file belong together")
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    if auth == "certificate" and not tls_cert:
        raise click.UsageError("--auth certificate needs --tls-cert and --tls-key: certificates are shown in TLS")
    if client_ca and (auth not in ("token", "certificate") or not tls_cert):
        raise click.UsageError("--client-ca needs --tls-cert, --tls-key, and --auth certificate or --auth token")
    authority = client_ca or ("cluster" if auth == "certificate" else "")
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
            tls=dashboard.TlsOptions(tls_cert, tls_key or "", authority) if tls_cert else None,
        ),
    )
