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

from kohort.admission.webhook_configurations import MUTATING
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.rules import group_labels

SPACE = "roles"

NOT_SEEN = {
    ("apps", "statefulsets", "get"): "only for the history of Rollouts of StatefulSets",
    ("", "configmaps", "create"): "the first apply of the status: authorised as patch and create, logged as patch",
    ("policy", "poddisruptionbudgets", "create"): "only for sets with a disruptionBudget",
    ("policy", "poddisruptionbudgets", "delete"): "as above",
    ("policy", "poddisruptionbudgets", "get"): "as above",
    ("policy", "poddisruptionbudgets", "patch"): "as above",
    ("", "configmaps", "get"): "only for sets with a restartBudget, when a group fails",
    ("", "configmaps", "patch"): "as above",
    ("", "pods/log", "get"): "as above",
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "get"): "as above",
    ("", "pods", "patch"): "only for sets whose resources change in place",
    ("", "pods/resize", "patch"): "as above",
    ("", "resourcequotas", "list"): "as above",
    ("", "persistentvolumeclaims", "delete"): "only for sets whose claims are deleted when they are scaled",
    ("", "persistentvolumeclaims", "list"): "as above",
    ("", "events", "list"): "only when a pod has been missing for fifteen seconds, to tell why",
    ("apps", "controllerrevisions", "get"): "only when two operators create the same revision at the same moment",
}
"""Rights that the audit log does not show, and who needs them."""


async def test_the_installed_role_is_enough_and_not_too_much(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = InstallOptions(namespace="roles-system", replicas=0, rollouts=False)
    (port,) = free_ports(1)
    log = AccessLog(kubernetes.audit_log, "roles-system")
    words = (*service_words(port, "roles-system", metrics="127.0.0.1:0"), "--no-rollouts")
    async with (
        administrator(kubernetes, SPACE) as client,
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *words) as process:
            await process.says("controllers started")
            await _scrape((await process.says("serving metrics"))["port"])
            await _life(client)
            await _mishaps(client)
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
    """E17."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/metrics", headers={"authorization": "Bearer test-token"}, ssl=False
        ) as answer,
    ):
        assert (answer.status, answer.version) == (200, aiohttp.HttpVersion11)
        assert "controller_runtime_webhook_requests_total" in await answer.text()


async def _life(client: Client) -> None:
    forgetful = lws("llm", SPACE).replicas(2).size(2).but("metadata.annotations", {group_labels.REVISION_LIMIT: "0"})
    topology = {group_labels.EXCLUSIVE: "kubernetes.io/hostname"}
    unique = lws("alone", SPACE).replicas(1).size(2).but("metadata.annotations", topology)
    unique = unique.but("spec.networkConfig", {"subdomainPolicy": group_labels.UNIQUE})
    await client.create(LEADER_WORKER_SETS, forgetful)
    await client.create(LEADER_WORKER_SETS, unique)
    await settled(client, SPACE, 2)
    for image in ("new:1", "new:2"):
        await _roll(client, image)
    await client.patch(
        LEADER_WORKER_SETS, "llm", SPACE, {"metadata": {"annotations": {group_labels.REVISION_LIMIT: "5"}}}
    )
    for image in ("new:3", "new:2"):
        await _roll(client, image)
    await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"replicas": 3}})
    await settled(client, SPACE, 3)
    before = (await pods(client, SPACE))["llm-0"]["metadata"]["uid"]
    await client.delete(PODS, "llm-0-1", SPACE)
    async with asyncio.timeout(PATIENCE):
        while (await pods(client, SPACE)).get("llm-0", {"metadata": {"uid": before}})["metadata"]["uid"] == before:
            await asyncio.sleep(0.1)
    await settled(client, SPACE, 3)
    await _gone(client, "llm", "alone")


async def _gone(client: Client, *names: str) -> None:
    for name in names:
        await client.delete(LEADER_WORKER_SETS, name, SPACE, propagation="Foreground")
    async with asyncio.timeout(PATIENCE):
        for resource in (PODS, STATEFUL_SETS, CONTROLLER_REVISIONS, LEADER_WORKER_SETS):
            while (await client.list(resource, SPACE)).items:
                await asyncio.sleep(0.1)


async def _mishaps(client: Client) -> None:
    """What people do to the things of a set, and what the operator may do about it."""
    await client.create(SERVICES, {"metadata": {"name": "taken"}, "spec": {"clusterIP": "None"}}, SPACE)
    await client.create(LEADER_WORKER_SETS, lws("taken", SPACE).replicas(1).size(1))
    await client.create(LEADER_WORKER_SETS, lws("llm", SPACE).replicas(1).size(2))
    await settled(client, SPACE, 1)
    await _changed_by_a_person(client)
    await _without_webhook(client)
    unique = {"spec": {"networkConfig": {"subdomainPolicy": group_labels.UNIQUE}}}
    await client.patch(LEADER_WORKER_SETS, "llm", SPACE, unique)
    async with asyncio.timeout(PATIENCE):
        while await client.find(SERVICES, "llm", SPACE) is not None:
            await asyncio.sleep(0.1)
    await _gone(client, "llm", "taken")


async def _changed_by_a_person(client: Client) -> None:
    await client.patch(SERVICES, "llm", SPACE, {"spec": {"publishNotReadyAddresses": False}})
    async with asyncio.timeout(PATIENCE):
        while not (await client.get(SERVICES, "llm", SPACE))["spec"].get("publishNotReadyAddresses"):
            await asyncio.sleep(0.1)


async def _without_webhook(client: Client) -> None:
    """A group is created while nobody asks the webhook; the operator looks at its pods and replaces them."""
    found = await client.get(MUTATING_WEBHOOKS, MUTATING)
    await client.delete(MUTATING_WEBHOOKS, MUTATING)
    labels = {group_labels.NAME: "llm", group_labels.WORKER_INDEX: group_labels.LEADER}
    probe = {"metadata": {"name": "probe-0", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(PODS, probe, SPACE, dry_run=True)
                break
            except ApiError:
                await asyncio.sleep(0.1)
    await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"replicas": 2}})
    async with asyncio.timeout(PATIENCE):
        while not await _reasons(client, "WebhookMissed"):
            await asyncio.sleep(0.1)
    metadata = {name: found["metadata"][name] for name in ("name", "labels")}
    await client.create(MUTATING_WEBHOOKS, {**found, "metadata": metadata})
    await settled(client, SPACE, 2)


async def _reasons(client: Client, reason: str) -> bool:
    events = (await client.list(EVENTS, SPACE, field_selector=f"reason={reason}")).items
    return bool(events)


async def _roll(client: Client, image: str) -> None:
    before = (await client.get(LEADER_WORKER_SETS, "llm", SPACE))["status"]["updateRevision"]
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    await client.patch(
        LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
    )
    await settled(client, SPACE, 2, lambda one: one["status"]["updateRevision"] != before)
