"""The commands on Deployments and StatefulSets, which a Rollout may release too."""

import json

import pytest
from tests.builders import deployment, stateful_set
from tests.cli.terminal import NAMESPACE, Story
from tests.rollouts import deployments, releases
from tests.rollouts.releases import V1, V2, new_cluster

from kohort.cli.actions import edit, list_workloads, logs, release_stop, set_image, show
from kohort.cli.connection import DIFFERENT, NOT_YET, PAUSED, REFUSED
from kohort.kube.client import Client
from kohort.kube.resources import DEPLOYMENTS, PODS, ROLLOUTS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject


@pytest.mark.parametrize("name", ["deployment/llm", "llm", "rollout/llm"])
async def test_a_release_of_a_deployment(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of its Rollout is enough where there is no set of that name."""
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster), Story(cluster, capsys)
        await story.begin(releases.rollout(steps=deployments.STEPS))
        text, code = await user.run(show.status, name, "text", False)
        assert (code, text.startswith("default/deployment/llm  [")) == (0, True)
        await story.change(V2)
        await story.at(1)
        text, code = await user.run(show.status, name, "text", True, 600.0)
        assert (code, "step 1 of 2, 20% of the requests" in text) == (PAUSED, True)
        assert "Rollout llm: step 1 waits for approval" in text
        text, code = await user.run(show.explain, name, "text")
        assert (code, "kohort approve deployment/llm -n default" in text) == (NOT_YET, True)
        text, _ = await user.run(show.get, name, "json", False)
        found = json.loads(text)
        assert (found["kind"], found["ready"], len(found["pods"])) == ("Deployment", 5, 5)
        assert (found["release"]["step"], found["release"]["trafficObserved"]) == (1, 20)
        assert found["canary"]["images"] == [V2]
        text, code = await user.run(show.get, name, "text", False)
        assert (code, text.count("Running")) == (0, 6)
        await user.run(edit.pause, name)
        assert story.rollout["spec"]["strategy"]["paused"] is True
        await user.run(edit.resume, name)
        await story.at(1)
        _, code = await user.run(edit.approve, name)
        assert (code, user.complaint) == (0, "")
        await story.at(2)
        _, code = await user.run(edit.abort, name)
        assert (code, user.complaint) == (0, "")
        await story.healthy(V1)
        _, code = await user.run(show.status, name, "text", True, 600.0)
        assert code == 0


async def test_undo_of_a_release_returns_to_the_stable_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster), Story(cluster, capsys)
        await story.begin(releases.rollout(steps=deployments.STEPS))
        await story.change(V2)
        await story.at(1)
        _, code = await user.run(edit.undo, "deployment/llm", None, False)
        assert (code, user.complaint) == (0, "")
        await story.healthy(V1)


def _image(image: str) -> JsonObject:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
async def test_a_workload_without_a_rollout(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    resource = DEPLOYMENTS if kind == "deployment" else STATEFUL_SETS
    image = "spec.template.spec.containers.0.image"
    async with new_cluster() as cluster:
        user, name = Story(cluster, capsys), f"{kind}/web"
        built = (deployment("web") if kind == "deployment" else stateful_set("web")).replicas(3).but(image, V1)
        await cluster.client.create(resource, built, NAMESPACE)
        _, code = await user.run(show.status, name, "text", True, 600.0)
        assert code == 0
        await cluster.client.patch(resource, "web", NAMESPACE, _image(V2))
        _, code = await user.run(show.status, name, "text", True, 600.0)
        assert code == 0
        text, _ = await user.run(show.show_history, name, "json")
        found = json.loads(text)
        assert [(one["images"], one["current"], one["pods"]) for one in found] == [([V1], False, 0), ([V2], True, 3)]
        text, code = await user.run(show.diff, name, None, None, True)
        assert (code, f"-    - image: {V1}" in text) == (DIFFERENT, True)
        _, code = await user.run(edit.undo, name, None, False)
        assert (code, user.complaint) == (0, "")
        _, code = await user.run(show.status, name, "text", True, 600.0)
        assert code == 0
        assert _images(user) == {V1}
        await user.run(edit.pause, name)
        before = user.uids()
        _, code = await user.run(edit.restart, name, None)
        assert code == 0
        await cluster.settle()
        assert user.uids() == before
        text, code = await user.run(show.explain, name, "text")
        # A StatefulSet is paused by its partition, which may also be what the user wants of it.
        assert (code, f"kohort resume {name}" in text) == (NOT_YET if kind == "deployment" else 0, True)
        _, same = await user.run(show.status, name, "text", False)
        assert same == code
        await user.run(edit.resume, name)
        _, code = await user.run(show.status, name, "text", True, 600.0)
        assert (code, user.uids() != before) == (0, True)
        _, code = await user.run(logs.logs, name, None, "", "", ())
        assert (code, "simulated nodes only pretend" in user.complaint) == (REFUSED, True)
        _, code = await user.run(edit.restart, name, 1)
        assert (code, "has no groups" in user.complaint) == (REFUSED, True)
        _, code = await user.run(edit.approve, name)
        assert (code, "no Rollout releases" in user.complaint) == (REFUSED, True)


def _images(user: Story) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in user.cluster.objects(PODS, NAMESPACE)}


async def test_a_plain_name_that_only_another_kind_has(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        user = Story(cluster, capsys)
        await cluster.client.create(DEPLOYMENTS, deployment("web"), NAMESPACE)
        _, code = await user.run(show.get, "web", "text", False)
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: there is no LeaderWorkerSet web in namespace default, but a Deployment: write deployment/web\n",
        )
        _, code = await user.run(show.get, "deployment/other", "text", False)
        assert (code, user.complaint) == (
            REFUSED,
            "kohort: there is no Deployment other in namespace default; there are: web\n",
        )
        assert cluster.objects(ROLLOUTS, NAMESPACE) == []


async def test_the_verbs_of_releases_on_a_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    """As on sets: set image, list, retry, approve --step and --full, releases, release stop."""
    name = "deployment/llm"
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster), Story(cluster, capsys)
        await story.begin(releases.rollout(steps=[*deployments.STEPS, {"replicas": "80%", "pause": {}}]))
        text, code = await user.run(set_image.set_images, name, {"main": V2}, "all", "faster", False)
        assert (code, V2 in text) == (0, True)
        await story.at(1)
        (line,) = json.loads((await user.run(list_workloads.list_workloads, "json", ""))[0])
        assert (line["kind"], line["release"]["step"], line["release"]["trafficObserved"]) == ("Deployment", 1, 20)
        text, code = await user.run(edit.retry, name)
        assert (code, text) == (0, "step 1 of Rollout llm is begun again\n")
        await story.at(1)
        _, code = await user.run(edit.approve, name, 7)
        assert (code, "has no step 7: there are 1 to 3" in user.complaint) == (REFUSED, True)
        text, code = await user.run(edit.approve, name, None, True)
        assert (code, "goes from step 1 to step 3 of 3; it waits there for: kohort approve" in text) == (0, True)
        await story.at(3)
        _, code = await user.run(show.status, name, "json", True, 600.0)
        assert code == PAUSED
        _, code = await user.run(edit.approve, name, 1)
        assert (code, user.complaint) == (0, "")
        await story.at(1)

        async def stop(client: Client, namespace: str) -> int:
            return await release_stop.stop_release(
                client, namespace, name, delete=False, yes=True, dry_run=False, timeout=600.0
            )

        _, code = await user.run(stop)
        assert (code, user.complaint) == (0, "")
        assert story.images() == {V1}
        records = json.loads((await user.run(list_workloads.releases, name, "json"))[0])
        assert len(records) == 1
