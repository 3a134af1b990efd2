"""The operator with exactly the rights that are installed, through the life of sets: nothing is refused, nothing that
was granted goes unused without a reason."""

import asyncio
from pathlib import Path

import aiohttp
from tests.builders import lws
from tests.kubernetes.access import AccessLog, asked_by_the_server, installed_rights, streamed
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.groups import wire
from kohort.install.options import Options
from kohort.kube.client import Client
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS

NOT_SEEN = {
    ("", "configmaps", "create"): "the first apply of the status: authorised as patch and create, logged as patch",
    ("", "pods", "get"): "only when a pod was created while the webhook was away",
    ("", "services", "get"): "only when two operators create the same Service at the same moment",
    ("", "services", "patch"): "only when somebody has changed the Service of a set",
    ("", "services", "delete"): "only when a set changes from a shared subdomain to one per replica",
    ("apps", "controllerrevisions", "get"): "only when two operators create the same revision at the same moment",
}
"""Rights that an ordinary life does not show in the audit log, and who needs them."""


async def test_the_installed_role_is_enough_and_not_too_much(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = Options(namespace="roles-system", replicas=0, rollouts=False)
    (port,) = free_ports(1)
    log = AccessLog(kubernetes.audit_log, "roles-system")
    words = (*service_words(port, "roles-system", metrics="127.0.0.1:0"), "--no-rollouts")
    async with (
        administrator(kubernetes, "roles") as client,
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *words) as process:
            await process.says("controllers started")
            await _scrape((await process.says("serving metrics"))["port"])
            await _life(client)
            assert process.stop() == 0
        # A second one waits for the lease of the first: only then is it watched.
        with operator(kubeconfig, tmp_path / "first.log", *words) as first:
            await first.says("controllers started")
            second_words = (*service_words(free_ports(1)[0], "roles-system"), "--no-rollouts")
            with operator(kubeconfig, tmp_path / "second.log", *second_words) as second:
                await second.says("standing by")
                await asyncio.sleep(0.5)
                first.stop()
                await second.says("controllers started")
    assert log.refused() == []
    reviews = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}
    assert {right[:2] for right in log.used()} >= reviews
    granted = installed_rights(options)
    shown = granted - streamed(granted) - asked_by_the_server(granted) - NOT_SEEN.keys()
    assert sorted(shown - log.used()) == []


async def _scrape(port: int) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/metrics", headers={"authorization": "Bearer test-token"}, ssl=False
        ) as answer,
    ):
        assert answer.status == 200


async def _life(client: Client) -> None:
    forgetful = lws("llm", "roles").replicas(2).size(2).but("metadata.annotations", {wire.REVISION_LIMIT: "0"})
    topology = {wire.EXCLUSIVE: "kubernetes.io/hostname"}
    unique = lws("alone", "roles").replicas(1).size(2).but("metadata.annotations", topology)
    unique = unique.but("spec.networkConfig", {"subdomainPolicy": wire.UNIQUE})
    await client.create(LEADER_WORKER_SETS, forgetful)
    await client.create(LEADER_WORKER_SETS, unique)
    await settled(client, "roles", 2)
    for image in ("new:1", "new:2"):
        await _roll(client, image)
    await client.patch(LEADER_WORKER_SETS, "llm", "roles", {"metadata": {"annotations": {wire.REVISION_LIMIT: "5"}}})
    for image in ("new:3", "new:2"):
        await _roll(client, image)
    await client.patch(LEADER_WORKER_SETS, "llm", "roles", {"spec": {"replicas": 3}})
    await settled(client, "roles", 3)
    before = (await pods(client, "roles"))["llm-0"]["metadata"]["uid"]
    await client.delete(PODS, "llm-0-1", "roles")
    async with asyncio.timeout(PATIENCE):
        while (await pods(client, "roles")).get("llm-0", {"metadata": {"uid": before}})["metadata"]["uid"] == before:
            await asyncio.sleep(0.1)
    await settled(client, "roles", 3)
    for name in ("llm", "alone"):
        await client.delete(LEADER_WORKER_SETS, name, "roles", propagation="Foreground")
    async with asyncio.timeout(PATIENCE):
        for resource in (PODS, STATEFUL_SETS, CONTROLLER_REVISIONS):
            while (await client.list(resource, "roles")).items:
                await asyncio.sleep(0.1)


async def _roll(client: Client, image: str) -> None:
    before = (await client.get(LEADER_WORKER_SETS, "llm", "roles"))["status"]["updateRevision"]
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    await client.patch(
        LEADER_WORKER_SETS, "llm", "roles", {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
    )
    await settled(client, "roles", 2, lambda one: one["status"]["updateRevision"] != before)
