"""`kohort operator` as a process on real Kubernetes: leadership, namespaces, health, metrics, logs, status."""

import time
from pathlib import Path

import aiohttp
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.operators import administrator, operator, simulated_nodes, webhooks_answer
from tests.kubernetes.test_groups import settled

from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.resources import CONFIG_MAPS, LEADER_WORKER_SETS, LEASES, SERVICE_ACCOUNTS, STATEFUL_SETS

HANDOVER = 5.0
LEASE = "b8b2488c.x-k8s.io"


async def _holder(client: Client, namespace: str) -> str:
    try:
        lease = await client.get(LEASES, LEASE, namespace)
    except NotFound:
        return ""
    holder: str = lease["spec"].get("holderIdentity") or ""
    return holder


async def test_another_operator_takes_over_at_once(kubernetes: ControlPlane, tmp_path: Path) -> None:
    words: tuple[str, ...] = ("--operator-namespace", "two-operators")
    async with administrator(kubernetes, "two-operators") as client, simulated_nodes(kubernetes):
        with operator(kubernetes.kubeconfig, tmp_path / "first.log", *words) as first:
            await first.says("controllers started")
            with operator(kubernetes.kubeconfig, tmp_path / "second.log", *words) as second:
                await second.says("standing by")
                await webhooks_answer(first, client, "two-operators")
                await client.create(LEADER_WORKER_SETS, lws("llm", "two-operators").replicas(2).size(2))
                await settled(client, "two-operators", 2)
                assert second.said("controllers started") is None

                before = await _holder(client, "two-operators")
                begun = time.monotonic()
                assert first.stop() == 0
                await second.says("controllers started", HANDOVER)
                assert time.monotonic() - begun < HANDOVER
                assert await _holder(client, "two-operators") not in ("", before)

                await webhooks_answer(second, client, "two-operators")
                await client.patch(LEADER_WORKER_SETS, "llm", "two-operators", {"spec": {"replicas": 3}})
                await settled(client, "two-operators", 3)


async def test_a_killed_operator_is_followed_when_its_lease_ends(kubernetes: ControlPlane, tmp_path: Path) -> None:
    words: tuple[str, ...] = ("--operator-namespace", "killed", "--leader-elect-lease-duration", "3s")
    words += ("--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "500ms")
    async with administrator(kubernetes, "killed"):
        with operator(kubernetes.kubeconfig, tmp_path / "first.log", *words) as first:
            await first.says("controllers started")
            with operator(kubernetes.kubeconfig, tmp_path / "second.log", *words) as second:
                # It counts from when it has seen the lease.
                await second.says("standing by")
                begun = time.monotonic()
                first.process.kill()
                await second.says("controllers started", 10.0)
                assert time.monotonic() - begun < HANDOVER


async def test_only_the_chosen_namespaces_are_touched(kubernetes: ControlPlane, tmp_path: Path) -> None:
    spaces = ("chosen-a", "chosen-b", "other-c")
    words: tuple[str, ...] = ("--operator-namespace", "chosen-a", "--namespaces", "chosen-a,chosen-b")
    async with administrator(kubernetes, *spaces) as client, simulated_nodes(kubernetes):
        with operator(kubernetes.kubeconfig, tmp_path / "operator.log", *words) as process:
            await webhooks_answer(process, client, "chosen-a")
            for namespace in reversed(spaces):
                await client.create(LEADER_WORKER_SETS, lws("llm", namespace).replicas(1).size(2))
            for namespace in spaces[:2]:
                await settled(client, namespace, 1)
            # The set outside was created first; by now it would have had its StatefulSet.
            assert (await client.list(STATEFUL_SETS, "other-c")).items == []


async def test_health_metrics_and_status(kubernetes: ControlPlane, tmp_path: Path) -> None:
    words: tuple[str, ...] = ("--operator-namespace", "observed", "--metrics-bind-address", "127.0.0.1:0")
    words += ("--health-probe-bind-address", "127.0.0.1:0")
    async with administrator(kubernetes, "observed") as client, simulated_nodes(kubernetes):
        with operator(kubernetes.kubeconfig, tmp_path / "operator.log", *words) as process:
            health = (await process.says("serving health"))["port"]
            metrics = (await process.says("serving metrics"))["port"]
            await webhooks_answer(process, client, "observed")
            await client.create(LEADER_WORKER_SETS, lws("llm", "observed").replicas(1).size(2))
            await settled(client, "observed", 1)
            async with aiohttp.ClientSession() as session:
                for path in ("/healthz", "/readyz"):
                    async with session.get(f"http://127.0.0.1:{health}{path}") as answer:
                        assert (answer.status, await answer.text()) == (200, "ok")
                await _check_metrics(client, session, metrics)
            status = await client.get(CONFIG_MAPS, "kohort-status", "observed")
            # The control plane of this version has the first, and nobody installed the second.
            assert status["data"]["in-place-pod-resize"] == "present"
            assert status["data"]["gateway-api"] == "missing"
            assert "traffic" in status["data"]["missing"]
            said = process.said("the cluster has no Gateway API")
            assert said is not None and said["level"] == "warning"
            assert process.stop() == 0


async def _check_metrics(client: Client, session: aiohttp.ClientSession, port: int) -> None:
    url = f"https://127.0.0.1:{port}/metrics"
    allowed, stranger = await _token(client, "reader"), await _token(client, "stranger")
    role = {"metadata": {"name": "observed-reader"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "observed"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "observed-reader"}
    binding = {"metadata": {"name": "observed-reader"}, "subjects": [subject], "roleRef": reference}
    from kohort.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES

    await client.create(CLUSTER_ROLES, role)
    await client.create(CLUSTER_ROLE_BINDINGS, binding)
    cases = (("", 401), ("Bearer nonsense", 401), (f"Bearer {stranger}", 403), (f"Bearer {allowed}", 200))
    for authorization, expected in cases:
        async with session.get(url, headers={"authorization": authorization}, ssl=False) as answer:
            assert answer.status == expected, authorization
            text = await answer.text()
    assert 'controller_runtime_webhook_requests_total{code="200",webhook="/mutate--v1-pod"}' in text
    assert 'controller_runtime_reconcile_total{controller="leaderworkerset",result="success"}' in text
    assert f'leader_election_master_status{{name="{LEASE}"}} 1.0' in text


async def _token(client: Client, name: str) -> str:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": "observed"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.create(SERVICE_ACCOUNTS, request, "observed", "token", name)
    token: str = answer["status"]["token"]
    return token
