"""Commands of users who may change sets, but may not read everything that a command speaks about."""

from collections.abc import Callable

import pytest
import yaml
from tests.builders import lws
from tests.cli.terminal import Story as Terminal
from tests.rollouts.releases import V2, Story, new_cluster

from kohort.cli.actions import analysis, edit, failures, list_workloads, plan, release_stop, show
from kohort.cli.connection import REFUSED
from kohort.cluster.apiserver.auth.model import User
from kohort.kube.client import Client
from kohort.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

READ = ["get", "list", "watch"]
CORE = ["pods", "services", "events", "persistentvolumeclaims", "nodes", "namespaces"]
SETS: list[JsonObject] = [
    {"apiGroups": [""], "resources": CORE, "verbs": READ},
    {"apiGroups": ["apps"], "resources": ["statefulsets", "controllerrevisions"], "verbs": READ},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["*"], "verbs": [*READ, "patch", "update"]},
]
UNLISTED = "kohort: you may not list rollouts in namespace default; ask an administrator of the cluster for this right"
HELD = f"{UNLISTED}; LeaderWorkerSet llm is held by a release of Rollout llm\n"


async def log_in(user: Terminal) -> None:
    """From now on commands are those of a user with rights on sets only."""
    cluster: Cluster = user.cluster
    metadata = {"metadata": {"name": "sets-only"}}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sets-only"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev"}]
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    await cluster.client.create(CLUSTER_ROLES, {**api, "kind": "ClusterRole", **metadata, "rules": SETS})
    binding = {**api, "kind": "ClusterRoleBinding", **metadata, "roleRef": ref, "subjects": subjects}
    await cluster.client.create(CLUSTER_ROLE_BINDINGS, binding)
    user.client = Client(cluster.transport(User("dev", ("system:authenticated",))))


async def test_a_held_set_whose_rollout_may_not_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await log_in(user)
        _, code = await user.run(show.status, "llm", "text", False)
        assert code == 0, "what needs no Rollout needs no right to read them"
        for command in (list_workloads.releases, analysis.show_analysis):
            _, code = await user.run(command, "llm", "text")
            assert (code, user.complaint) == (REFUSED, f"{UNLISTED}\n")
        await story.change(V2)
        await story.at(1)
        before = user.live()
        commands: list[tuple[Callable[..., Json], list[Json]]] = [
            (show.status, ["llm", "text", False]),
            (show.status, ["llm", "text", True, 60.0]),
            (show.explain, ["llm", "text"]),
            (show.get, ["llm", "text", False]),
            (list_workloads.releases, ["llm", "text"]),
            (edit.pause, ["llm"]),
            (edit.resume, ["llm"]),
            (edit.approve, ["llm"]),
            (edit.retry, ["llm"]),
        ]
        for command, arguments in commands:
            printed, code = await user.run(command, *arguments)
            assert (printed, code, user.complaint) == ("", REFUSED, HELD), (command, arguments)
        assert user.live()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        _, code = await user.run(_stop, "llm")
        assert (code, user.complaint) == (REFUSED, HELD)
        for listing, arguments in ((show.get, [None, "text", False]), (list_workloads.list_workloads, ["text", ""])):
            _, code = await user.run(listing, *arguments)
            assert (code, user.complaint) == (REFUSED, HELD)


async def test_a_plan_says_that_it_does_not_know_about_rollouts(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        wanted = user.live()
        wanted = {**{key: wanted[key] for key in ("apiVersion", "kind", "spec")}, "metadata": {"name": "llm"}}
        same = {"set.yaml": yaml.safe_dump(wanted)}
        containers = wanted["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
        containers[0]["image"] = V2
        files = {"set.yaml": yaml.safe_dump(wanted)}
        printed, _ = await user.run(plan.plan, files, "text", False, False)
        assert "Rollout llm would release it" in printed
        assert "may not list" not in printed
        await log_in(user)
        printed, code = await user.run(plan.plan, files, "text", False, False)
        assert code == 0, user.complaint
        assert "Not known: whether a Rollout would release it" in printed
        assert "You may not list rollouts\nin the namespace of the set" in printed
        found, _ = await user.run(plan.plan, files, "json", False, False)
        assert '"rolloutUnknown": true' in found
        printed, _ = await user.run(plan.plan, same, "text", False, False)
        assert "Not known" not in printed, "nothing changes, so nothing would be released"


async def _stop(client: Client, namespace: str, name: str) -> int:
    return await release_stop.stop_release(client, namespace, name, delete=False, yes=True, dry_run=False, timeout=60)


async def test_failures_that_may_not_be_read_are_not_said_to_be_none(story: Callable[..., Json]) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        await log_in(user)
        printed, code = await user.run(failures.show_failures, "llm", None, "text")
        assert (printed, code) == ("", REFUSED)
        assert 'cannot get resource "configmaps"' in user.complaint
        _, code = await user.run(show.explain, "llm", "text")
        assert code == 0, "an explanation does without"
