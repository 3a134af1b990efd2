"""Options that `manifests`, `install` and `uninstall` share."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.connection import fail
from kohort.cli.values import listed
from kohort.objects.jsontypes import Json

if TYPE_CHECKING:
    from kohort.install.options import Options
    from kohort.kube.client import Client

PATH = click.Path(path_type=Path)

_SHARED = (
    click.option("--namespace", metavar="NAME", help="Namespace of the operator.  [default: lws-system]"),
    click.option("--image", metavar="NAME", help="The operator's image."),
    click.option("--replicas", type=click.IntRange(0), help="Replicas of the operator.  [default: 2]"),
    click.option("--namespaces", metavar="LIST", help="Confine the operator to these namespaces.  [default: all]"),
    click.option("--rollouts/--no-rollouts", default=True, help="Whether it handles Rollouts, too.  [default: yes]"),
    click.option("--cert-manager", is_flag=True, help="Let cert-manager issue the webhook certificate."),
    click.option("--service-monitor", is_flag=True, help="Add a ServiceMonitor for the Prometheus operator."),
    click.option(
        "--gang-scheduler",
        type=click.Choice(["volcano", "kubernetes"]),
        help="Schedule each group as a gang, with PodGroups of this scheduler.",
    ),
    click.option(
        "--default-resize-policy", type=click.Choice(["None", "Recreate"]), help="For sets that do not specify one."
    ),
)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_SHARED):
        command = option(command)
    return command


def options_of(values: dict[str, Json]) -> "Options":
    """The choices that were made; the rest by default."""
    from kohort.install.options import Options

    chosen = {name: value for name, value in values.items() if value is not None}
    if "namespaces" in chosen:
        chosen["namespaces"] = tuple(listed(chosen["namespaces"]))
        if not chosen["namespaces"]:  # a variable that was not set must not mean everything
            raise click.UsageError("--namespaces: names no namespace; leave it out to look after all")
    _check_names("--namespace", *filter(None, (chosen.get("namespace"),)))
    _check_names("--namespaces", *chosen.get("namespaces", ()))
    return Options(**chosen)


def _check_names(option: str, *names: str) -> None:
    from kohort.objects.names import dns1123_label

    for name in names:
        if problems := dns1123_label(name):
            raise click.UsageError(f"{option}: {name!r} cannot be a namespace: {problems[0]}")


def on_cluster(kubeconfig: Path | None, work: "Callable[[Client], Awaitable[None]]") -> None:
    """Do something with a cluster; a failure is one line."""
    from kohort.install.installation import InstallationFailed
    from kohort.kube.client import Client
    from kohort.kube.errors import ApiError
    from kohort.kube.kubeconfig import KubeconfigError, load

    async def run() -> None:
        client = Client(load(kubeconfig), field_manager="kohort-install", user_agent="kohort-install")
        try:
            await work(client)
        finally:
            await client.close()

    try:
        asyncio.run(run())
    except (InstallationFailed, KubeconfigError) as problem:
        fail(str(problem))
    except ApiError as problem:
        fail(problem.message)
