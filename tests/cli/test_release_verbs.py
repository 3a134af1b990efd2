"""`list`, `approve --step` and `--full`, `set image`, `retry`, `releases`, `release stop`."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from click.testing import CliRunner
from tests.builders import container, lws, pod
from tests.cli.terminal import NAMESPACE, Story
from tests.rollouts import deployments, releases
from tests.rollouts.releases import V1, V2, V3, new_cluster

from kohort.cli.actions import edit, list_workloads, release_stop, set_image, show
from kohort.cli.connection import PAUSED, REFUSED, TOO_LATE
from kohort.cli.main import main
from kohort.kube.client import Client
from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, ROLLOUTS, STATEFUL_SETS, Resource
from kohort.objects.json_types import Json


async def test_list_has_a_line_for_each(story: Callable[..., Json]) -> None:
    async with story() as user:
        text, _ = await user.run(list_workloads.list_workloads, "text", "")
        assert text.startswith("No LeaderWorkerSets in namespace default.")
        await user.create(lws("llm").replicas(2).size(2).labels(team="a"))
        await user.cluster.client.create(LEADER_WORKER_SETS, lws("other").replicas(1).labels(team="b"), NAMESPACE)
        text, code = await user.run(list_workloads.list_workloads, "text", "")
        header, *lines = text.splitlines()
        assert (code, header.split()[:4], len(lines)) == (0, ["NAME", "STATE", "READY", "UPDATED"], 2)
        assert lines[0].split()[:4] == ["llm", "Available", "2/2", "2"]
        text, _ = await user.run(list_workloads.list_workloads, "json", "team=b")
        assert [one["name"] for one in json.loads(text)] == ["other"]
        text, _ = await user.run(show.get, None, "json", False, "team=a")
        assert [one["name"] for one in json.loads(text)] == ["llm"]
        text, _ = await user.run(list_workloads.list_workloads, "text", "team=c")
        assert text == "No LeaderWorkerSets with labels team=c in namespace default.\n"


async def test_a_release_is_in_the_list_and_in_fields(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster), Story(cluster, capsys)
        await story.begin(releases.rollout(steps=deployments.STEPS))
        await story.change(V2)
        await story.at(1)
        text, _ = await user.run(list_workloads.list_workloads, "text", "")
        assert "1/2 20% approve" in text
        text, _ = await user.run(list_workloads.list_workloads, "json", "")
        (line,) = json.loads(text)
        assert (line["name"], line["release"]["waitsForApproval"]) == ("deployment/llm", True)
        await story.approve()
        await story.at(2)
        text, _ = await user.run(show.get, "llm", "json", False)
        found = json.loads(text)["release"]
        assert (found["trafficAsked"], found["trafficObserved"], found["pauseSeconds"]) == ("60%", 60, 5)
        assert 0 <= found["pauseSecondsLeft"] <= 5
        assert (found["step"], found["steps"], found["newReplicasReady"]) == (2, 2, 3)


async def test_matches_of_a_step_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        text, _ = await user.run(show.get, "llm", "text", False)
        assert "Rollout llm: step 1 of 3, StepPaused, requests with header x-tester=1, waits for approval" in text
        text, _ = await user.run(show.get, "llm", "json", False)
        assert json.loads(text)["release"]["matches"] == ["header x-tester=1"]


async def test_approving_another_step(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin(plan=releases.rollout(blue_green=True))
        _, code = await user.run(edit.approve, "llm", 2)
        assert (code, "has no step to leave: it is Healthy" in user.complaint) == (REFUSED, True)
        await story.change(V2)
        await story.at(1)
        _, code = await user.run(edit.approve, "llm", 9)
        assert (code, user.complaint) == (REFUSED, "kohort: Rollout llm has no step 9: there are 1 to 3\n")
        _, code = await user.run(edit.approve, "llm", 2)
        assert code == 0
        await story.at(2)
        _, code = await user.run(edit.approve, "llm", 1)
        assert code == 0
        await story.at(1)
        text, code = await user.run(edit.approve, "llm", None, True)
        assert (code, "goes from step 1 to step 3 of 3; it waits there for: kohort approve llm" in text) == (0, True)
        await story.at(3)
        _, code = await user.run(edit.approve, "llm", None, True)
        assert code == 0
        await story.healthy(V2)


async def test_approving_in_full_does_not_finish_a_last_step_that_has_no_pods_yet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        assert (await user.run(edit.approve, "llm", None, True))[1] == 0
        await story.until(lambda: (story.step, story.state) == (3, "StepUpgrade"))
        _, code = await user.run(edit.approve, "llm", None, True)
        assert (code, "does not wait for approval: it is StepUpgrade" in user.complaint) == (REFUSED, True)
        assert story.state == "StepUpgrade"
        await story.healthy(V2)


class DelayedWriter(Client):
    """A client whose next patch waits for something else to happen first."""

    def __init__(self, client: Client, before: Callable[[], Awaitable[None]]) -> None:
        super().__init__(client.transport)
        self._before: Callable[[], Awaitable[None]] | None = before

    async def patch(self, *args: Json, **kwargs: Json) -> Json:
        before, self._before = self._before, None
        if before is not None:
            await before()
        return await super().patch(*args, **kwargs)


async def test_an_approval_does_not_reach_the_step_after_the_one_that_was_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin(plan=releases.rollout(blue_green=True))
        await story.change(V2)
        await story.at(1)

        async def another_person_is_faster() -> None:
            await story.approve()
            await story.at(2)

        user.client = DelayedWriter(cluster.client, another_person_is_faster)
        _, code = await user.run(edit.approve, "llm")
        assert (code, "Rollout llm has gone on meanwhile, to step 2 (StepPaused)" in user.complaint) == (REFUSED, True)
        await story.at(2)

        async def status_is_written() -> None:
            note = {"metadata": {"annotations": {"note": "changes the version, not the step"}}}
            await cluster.client.patch(ROLLOUTS, "llm", NAMESPACE, note)

        user.client = DelayedWriter(cluster.client, status_is_written)
        _, code = await user.run(edit.approve, "llm")
        assert code == 0
        await story.at(3)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({set_image.FIRST: "main"}, "main is a container of LeaderWorkerSet llm, and no image is given for it: write"),
        ({"main": "UPPER CASE"}, "'UPPER CASE' is not a reference to an image"),
    ],
)
async def test_set_image_refuses_what_cannot_be_meant(
    story: Callable[..., Json], wanted: dict[str, str], why: str
) -> None:
    async with story() as user:
        await user.create(lws("llm").replicas(1).size(1))
        before = user.image()
        text, code = await user.run(set_image.set_images, "llm", wanted, "all", "", False)
        assert (text, code, user.image()) == ("", REFUSED, before)
        assert why in user.complaint


async def test_set_image_notes_why(story: Callable[..., Json]) -> None:
    async with story() as user:
        leader = pod().containers(container("server", "a:1"), container("router", "b:1"))
        await user.create(lws("llm").replicas(1).size(2).leader(leader))
        _, code = await user.run(set_image.set_images, "llm", {"cook": "a:2"}, "all", "", False)
        assert code == REFUSED
        assert "LeaderWorkerSet llm has no container cook; there are: server, router, main" in user.complaint
        text, code = await user.run(set_image.set_images, "llm", {"router": "b:2"}, "all", "new router", False)
        assert (code, "llm gets b:2" in text) == (0, True)
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0
        text, _ = await user.run(show.show_history, "llm", "json")
        assert [(one["changeCause"], "b:2" in one["images"]) for one in json.loads(text)] == [
            ("", False),
            ("new router", True),
        ]
        text, code = await user.run(set_image.set_images, "llm", {"router": "b:2"}, "leader", "", False)
        assert (code, text) == (0, "llm has b:2 already\n")
        await user.run(set_image.set_images, "llm", {set_image.FIRST: "all:3"}, "worker", "", False)
        templates = user.live()["spec"]["leaderWorkerTemplate"]
        found = [templates[role]["spec"]["containers"][0]["image"] for role in ("leaderTemplate", "workerTemplate")]
        assert found == ["a:1", "all:3"]


async def test_an_aborted_release_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        _, code = await user.run(edit.retry, "llm")
        assert (code, "has no release that was given up" in user.complaint) == (REFUSED, True)
        await story.change(V2)
        await story.at(1)
        text, code = await user.run(edit.retry, "llm")
        assert (code, text) == (0, "step 1 of Rollout llm is begun again\n")
        await story.at(1)
        await user.run(edit.abort, "llm")
        await story.healthy(V1)
        _, code = await user.run(edit.retry, "llm")
        assert (code, user.complaint, user.image()) == (0, "", V2)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)


async def test_a_version_that_another_one_replaced_is_not_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin(plan=releases.rollout(steps=[{"replicas": 1, "pause": {}}]))
        await story.change(V2)
        await story.at(1)
        await cluster.settle(2)
        await story.change(V3)
        await story.until(lambda: bool(story.events("Superseded")))
        await story.at(1)
        await story.approve()
        await story.healthy(V3)
        _, code = await user.run(edit.retry, "llm")
        assert (code, "has no release that was given up" in user.complaint) == (REFUSED, True)


async def test_what_follows_an_edit_depends_on_the_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        text, _ = await user.run(set_image.set_images, "llm", {set_image.FIRST: V2}, "all", "", False)
        assert "; Rollout llm releases it, from its first step on; follow it with" in text
        await story.at(1)
        text, _ = await user.run(show.status, "llm", "text", False)
        assert "requests with header x-tester=1, waits for approval" in text
        text, _ = await user.run(edit.undo, "llm", None, False)
        assert ("releases it" in text, "follow it with" in text) == (False, True)
        await story.until(lambda: (story.condition("Progressing") or {})["reason"] == "Cancelling")
        text, _ = await user.run(show.status, "llm", "text", False)
        assert "Rollout llm: step 1 of 3, going back to the stable version" in text
        await story.healthy(V1)
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled")
        text, _ = await user.run(set_image.set_images, "llm", {set_image.FIRST: V3}, "all", "", False)
        assert "; Rollout llm is disabled, so it rolls out without steps; follow it with" in text


async def test_releases_and_how_they_ended(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        text, _ = await user.run(list_workloads.releases, "llm", "text")
        assert text == "Rollout llm has released nothing yet\n"
        await story.change(V2)
        await story.at(1)
        text, _ = await user.run(list_workloads.releases, "llm", "json")
        (now,) = json.loads(text)
        assert (now["outcome"], now["images"], now["by"]) == ("under way", [V2], cluster.client.field_manager)
        await user.run(edit.abort, "llm")
        await story.healthy(V1)
        await story.change(V3)
        await story.at(1)
        await story.approve()
        await story.healthy(V3)
        await cluster.settle()
        text, code = await user.run(list_workloads.releases, "llm", "json")
        assert (code, [one["outcome"] for one in json.loads(text)]) == (0, ["rolled_back", "succeeded"])
        assert [one["images"] for one in json.loads(text)] == [[V2], [V3]], "what was released, however it ended"
        text, _ = await user.run(list_workloads.releases, "llm", "text")
        assert text.splitlines()[0].split() == ["RELEASE", "OUTCOME", "STARTED", "BY", "STEPS", "PODS", "IMAGES"]


@pytest.mark.parametrize("delete", [False, True], ids=["disable", "delete"])
async def test_a_release_is_stopped_without_shipping_it(delete: bool, capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        before = user.uids()
        await story.change(V2)
        await story.at(1)

        async def stop(client: Client, namespace: str, dry_run: bool, timeout: float) -> int:
            return await release_stop.stop_release(
                client, namespace, "llm", delete=delete, yes=True, dry_run=dry_run, timeout=timeout
            )

        text, code = await user.run(stop, True, 600.0)
        assert (code, user.image()) == (0, V2)
        assert text.startswith("LeaderWorkerSet llm returns to revision 1 (")
        _, code = await user.run(stop, False, 0.2)
        assert code == TOO_LATE
        assert story.rollout["spec"].get("disabled") in (None, False)
        _, code = await user.run(stop, False, 600.0)
        assert (code, user.complaint, user.image()) == (0, "", V1)
        await cluster.settle()
        assert user.uids() == before, "no pod of the stable version was touched, and none of the new one is left"
        rollout = cluster.find(ROLLOUTS, "llm", NAMESPACE)
        assert (rollout is None) == delete
        assert delete or (rollout or {})["spec"]["disabled"] is True


async def test_the_end_of_a_watch_at_a_pause(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        await story.change(V3)
        text, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == PAUSED
        assert "step 1 of 3" in text.splitlines()[-2]
        await story.approve()
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0, "a pause of 60 s ends by itself"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["approve", "llm", "--step", "1", "--full"], "give either --step or --full"),
        (["set", "image", "llm"], "Missing argument"),
        (["set", "image", "llm", "a="], "'a=' is not of the form CONTAINER=IMAGE"),
        (["set", "image", "llm", "a=1", "a=2"], "one container is named twice"),
        (["set", "colour", "llm", "red"], "'colour' is not 'image'"),
        (["release", "stop", "llm"], "add --keep-stable"),
        (["release", "stop", "llm", "--keep-stable"], "add --yes"),
        (["get", "-l", "a in ("], "selects nothing"),
        (["get", "llm", "-l", "a=b"], "leave the name out"),
    ],
)
def test_command_lines_that_make_no_sense(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS], ids=["Deployment", "StatefulSet"])
async def test_a_version_that_an_earlier_one_was_released_after_was_not_given_up(
    capsys: pytest.CaptureFixture[str], resource: Resource
) -> None:
    """The earlier version has the older ReplicaSet or ControllerRevision, although it is the newer release."""
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster, resource), Story(cluster, capsys)
        plan = releases.rollout(steps=[{"replicas": "100%", "pause": {"duration": 1}}])
        plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
        await story.begin(plan)
        for image in (V2, V1):
            await asyncio.sleep(5)
            await story.change(image)
            await story.healthy(image)
        text, code = await user.run(edit.retry, f"{resource.kind.lower()}/llm")
        assert (code, text) == (REFUSED, "")
        assert "has no release that was given up" in user.complaint
