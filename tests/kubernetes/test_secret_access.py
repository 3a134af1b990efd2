"""On real Kubernetes, by an operator with exactly the rights that are installed: a ReleaseAnalysis names only Secrets
that its author may read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.admission.test_secret_access import REF, address, allow, analysis
from tests.kubernetes.access import AccessLog
from tests.kubernetes.controlplane import TOKEN, ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words

from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, InternalError
from kohort.kube.kubeconfig import load
from kohort.kube.resources import RELEASE_ANALYSES, SERVICE_ACCOUNTS
from kohort.objects.json_types import JsonObject

SPACE = "serving"
SYSTEM = "secret-access-system"
WRITE: JsonObject = {
    "apiGroups": ["kohort.dev"],
    "resources": ["releaseanalyses"],
    "verbs": ["create", "get", "update", "patch"],
}
READ: JsonObject = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": [REF["name"]]}
PATIENCE = 30.0


async def test_only_who_may_get_a_secret_has_the_operator_send_it(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = InstallOptions(namespace=SYSTEM, replicas=0)
    (port,) = free_ports(1)
    log = AccessLog(kubernetes.audit_log, SYSTEM)
    async with (
        administrator(kubernetes, SPACE) as client,
        installed(kubernetes, client, options, port) as kubeconfig,
        account(kubernetes, client, "writer") as writer,
        account(kubernetes, client, "owner") as owner,
    ):
        await allow(client, "write", WRITE, "writer", "owner")
        await allow(client, "read", READ, "owner")
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, SYSTEM)) as process:
            await process.says("controllers started")
            await _answers(client)
            with pytest.raises(Forbidden, match="may not get Secret serving/metrics-token") as problem:
                await writer.create(RELEASE_ANALYSES, analysis())
            assert problem.value.names_field("spec.source.prometheus.tokenSecretRef")
            assert "'system:serviceaccount:serving:writer'" in problem.value.message
            await owner.create(RELEASE_ANALYSES, analysis())
            await writer.patch(RELEASE_ANALYSES, "slo", SPACE, {"spec": {"warmup": "30s"}})
            with pytest.raises(Forbidden, match="send it to https://mine"):
                await writer.patch(RELEASE_ANALYSES, "slo", SPACE, address("https://mine"))
            await owner.patch(RELEASE_ANALYSES, "slo", SPACE, address("https://prometheus-2:9090"))
            assert process.stop() == 0
        with pytest.raises(InternalError, match="failed calling webhook"):
            await owner.patch(RELEASE_ANALYSES, "slo", SPACE, address("https://prometheus-3:9090"))
    assert log.refused() == []
    assert ("authorization.k8s.io", "subjectaccessreviews", "create") in log.used()


@asynccontextmanager
async def account(kubernetes: ControlPlane, client: Client, name: str) -> AsyncIterator[Client]:
    """A service account, and a client with its token."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, SPACE)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await client.create(SERVICE_ACCOUNTS, request, SPACE, "token", name))["status"]["token"]
    path = kubernetes.directory / f"kubeconfig-{SPACE}-{name}"
    path.touch(mode=0o600)
    path.write_text(kubernetes.kubeconfig.read_text().replace(f"token: {TOKEN}", f"token: {token}"))
    found = Client(load(path), field_manager=name)
    try:
        yield found
    finally:
        await found.close()


async def _answers(client: Client) -> None:
    """The API server needs a moment to reach the webhooks, and the operator to fill its caches."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(RELEASE_ANALYSES, analysis(), dry_run=True)
            except ApiError:
                await asyncio.sleep(0.1)
            else:
                return
