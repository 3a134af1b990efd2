"""Installing, changing and removing, on a cluster in the same process with the controllers of Kubernetes."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from kohort.install.install_kinds import ROLE_BINDINGS, ROLES
from kohort.install.installation import InstallationFailed, install, objects_in, uninstall
from kohort.install.operator_readiness import missing, unready_reason
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    ROLLOUTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.testing import virtual_time
from kohort.testing.cluster import Cluster

SECURITY = "pod-security.kubernetes.io/enforce"


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


def played(story: Callable[[Client, Heard], Awaitable[None]], *, nodes: int = 0) -> None:
    async def play() -> None:
        async with Cluster(parts=("workloads", "scheduler"), nodes=nodes) as cluster:
            await story(cluster.client, Heard())

    virtual_time.run(play())


async def has_namespace(client: Client, name: str) -> bool:
    return await client.find(NAMESPACES, name) is not None


async def found(client: Client, *resources: Resource) -> list[JsonObject]:
    """All of these, except what every cluster has."""
    everything = [one["metadata"] for resource in resources for one in (await client.list(resource)).items]
    return [one for one in everything if not one.get("namespace", "").startswith("kube-")]


async def names_of(client: Client, *resources: Resource) -> set[str]:
    return {one["name"] for one in await found(client, *resources)}


def test_a_foreign_namespace_is_used_as_it_is_and_stays() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": "team", "labels": {SECURITY: "privileged"}}})
        await client.create(CONFIG_MAPS, {"metadata": {"name": "mine"}}, "team")
        await install(client, InstallOptions(namespace="team", replicas=0), heard)
        assert "Namespace team used as it is" in heard.lines
        await uninstall(client, InstallOptions(namespace="team"), heard, keep_objects=True)
        assert (await client.get(NAMESPACES, "team"))["metadata"]["labels"][SECURITY] == "privileged"
        assert "mine" in await names_of(client, CONFIG_MAPS)
        assert await names_of(client, DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, ROLES) == set()

    played(story)


def test_a_namespace_made_for_the_operator_goes_unless_others_came_to_use_it() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(replicas=0), heard)
        await uninstall(client, InstallOptions(), heard, keep_objects=True)
        assert not await has_namespace(client, "lws-system")

        await install(client, InstallOptions(replicas=0), heard)
        await client.create(CONFIG_MAPS, {"metadata": {"name": "kruise-rollout-configuration"}}, "lws-system")
        await uninstall(client, InstallOptions(), heard, keep_objects=True)
        assert "Namespace lws-system kept: it holds ConfigMap kruise-rollout-configuration" in heard.lines
        assert await has_namespace(client, "lws-system")

    played(story)


def test_what_an_earlier_installation_had_goes_with_the_next() -> None:
    """Hooks that nobody answers any more would refuse writes for ever."""

    async def story(client: Client, heard: Heard) -> None:
        for name in ("a", "b"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        await install(client, InstallOptions(replicas=0, namespaces=("a", "b")), heard)
        selectors = [
            hook["namespaceSelector"]["matchExpressions"][0]
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            for one in (await client.list(resource)).items
            for hook in one["webhooks"]
        ]
        assert all((one["operator"], one["values"]) == ("In", ["a", "b"]) for one in selectors)

        await install(client, InstallOptions(replicas=0, rollouts=False, namespaces=("a",)), heard)
        assert {one["namespace"] for one in await found(client, ROLES)} == {"a", "lws-system"}
        hooks = await names_of(client, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        assert hooks == {"lws-mutating-webhook-configuration", "lws-validating-webhook-configuration"}

        await install(client, InstallOptions(replicas=0, rollouts=False, namespace="elsewhere"), heard)
        (deployment,) = (await client.list(DEPLOYMENTS)).items
        assert deployment["metadata"]["namespace"] == "elsewhere"
        hook, *_ = (await client.get(VALIDATING_WEBHOOKS, "lws-validating-webhook-configuration"))["webhooks"]
        assert not hook.get("namespaceSelector")

        # No option is needed to find everything.
        await uninstall(client, InstallOptions(), heard, keep_objects=True)
        assert await names_of(client, ROLES, ROLE_BINDINGS, DEPLOYMENTS, MUTATING_WEBHOOKS) == set()

    played(story)


def test_foreign_definitions_are_not_removed() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(replicas=0), heard)
        # As if Kruise Rollouts had been installed over them.
        for one in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items:
            if "kruise" in one["metadata"]["name"]:
                theirs = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}
                await client.patch(CUSTOM_RESOURCE_DEFINITIONS, one["metadata"]["name"], "", theirs)
        await install(client, InstallOptions(replicas=0, rollouts=False), heard)
        await uninstall(client, InstallOptions(), heard, keep_objects=False)
        left = await names_of(client, CUSTOM_RESOURCE_DEFINITIONS)
        assert len(left) == 4 and all(name.endswith(".rollouts.kruise.io") for name in left)

    played(story)


def test_kept_definitions_are_free_for_the_next_who_applies_them() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(replicas=0), heard)
        await uninstall(client, InstallOptions(), heard, keep_objects=True)
        before = await client.get(CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS.qualified)
        versions = [{**one, "served": False} for one in before["spec"]["versions"]]
        theirs = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": before["metadata"]["name"]},
            "spec": {**before["spec"], "versions": versions},
        }
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, theirs, field_manager="kubectl", force=False)

    played(story)


def test_releases_without_an_operator_do_not_delay_a_removal() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(replicas=0, rollouts=True), heard)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):  # nobody serves them here
            await client.delete_collection(resource)
        release: JsonObject = {
            "metadata": {"name": "release", "finalizers": ["rollouts.kruise.io/rollout"]},
            "spec": {
                "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "strategy": {"canary": {"steps": [{"replicas": 1}]}},
            },
        }
        await client.create(ROLLOUTS, release, "default")
        assert await objects_in(client) == ["Rollout default/release"]
        await uninstall(client, InstallOptions(), heard, keep_objects=False)
        assert await names_of(client, CUSTOM_RESOURCE_DEFINITIONS) == set()
        assert any(line.startswith("Rollout default/release removed without its operator") for line in heard.lines)

    played(story)


def test_a_release_in_the_middle_is_ended_by_the_operator_before_that_goes() -> None:
    async def story() -> None:
        async with Cluster(parts=("workloads", "scheduler", "operator"), nodes=2) as cluster:
            client = cluster.client
            pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "one"}]}}
            spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
            web = await client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, "default")
            release = {
                "workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "strategy": {"canary": {"enableExtraWorkloadForCanary": True, "steps": [{"replicas": 1}]}},
            }
            await client.create(ROLLOUTS, {"metadata": {"name": "release"}, "spec": release}, "default")
            await asyncio.sleep(30)
            web["spec"]["template"]["spec"]["containers"][0]["image"] = "two"
            await client.patch(DEPLOYMENTS, "web", "default", {"spec": {"template": web["spec"]["template"]}})
            await asyncio.sleep(60)
            assert len(await names_of(client, DEPLOYMENTS)) == 2, "the canary is there"
            assert (await client.get(DEPLOYMENTS, "web", "default"))["spec"]["paused"]

            await uninstall(client, InstallOptions(), Heard(), keep_objects=False)
            await asyncio.sleep(30)
            (left,) = (await client.list(DEPLOYMENTS)).items
            assert left["metadata"]["name"] == "web" and not left["spec"].get("paused")

    virtual_time.run(story())


def test_nothing_is_changed_when_a_namespace_is_missing() -> None:
    async def story(client: Client, heard: Heard) -> None:
        with pytest.raises(InstallationFailed, match="there is no namespace nowhere"):
            await install(client, InstallOptions(namespaces=("nowhere",)), heard)
        assert heard.lines == [] and not await has_namespace(client, "lws-system")

    played(story)


def test_replicas_of_the_template_before_do_not_count() -> None:
    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(image="good"), heard, wait=60)
        never = {"template": {"metadata": {"annotations": {"simulation.kohort.dev/waiting": "ImagePullBackOff"}}}}
        await client.patch(DEPLOYMENTS, "lws-controller-manager", "lws-system", {"spec": never})
        with pytest.raises(InstallationFailed, match=r"1 of 2 replicas updated; pod .*ImagePullBackOff"):
            await install(client, InstallOptions(image="bad"), heard, wait=60)

    played(story, nodes=2)


def test_another_configuration_means_other_pods() -> None:
    async def template(client: Client) -> JsonObject:
        return dict((await client.get(DEPLOYMENTS, "lws-controller-manager", "lws-system"))["spec"]["template"])

    async def story(client: Client, heard: Heard) -> None:
        await install(client, InstallOptions(), heard)
        first = await template(client)
        await install(client, InstallOptions(replicas=3), heard)
        assert await template(client) == first
        await install(client, InstallOptions(default_resize_policy="Recreate"), heard)
        assert await template(client) != first

    played(story)


@pytest.mark.parametrize(
    ("generation", "status", "words"),
    [
        (
            2,
            {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
            "the change has not been observed yet",
        ),
        (
            2,
            {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2},
            ".* updated",
        ),
        (
            2,
            {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 1},
            "1 replica of the old version is left",
        ),
        (
            2,
            {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1},
            "1 of 2 .* available",
        ),
        (2, {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, ""),
    ],
)
def test_what_is_missing(generation: int, status: JsonObject, words: str) -> None:
    told = missing({"metadata": {"generation": generation}, "spec": {"replicas": 2}, "status": status})
    assert re.match(f"{words}.*" if words else "$", told)


def test_a_pod_says_what_hinders_it() -> None:
    pending = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert unready_reason({"metadata": {"name": "p"}, "status": {"conditions": [pending]}}) == (
        "pod p has no node: 0/3 nodes are available"
    )
    container = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"reason": "Error", "message": "unknown field"}},
    }
    crashed = {"metadata": {"name": "p"}, "status": {"containerStatuses": [container]}}
    assert unready_reason(crashed) == "pod p: CrashLoopBackOff: unknown field"
