"""The operator with exactly the rights that are installed, through the life of sets: nothing is refused, nothing that
was granted goes unused without a reason."""

import asyncio
import json
from pathlib import Path

import aiohttp
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, simulated_nodes
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.groups import wire
from kohort.install.options import Options
from kohort.install.roles import ACCOUNT, cluster_rules, own_rules, workload_rules
from kohort.kube.client import Client
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS
from kohort.objects.jsontypes import JsonObject

Right = tuple[str, str, str]

OWNERS = "clusters that check who may block a deletion (OwnerReferencesPermissionEnforcement)"
NOT_SEEN = {
    ("leaderworkerset.x-k8s.io", "leaderworkersets/finalizers", "update"): OWNERS,
    ("", "pods/finalizers", "update"): OWNERS,
    ("", "configmaps", "create"): "the first apply of the status: authorised as patch and create, logged as patch",
    ("apps", "controllerrevisions", "get"): "only when two operators create the same revision at the same moment",
    ("", "pods", "list"): "servers without streaming lists",
    ("", "services", "list"): "servers without streaming lists",
    ("apps", "statefulsets", "list"): "servers without streaming lists",
    ("apps", "controllerrevisions", "list"): "servers without streaming lists",
    ("leaderworkerset.x-k8s.io", "leaderworkersets", "list"): "servers without streaming lists",
}
"""Rights that an ordinary life does not show in the audit log, and who needs them."""


def granted(rules: list[JsonObject]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(log: Path, user: str) -> list[tuple[Right, int, str]]:
    found = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        reference = event.get("objectRef")
        if event["user"]["username"] != user or reference is None or "resource" not in reference:
            continue
        resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
        code = (event.get("responseStatus") or {}).get("code", 0)
        found.append(((reference.get("apiGroup", ""), resource, event["verb"]), code, event["requestURI"]))
    return found


async def test_the_installed_role_is_enough_and_not_too_much(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = Options(namespace="roles-system", replicas=0, rollouts=False)
    (port,) = free_ports(1)
    words: tuple[str, ...] = (
        "--webhooks",
        "service",
        "--webhook-port",
        str(port),
        "--operator-namespace",
        "roles-system",
    )
    words += ("--no-rollouts",)
    words += ("--health-probe-bind-address", "0", "--metrics-bind-address", "127.0.0.1:0")
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
        with operator(kubeconfig, tmp_path / "first.log", *words[:-1], "0") as first:
            await first.says("controllers started")
            second_words = (*words[:3], str(free_ports(1)[0]), *words[4:-1], "0")
            with operator(kubeconfig, tmp_path / "second.log", *second_words) as second:
                await second.says("standing by")
                await asyncio.sleep(0.5)
                first.stop()
                await second.says("controllers started")
        requests = asked(kubernetes.audit_log, f"system:serviceaccount:roles-system:{ACCOUNT}")
        assert requests
        assert [one for one in requests if one[1] == 403] == []
        used = {right for right, _, _ in requests}
        reviews = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}
        assert {right[:2] for right in used} >= reviews
        unused = granted([*workload_rules(options), *cluster_rules(options), *own_rules()]) - used
        assert unused - NOT_SEEN.keys() == set()


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
