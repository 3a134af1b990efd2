"""Options that `manifests`, `install` and `uninstall` share."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.connection import CommandTarget, Refusal, execute
from kohort.cli.option_types import WholeNumber, listed
from kohort.objects.json_types import Json

if TYPE_CHECKING:
    from kohort.install.options import InstallOptions
    from kohort.kube.client import Client

CLIENT: Final = "kohort-install"

_NAMESPACE = click.option("-n", "--namespace", metavar="NAME", help="Namespace of the operator.  [default: lws-system]")
_CHOICES = (
    click.option("--image", metavar="NAME", help="The operator's image."),
    click.option("--replicas", type=WholeNumber(0), help="Replicas of the operator.  [default: 2]"),
    click.option("--namespaces", metavar="LIST", help="Confine the operator to these namespaces.  [default: all]"),
    click.option("--rollouts/--no-rollouts", default=True, help="Whether it handles Rollouts, too.  [default: yes]"),
    click.option("--cert-manager", is_flag=True, help="Let cert-manager issue the webhook certificate."),
    click.option("--service-monitor", is_flag=True, help="Add a ServiceMonitor for the Prometheus operator."),
    click.option(
        "--gang-scheduler",
        type=click.Choice(["volcano", "kubernetes"]),
        help="Schedule each group as a gang, with PodGroups of this scheduler.",
    ),
    click.option("--dashboard", is_flag=True, help="Install the dashboard, too; users log in with tokens."),
    click.option(
        "--dashboard-actions", is_flag=True, help="Let its users act: approve, abort, restart, resize and others."
    ),
    click.option(
        "--dashboard-hosts", metavar="LIST", help="Names by which browsers reach it, such as that of an Ingress."
    ),
    click.option(
        "--dashboard-tls-secret",
        metavar="NAME",
        help="It serves HTTPS with tls.crt and tls.key of this Secret; users may show client certificates, too.",
    ),
    click.option(
        "--default-resize-policy", type=click.Choice(["None", "Recreate"]), help="For sets that do not specify one."
    ),
)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Everything that can be chosen about an installation."""
    for option in reversed(_CHOICES):
        command = option(command)
    return with_namespace(command)


def with_namespace(command: Callable[..., None]) -> Callable[..., None]:
    """Only where the installation is."""
    return _NAMESPACE(command)


def options_of(values: dict[str, Json]) -> "InstallOptions":
    """The choices that were made; the rest by default."""
    from kohort.install.options import InstallOptions

    chosen = {name: value for name, value in values.items() if value is not None}
    if "namespaces" in chosen:
        chosen["namespaces"] = tuple(listed(chosen["namespaces"]))
        if not chosen["namespaces"]:  # a variable that was not set must not mean everything
            raise click.UsageError("--namespaces: names no namespace; leave it out to look after all")
    if "dashboard_hosts" in chosen:
        chosen["dashboard_hosts"] = tuple(listed(chosen["dashboard_hosts"]))
    details = ("dashboard_actions", "dashboard_hosts", "dashboard_tls_secret")
    if not chosen.get("dashboard") and any(chosen.get(one) for one in details):
        raise click.UsageError("--dashboard-actions, --dashboard-hosts, --dashboard-tls-secret: add --dashboard")
    _check_names("--namespace", *filter(None, (chosen.get("namespace"),)))
    _check_names("--namespaces", *chosen.get("namespaces", ()))
    return InstallOptions(**chosen)


def _check_names(option: str, *names: str) -> None:
    from kohort.objects.names import dns1123_label

    for name in names:
        if problems := dns1123_label(name):
            raise click.UsageError(f"{option}: {name!r} cannot be a namespace: {problems[0]}")


def on_cluster(kubeconfig: str | None, context: str | None, work: "Callable[[Client], Awaitable[None]]") -> None:
    """Run an action on a cluster; failures are printed as by every other command."""

    async def action(client: "Client", namespace: str) -> int:
        from kohort.install.installation import InstallationFailed

        try:
            await work(client)
        except InstallationFailed as problem:
            raise Refusal(str(problem)) from problem
        return 0

    execute(CommandTarget(kubeconfig, context or "", "", CLIENT), action)
