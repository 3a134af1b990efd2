"""The commands while a Rollout releases a set, on virtual time."""

import asyncio
import json

import pytest
import yaml
from tests.cli.terminal import Story as Terminal
from tests.rollouts.releases import V1, V2, V3, Story, group_set, new_cluster, rollout

from kohort.cli.actions import edit, plan, show
from kohort.cli.connection import NOT_YET, PAUSED, REFUSED
from kohort.kube.resources import INGRESSES, PODS, ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster


async def test_a_release_is_explained_paused_resumed_and_approved(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        _, code = await user.run(edit.approve, "llm")
        assert (code, user.complaint) == (REFUSED, "kohort: Rollout llm does not wait for approval: it is Healthy\n")
        text, _ = await user.run(plan.plan, {"f": yaml.safe_dump(dict(group_set(V2)))}, "text", False, False)
        assert "Rollout llm would release it in 3 steps; until then the groups of this set stay." in text
        await story.change(V2)
        await story.at(1)
        text, code = await user.run(show.explain, "llm", "json")
        assert code == NOT_YET
        assert [(one["kind"], one["found"]) for one in json.loads(text)] == [("rollout", "step 1 waits for approval")]
        text, code = await user.run(show.status, "llm", "text", False)
        assert (code, "step 1 waits for approval" in text) == (PAUSED, True)
        await user.run(edit.pause, "llm")
        paused = cluster.find(ROLLOUTS, "llm", "default")
        assert paused is not None
        assert paused["spec"]["strategy"]["paused"] is True
        text, _ = await user.run(show.explain, "llm", "text")
        assert "kohort resume llm" in text
        await user.run(edit.resume, "llm")
        await story.at(1)
        _, code = await user.run(edit.approve, "llm")
        assert code == 0
        await story.at(2)
        await story.healthy(V2)
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0


async def test_a_release_that_is_aborted_leaves_the_old_version(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        _, code = await user.run(edit.abort, "llm")
        assert (code, "has nothing under way" in user.complaint) == (REFUSED, True)
        before = user.uids()
        await story.change(V2)
        _, code = await user.run(show.status, "llm", "text", False)
        assert code == NOT_YET, "a release is under way from the moment of the change"
        await story.at(1)
        _, code = await user.run(edit.abort, "llm")
        assert code == 0, user.complaint
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0
        await story.healthy(V1)
        assert {name: uid for name, uid in user.uids().items() if name in before} == before


async def test_a_paused_release_that_is_aborted_is_followed_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await user.run(edit.pause, "llm")
        _, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == PAUSED
        _, code = await user.run(edit.abort, "llm")
        assert code == 0, user.complaint
        text, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == 0, text
        await story.healthy(V1)


async def test_a_canary_that_does_not_come_up_is_explained_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        orders = {"simulation.kohort.dev/waiting": "ImagePullBackOff"}
        change = {
            "metadata": {"annotations": orders, "labels": {"app": "llm"}},
            "spec": {"containers": [_container(V2)]},
        }
        await user.change({"spec": {"leaderWorkerTemplate": {"workerTemplate": change}}})
        await story.until(lambda: len(_stuck(cluster)) == 2)
        canary = _stuck(cluster)[0]
        text, code = await user.run(show.explain, "llm", "json")
        found = json.loads(text)
        assert code == NOT_YET
        assert [one["kind"] for one in found] == ["image", "rollout"]
        assert canary in found[0]["objects"]
        assert "kohort abort llm" in found[1]["action"]
        text, _ = await user.run(show.get, "llm", "text", False)
        assert "Rollout llm: step 1 of 3, StepUpgrade" in text
        assert canary in text
        everything, _ = await user.run(show.get, None, "text", False)
        assert everything == text, "a canary is shown with its set, not beside it"


def _stuck(cluster: Cluster) -> list[str]:
    """Pods with a container that waits for its image."""
    statuses = {one["metadata"]["name"]: one.get("status") or {} for one in cluster.objects(PODS, "default")}
    reasons = {
        name: [(each["state"].get("waiting") or {}).get("reason") for each in status.get("containerStatuses") or ()]
        for name, status in statuses.items()
    }
    return sorted(name for name, found in reasons.items() if "ImagePullBackOff" in found)


def _container(image: str) -> JsonObject:
    return {"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8080}]}


@pytest.mark.parametrize("promoted", [False, True], ids=["before the first group", "with groups of both versions"])
async def test_a_promotion_can_be_aborted(capsys: pytest.CaptureFixture[str], promoted: bool) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.jump(3)
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Finalising")
        if promoted:
            await story.until(lambda: story.images() == {V1, V2})
        _, code = await user.run(edit.abort, "llm")
        assert (code, user.complaint) == (0, "")
        await story.healthy(V1)
        assert story.images() == {V1}


async def test_a_step_that_cannot_move_requests_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1, "StepUpgrade")
        await cluster.client.delete(INGRESSES, "llm", "default")
        await story.until(lambda: "Ingress" in (story.rollout["status"].get("message") or ""))
        text, code = await user.run(show.explain, "llm", "text")
        assert code == NOT_YET
        assert "[traffic] Rollout llm: " in text
        assert "Ingress" in text
        assert "→ create it; or go back: kohort abort llm" in text, "other routes would be refused"


async def test_undo_during_a_release_returns_to_what_serves(capsys: pytest.CaptureFixture[str]) -> None:
    """The second version is replaced by a third before it was promoted: undo means the first."""
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.change(V3)
        await story.until(lambda: _canary_images(cluster) == {V3})
        await story.at(1)
        text, _ = await user.run(show.get, "llm", "json", False)
        found = json.loads(text)
        assert found["canary"]["revision"] == found["revision"] == 3
        assert {group["revision"] for group in found["groups"]} == {1}
        text, _ = await user.run(show.show_history, "llm", "json")
        assert [(one["images"], one["served"]) for one in json.loads(text)] == [
            ([V1], "yes"),
            ([V2], "never"),
            ([V3], "not yet"),
        ]
        text, code = await user.run(edit.undo, "llm", None, False)
        assert (code, user.image()) == (0, V1)
        assert "releases it" not in text, "an undo to the stable version ends the release and begins none"
        await story.healthy(V1)


@pytest.mark.parametrize("seconds", [0.0, 0.4, 1.5, 4.0, 9.0, 30.0])
@pytest.mark.parametrize("shape", ["canary", "blue-green", "superseded", "paused"])
async def test_undo_at_any_moment_of_a_release_returns_to_what_serves(
    shape: str, seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    async with new_cluster() as cluster:
        story, user = Story(cluster), Terminal(cluster, capsys)
        await story.begin(plan=rollout(blue_green=shape == "blue-green"))
        await story.change(V2)
        if shape == "superseded":
            await asyncio.sleep(seconds)
            await story.change(V3)
        elif shape == "paused":
            await story.edit({"spec": {"strategy": {"paused": True}}})
        await asyncio.sleep(seconds)
        state = (story.phase, story.state)
        _, code = await user.run(edit.undo, "llm", None, False)
        assert (code, user.image()) == (0, V1), (state, user.complaint)
        if shape == "paused":
            await story.edit({"spec": {"strategy": {"paused": False}}})
        await story.healthy(V1)


def _canary_images(cluster: Cluster) -> set[str]:
    pods = [one for one in cluster.objects(PODS, "default") if not one["metadata"]["name"].startswith("llm-0")]
    canaries = [one for one in pods if one["metadata"]["labels"].get(group_labels.NAME) != "llm"]
    return {one["spec"]["containers"][0]["image"] for one in canaries}
