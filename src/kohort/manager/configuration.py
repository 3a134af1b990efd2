"""The manager's configuration file: `config.lws.x-k8s.io/v1alpha1`, as users of LeaderWorkerSet know it.

It is read strictly: an unknown field is a start-up error, because a setting with a typing error would else be
a setting that silently does nothing. Fields of ours stand beside theirs and have defaults that change nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import yaml

from kohort.objects import names
from kohort.objects.json_types import Json
from kohort.rollouts.feature_gates import PARTITION_PERCENT_LIMIT, Features, from_gates
from kohort.rules.go_duration import parse_duration

API_VERSION: Final = "config.lws.x-k8s.io/v1alpha1"
KIND: Final = "Configuration"
LEASE: Final = "b8b2488c.x-k8s.io"
"""Upstream's name, too: during a swap the two exclude each other."""
NAMESPACE: Final = "lws-system"
SERVICE: Final = "lws-webhook-service"
SECRET: Final = "lws-webhook-server-cert"
PROVIDERS: Final = ("volcano", "kubernetes")


class ConfigurationError(Exception):
    """The configuration cannot be used; the message says where and why."""


class _Section(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class Webhook(_Section):
    port: int = 9443
    host: str = ""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"


class LeaderElection(_Section):
    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = LEASE
    resource_namespace: str = ""
    """Read and ignored: the lease is always in the operator's own namespace."""


class Metrics(_Section):
    bind_address: str = ":8443"


class Health(_Section):
    health_probe_bind_address: str = ":8081"
    readiness_endpoint_name: str = "/readyz"
    liveness_endpoint_name: str = "/healthz"


class Tls(_Section):
    min_version: str = ""
    cipher_suites: list[str] = []


class InternalCertManagement(_Section):
    enable: bool = True
    webhook_service_name: str = SERVICE
    webhook_secret_name: str = SECRET


class ClientConnection(_Section):
    qps: float = 500
    burst: int = 500


class GangSchedulingManagement(_Section):
    scheduler_provider: str = ""


class Configuration(_Section):
    api_version: str = API_VERSION
    kind: str = KIND
    webhook: Webhook = msgspec.field(default_factory=Webhook)
    leader_election: LeaderElection = msgspec.field(default_factory=LeaderElection)
    metrics: Metrics = msgspec.field(default_factory=Metrics)
    health: Health = msgspec.field(default_factory=Health)
    tls: Tls = msgspec.field(default_factory=Tls)
    internal_cert_management: InternalCertManagement = msgspec.field(default_factory=InternalCertManagement)
    client_connection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    gang_scheduling_management: GangSchedulingManagement | None = None
    rollouts: bool = True
    """Ours: whether Rollouts are looked after; false where another operator does that."""
    feature_gates: dict[str, bool] = {}
    """Of Rollouts, by the names that Kruise Rollouts has for them."""
    rollout_history_limit: int = 10
    """Ours: how many RolloutHistories are kept for each Rollout."""
    partition_percent_limit: int = PARTITION_PERCENT_LIMIT
    """The largest share of new pods with which a step of partition style may divide requests."""
    namespaces: list[str] = []
    """Ours: watch only these; all when empty."""
    default_resize_policy: str = "None"
    """Ours: what a set without `resizePolicy` gets when its size changes."""

    @property
    def features(self) -> Features:
        return from_gates(self.feature_gates, self.rollout_history_limit, self.partition_percent_limit)

    @property
    def gang_scheduler(self) -> str:
        return self.gang_scheduling_management.scheduler_provider if self.gang_scheduling_management else ""


def load(path: Path | None) -> Configuration:
    """The configuration of a file, or the defaults."""
    if path is None:
        return Configuration()
    try:
        text = path.read_text()
    except OSError as problem:
        raise ConfigurationError(f"cannot read {path}: {problem.strerror}") from problem
    return parse(text, str(path))


def parse(text: str, source: str = "configuration") -> Configuration:
    try:
        document: Json = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ConfigurationError(f"{source}: {problem}") from problem
    if not isinstance(document, dict):
        raise ConfigurationError(f"{source}: not an object of kind {KIND}")
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        raise ConfigurationError(f"{source}: must have apiVersion {API_VERSION} and kind {KIND}")
    document.pop("metadata", None)
    try:
        found = msgspec.convert(_without_nulls(document), Configuration)
    except msgspec.ValidationError as problem:
        raise ConfigurationError(f"{source}: {_in_go_words(str(problem))}") from problem
    check(found, source)
    return found


def check(configuration: Configuration, source: str = "configuration") -> None:
    """Raise ConfigurationError with everything that is wrong."""
    problems = [*_problems(configuration)]
    if problems:
        raise ConfigurationError(f"{source}: " + "; ".join(problems))


def _problems(configuration: Configuration) -> Iterator[str]:
    yield from _of_election(configuration.leader_election)
    yield from _of_tls(configuration.tls)
    yield from _of_certificates(configuration.internal_cert_management)
    yield from _of_choices(configuration)
    if not 0 < configuration.webhook.port < 65536:
        yield f"webhook.port: {configuration.webhook.port} is not a port"
    if configuration.client_connection.burst < 1 and configuration.client_connection.qps > 0:
        yield f"clientConnection.burst: {configuration.client_connection.burst} would let no request through"
    for namespace in configuration.namespaces:
        yield from (f"namespaces: {namespace!r}: {one}" for one in names.dns1123_label(namespace))
    for name, address in (
        ("metrics.bindAddress", configuration.metrics.bind_address),
        ("health.healthProbeBindAddress", configuration.health.health_probe_bind_address),
    ):
        try:
            parse_address(address)
        except ValueError as problem:
            yield f"{name}: {problem}"


def _of_election(election: LeaderElection) -> Iterator[str]:
    periods: list[float] = []
    for name, text in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        try:
            periods.append(parse_duration(text))
        except ValueError as problem:
            yield f"leaderElection.{name}: {problem}"
    if len(periods) == 3 and not periods[0] > periods[1] > periods[2] > 0:
        found = f"{election.lease_duration}, {election.renew_deadline}, {election.retry_period}"
        yield f"leaderElection: leaseDuration must be longer than renewDeadline, and that than retryPeriod, not {found}"
    if election.resource_lock != "leases":
        yield f"leaderElection.resourceLock: {election.resource_lock!r} is not supported, only leases"


def _of_tls(tls: Tls) -> Iterator[str]:
    if tls.min_version not in ("", "VersionTLS12", "VersionTLS13"):
        yield f"tls.minVersion: {tls.min_version!r} must be VersionTLS12 or VersionTLS13"
    if tls.min_version == "VersionTLS13" and tls.cipher_suites:
        yield "tls.cipherSuites: must be empty with VersionTLS13, whose cipher suites cannot be chosen"


def _of_certificates(internal: InternalCertManagement) -> Iterator[str]:
    if not internal.enable:
        return
    for one in names.dns1035_label(internal.webhook_service_name):
        yield f"internalCertManagement.webhookServiceName: {one}"
    for one in names.dns1123_subdomain(internal.webhook_secret_name):
        yield f"internalCertManagement.webhookSecretName: {one}"


def _of_choices(configuration: Configuration) -> Iterator[str]:
    gang = configuration.gang_scheduling_management
    if gang is not None and gang.scheduler_provider not in PROVIDERS:
        yield f"schedulerProvider: {gang.scheduler_provider!r} must be one of {', '.join(PROVIDERS)}"
    if configuration.default_resize_policy not in ("None", "Recreate"):
        yield f"defaultResizePolicy: {configuration.default_resize_policy!r} must be None or Recreate"
    try:
        from_gates(configuration.feature_gates)
    except ValueError as problem:
        yield f"featureGates: {problem}"
    if configuration.rollout_history_limit < 0:
        yield "rolloutHistoryLimit: must not be negative"
    if not 0 <= configuration.partition_percent_limit <= 100:
        yield f"partitionPercentLimit: {configuration.partition_percent_limit} is not a percentage from 0 to 100"


def parse_address(text: str) -> tuple[str, int] | None:
    """Host and port of `:8443`, `127.0.0.1:0` or `[::]:80`; None for `0`, which switches a server off."""
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not of the form host:port")
    return host.strip("[]"), int(port)


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value


def _in_go_words(message: str) -> str:
    return re.sub(r"Object contains unknown field `([^`]*)`", r'unknown field "\1"', message)
