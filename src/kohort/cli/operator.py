"""`kohort operator`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from kohort.cli.connection import fail
from kohort.cli.go_flags import GoFlagsCommand
from kohort.cli.option_types import listed
from kohort.objects.json_types import Json, JsonObject

if TYPE_CHECKING:
    from kohort.manager.certificates import Reach
    from kohort.manager.configuration import Configuration

PATH = click.Path(path_type=Path)
_PLACES = {
    "leader_elect": "leader_election.leader_elect",
    "leader_elect_lease_duration": "leader_election.lease_duration",
    "leader_elect_renew_deadline": "leader_election.renew_deadline",
    "leader_elect_retry_period": "leader_election.retry_period",
    "leader_elect_resource_lock": "leader_election.resource_lock",
    "leader_elect_resource_name": "leader_election.resource_name",
    "metrics_bind_address": "metrics.bind_address",
    "health_probe_bind_address": "health.health_probe_bind_address",
    "webhook_port": "webhook.port",
    "kube_api_qps": "client_connection.qps",
    "kube_api_burst": "client_connection.burst",
}
"""Where in the configuration an option belongs; the others are called there as they are here."""
_LEVELS = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from kohort import __version__

    click.echo(f"Version: {__version__}\nBuild Date: unknown\nGit Commit: unknown")
    context.exit()


@click.command("operator", cls=GoFlagsCommand)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version)
@click.option("--kubeconfig", type=PATH, help="The cluster to run on.  [default: the pod's own, else as kubectl]")
@click.option("--config", "config_file", type=PATH, help="Configuration file (config.lws.x-k8s.io/v1alpha1).")
@click.option(
    "--default-resize-policy", type=click.Choice(["None", "Recreate"]), help="For sets that do not specify one."
)
@click.option("--rollouts/--no-rollouts", default=None, help="Whether to handle Rollouts.  [default: yes]")
@click.option("--feature-gates", metavar="LIST", help="Feature gates of Rollouts, such as RolloutHistory=false.")
@click.option(
    "--partition-percent-limit",
    type=int,
    metavar="PERCENT",
    help="Up to which share of new pods a step of partition style may have traffic or matches.  [default: 50]",
)
@click.option(
    "--namespaces", metavar="LIST", help="Watch only these namespaces, for example team-a,team-b.  [default: all]"
)
@click.option(
    "--leader-elect/--no-leader-elect", default=None, help="Elect a leader among several operators; only one works."
)
@click.option("--leader-elect-lease-duration", metavar="DURATION", help="How long a lease lasts.")
@click.option("--leader-elect-renew-deadline", metavar="DURATION", help="When a leader that cannot renew gives up.")
@click.option("--leader-elect-retry-period", metavar="DURATION", help="Time between attempts.")
@click.option("--leader-elect-resource-lock", metavar="KIND", help="Kind of the lock: leases.")
@click.option("--leader-elect-resource-name", metavar="NAME", help="Name of the lease.")
@click.option(
    "--metrics-bind-address", metavar="ADDRESS", help="Where metrics are served, for example :8443; 0 for nowhere."
)
@click.option(
    "--health-probe-bind-address", metavar="ADDRESS", help="Where health is served, for example :8081; 0 for nowhere."
)
@click.option("--webhook-port", type=int, help="Port of the webhooks behind a Service.")
@click.option(
    "--webhooks",
    type=click.Choice(["service", "loopback", "none"]),
    help="How the API server reaches the webhooks.  [default: service in a pod, else loopback]",
)
@click.option("--kube-api-qps", type=float, help="Requests per second to the API server.")
@click.option("--kube-api-burst", type=int, help="Requests that may be sent at once.")
@click.option(
    "--operator-namespace", metavar="NAME", help="Namespace of its lease, Secret and status.  [default: the pod's own]"
)
@click.option("--zap-log-level", metavar="LEVEL", help="Log level: debug, info, error, or a number.")
@click.option("--zap-devel", is_flag=True, hidden=True, expose_value=False)
@click.option("--zap-encoder", hidden=True, expose_value=False)
@click.option("--zap-stacktrace-level", hidden=True, expose_value=False)
@click.option("--zap-time-encoding", hidden=True, expose_value=False)
def command(
    kubeconfig: Path | None,
    config_file: Path | None,
    webhooks: str | None,
    operator_namespace: str | None,
    zap_log_level: str | None,
    **settings: Json,
) -> None:
    """Run the operator on a cluster: the controllers of groups and their webhooks."""
    from kohort.manager.configuration import ConfigurationError, check, load

    reach = _reach(kubeconfig, webhooks)
    if reach == "loopback" and config_file is None:
        # Beside a cluster there may be other operators on this machine: they must not fight for ports.
        settings["metrics_bind_address"] = settings["metrics_bind_address"] or "0"
        settings["health_probe_bind_address"] = settings["health_probe_bind_address"] or "0"
    if zap_log_level:
        os.environ["KOHORT_LOG"] = _level(zap_log_level)
    try:
        configuration = load(config_file)
        settings["feature_gates"] = _gates(settings["feature_gates"])
        settings["namespaces"] = _names(settings["namespaces"])
        _override(configuration, settings)
        check(configuration)
    except ConfigurationError as problem:
        fail(str(problem))
    _run(kubeconfig, configuration, reach, operator_namespace)


def _names(text: str | None) -> list[str] | None:
    from kohort.manager.configuration import ConfigurationError

    if text is None:
        return None
    found = listed(text)
    if not found:  # a variable that was not set must not mean everything
        raise ConfigurationError("--namespaces: names no namespace; leave it out to watch all")
    return found


def _gates(text: str | None) -> dict[str, bool] | None:
    from kohort.manager.configuration import ConfigurationError
    from kohort.objects import feature_gates

    try:
        return None if text is None else feature_gates.parse(text)
    except ValueError as problem:
        raise ConfigurationError(f"--feature-gates: {problem}") from problem


def _reach(kubeconfig: Path | None, webhooks: str | None) -> "Reach":
    if os.environ.get("ENABLE_WEBHOOKS") == "false":
        return "none"
    if webhooks:
        return cast("Reach", webhooks)
    in_pod = kubeconfig is None and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return "service" if in_pod else "loopback"


def _run(kubeconfig: Path | None, configuration: "Configuration", reach: "Reach", namespace: str | None) -> None:
    from kohort.kube.kubeconfig import KubeconfigError, load
    from kohort.manager.configuration import ConfigurationError
    from kohort.manager.operator_process import OperatorOptions, operator_namespace, run

    try:
        transport = load(kubeconfig)
        run(transport, OperatorOptions(configuration, reach, namespace or operator_namespace()))
    except (KubeconfigError, ConfigurationError, OSError, ValueError) as problem:
        fail(str(problem))


def _override(configuration: "Configuration", settings: JsonObject) -> None:
    """What is given on the command line counts more than the file."""
    for option, value in settings.items():
        if value is None:
            continue
        *sections, name = _PLACES.get(option, option).split(".")
        place: object = configuration
        for section in sections:
            place = getattr(place, section)
        setattr(place, name, value)


def _level(text: str) -> str:
    """Levels of zap: higher numbers log more; from 4 on for developers."""
    if text.isdecimal():
        return "debug" if int(text) >= 4 else "info"
    if text not in _LEVELS:
        fail(f"--zap-log-level: {text!r} is not one of {', '.join(_LEVELS)}, or a number")
    return _LEVELS[text]
