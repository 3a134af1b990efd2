"""The configuration file: defaults and refusals as the specification lists them (section 6.1)."""

import pytest

from kohort.manager.configuration import ConfigurationError, check, parse, parse_address
from kohort.manager.go_tls_settings import openssl_name
from kohort.rules.go_duration import parse_duration

HEAD = "apiVersion: config.lws.x-k8s.io/v1alpha1\nkind: Configuration\n"


def test_defaults() -> None:
    found = parse(HEAD)
    assert (found.webhook.port, found.webhook.host) == (9443, "")
    assert found.webhook.cert_dir == "/tmp/k8s-webhook-server/serving-certs"
    election = found.leader_election
    assert (election.leader_elect, election.resource_lock) == (True, "leases")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == ("15s", "10s", "2s")
    assert election.resource_name == "b8b2488c.x-k8s.io"
    assert found.metrics.bind_address == ":8443"
    assert found.health.health_probe_bind_address == ":8081"
    assert (found.health.readiness_endpoint_name, found.health.liveness_endpoint_name) == ("/readyz", "/healthz")
    assert found.internal_cert_management.enable
    assert found.internal_cert_management.webhook_service_name == "lws-webhook-service"
    assert found.internal_cert_management.webhook_secret_name == "lws-webhook-server-cert"
    assert (found.client_connection.qps, found.client_connection.burst) == (500, 500)
    assert found.gang_scheduler == ""
    assert found.features.partition_percent_limit == 50


def test_values_are_taken() -> None:
    text = HEAD + "leaderElection: {leaderElect: false}\ngangSchedulingManagement: {schedulerProvider: volcano}\n"
    found = parse(text)
    assert not found.leader_election.leader_elect
    assert found.gang_scheduler == "volcano"
    assert parse(HEAD + "partitionPercentLimit: 70\n").features.partition_percent_limit == 70


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("webhok: {}", 'unknown field "webhok"'),
        ("webhook: {prt: 1}", 'unknown field "prt"'),
        ("leaderElection: {leaseDuration: soon}", "leaseDuration"),
        ("leaderElection: {leaseDuration: 5s, renewDeadline: 10s}", "longer than renewDeadline"),
        ("leaderElection: {resourceLock: endpoints}", "resourceLock"),
        ("webhook: {port: 0}", "webhook.port"),
        ("clientConnection: {qps: 5, burst: -4}", "clientConnection.burst"),
        ("tls: {minVersion: VersionTLS11}", "tls.minVersion"),
        ("tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}", "tls.cipherSuites"),
        ("internalCertManagement: {webhookServiceName: 1nope}", "webhookServiceName"),
        ("internalCertManagement: {webhookSecretName: Nope}", "webhookSecretName"),
        ("gangSchedulingManagement: {}", "schedulerProvider"),
        ("gangSchedulingManagement: {schedulerProvider: coscheduling}", "schedulerProvider"),
        ("metrics: {bindAddress: here}", "metrics.bindAddress"),
        ("namespaces: [Nope]", "namespaces"),
        ("defaultResizePolicy: Maybe", "defaultResizePolicy"),
        ("partitionPercentLimit: 101", "partitionPercentLimit: 101 is not a percentage"),
    ],
)
def test_refusals_name_the_field(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match="configuration") as refusal:
        parse(HEAD + text)
    assert words in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "kind: Configuration", "apiVersion: v1\nkind: ConfigMap", "a: [", HEAD * 2])
def test_other_documents_are_refused_or_read(text: str) -> None:
    if text == HEAD * 2:
        check(parse(text))
        return
    with pytest.raises(ConfigurationError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8443", ("", 8443)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:80", ("::1", 80)), ("0", None)],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1m30s", 90.0), ("250ms", 0.25), ("0", 0.0), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "15 s", "-1s", "1d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("go", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ],
)
def test_cipher_names(go: str, openssl: str) -> None:
    assert openssl_name(go) == openssl


def test_an_unknown_cipher_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="TLS_MADE_UP"):
        openssl_name("TLS_MADE_UP")
