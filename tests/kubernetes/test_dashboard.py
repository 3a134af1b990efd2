"""The dashboard on a real control plane: a user with the token of one namespace sees nothing of another one."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from tests.builders import lws
from tests.dashboard.isolation import OTHER, OWN, SECRET, leaks, without_rate_limits
from tests.dashboard.scene import Visit
from tests.dashboard.test_token_access import READ, ROLE_BINDINGS, ROLES, may_see_nodes
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.test_groups import PATIENCE

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard.running import running
from kohort.dashboard.server import DashboardSettings
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, SERVICE_ACCOUNTS
from kohort.kube.transport import HttpsTransport
from kohort.objects.json_types import JsonObject


async def _reader(client: Client) -> str:
    metadata = {"name": "reader", "namespace": OWN}
    await client.create(SERVICE_ACCOUNTS, {"metadata": metadata})
    await client.create(ROLES, {"metadata": metadata, "rules": READ})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": OWN}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    await client.create(ROLE_BINDINGS, {"metadata": metadata, "subjects": [subject], "roleRef": role})
    answer: JsonObject = await client.create(SERVICE_ACCOUNTS, {"spec": {}}, OWN, "token", "reader")
    return str(answer["status"]["token"])


async def _ready(client: Client, name: str, namespace: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not ((await client.get(LEADER_WORKER_SETS, name, namespace)).get("status") or {}).get("readyReplicas"):
            await asyncio.sleep(0.1)


@pytest.mark.timeout(400)
async def test_a_user_of_one_namespace_sees_nothing_of_another(
    kubernetes: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_rate_limits(monkeypatch)
    options = InstallOptions(namespace="dashboard-system", replicas=0)
    (port,) = free_ports(1)
    async with (
        administrator(kubernetes, OWN) as client,
        administrator(kubernetes, OTHER),
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, options.namespace)) as process:
            await process.says("controllers started")
            for name, namespace in (("open-model", OWN), (SECRET, OTHER)):
                await client.create(LEADER_WORKER_SETS, lws(name, namespace).labels(app=name).replicas(1).size(2))
                await _ready(client, name, namespace)
            token = await _reader(client)
            await may_see_nodes(client, OWN)
            node = str((await client.list(NODES)).items[0]["metadata"]["name"])
            transport = client.transport
            assert isinstance(transport, HttpsTransport)
            async with running(
                client,
                ("127.0.0.1", 0),
                DashboardSettings(allow_actions=True),
                CliCommands(),
                tokens_of=transport.connection,
            ) as made:
                base = f"http://127.0.0.1:{made.port}"
                jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
                async with ClientSession(cookie_jar=jar) as session:
                    async with session.post(f"{base}/dashboard/login", data={"token": token}) as answer:
                        assert answer.status == 200
                    user = Visit(session, base)
                    fleet = await user.json("/dashboard/")
                    assert ([one["name"] for one in fleet["rows"]], fleet["total"]) == (["open-model"], 1)
                    assert (fleet["namespaces"], sum(fleet["states"].values())) == ([OWN], 1)
                    pages = await user.json("/dashboard/nodes")
                    seen = [one for domain in pages["domains"] for one in domain["nodes"]]
                    assert {group["set"] for one in seen for group in one["groups"]} == {"open-model"}
                    assert await leaks(user, made, node) == []
