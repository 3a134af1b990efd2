"""`lint` and `plan` of Rollouts and routes."""

import json

import pytest
import yaml
from tests.cli.terminal import NAMESPACE, Story
from tests.rollouts import releases
from tests.rollouts.releases import new_cluster

from kohort.cli.actions import plan
from kohort.cli.connection import DIFFERENT, REFUSED
from kohort.kube.resources import ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rules.rollout_labels import ANALYSIS_NAME


def file(*documents: JsonObject) -> dict[str, str]:
    return {"f": yaml.safe_dump_all(json.loads(json.dumps(one)) for one in documents)}


async def test_a_rollout_that_leads_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        user = Story(cluster, capsys)
        text, code = await user.run(plan.lint, file(releases.rollout()), "json")
        assert code == REFUSED
        assert [one["finding"].split(":")[0] for one in json.loads(text)] == [
            "spec.workloadRef",
            "spec.strategy.canary.trafficRoutings[0].service",
            "spec.strategy.canary.trafficRoutings[0].ingress.name",
        ]
        text, _ = await user.run(plan.lint, file(releases.rollout(), releases.group_set()), "text")
        assert "there is no LeaderWorkerSet" not in text, "it is in the same file"
        judged = releases.rollout()
        judged["metadata"]["annotations"] = {ANALYSIS_NAME: "slo"}
        text, _ = await user.run(plan.lint, file(judged), "text")
        assert f"annotation {ANALYSIS_NAME}: there is no ReleaseAnalysis slo, in the cluster or in these files" in text
        wrong = releases.rollout(steps=[{"replicas": "-1"}])
        text, code = await user.run(plan.lint, file(wrong), "text")
        assert (code, "Rollout llm: " in text) == (REFUSED, True)
        assert cluster.objects(ROLLOUTS, NAMESPACE) == []


async def test_the_plan_of_a_rollout(capsys: pytest.CaptureFixture[str]) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        _, code = await user.run(plan.lint, file(releases.rollout()), "text")
        assert code == 0
        text, code = await user.run(plan.plan, file(releases.rollout()), "text", False, True)
        assert code == 0
        assert text.splitlines() == [
            "Rollout llm would not change; it releases LeaderWorkerSet llm (Canary).",
            "  1. 1 of the new version (1), requests with header x-tester=1, waits for approval",
            "  2. 1 of the new version (50%), 20% of the requests, waits 60 s",
            "  3. 2 of the new version (100%), 100% of the requests",
            "  Nodes have room for the 2 groups of the new version.",
            "  The release takes about 98 s, besides 1 approval (a group starts in 2 s).",
        ] + [line for line in text.splitlines() if line.startswith("  ! ")]
        steps = [{"replicas": "100%", "pause": {}}]
        text, code = await user.run(plan.plan, file(releases.rollout(steps=steps)), "json", False, True)
        (found,) = json.loads(text)
        assert (code, found["kind"], found["action"]) == (DIFFERENT, "Rollout", "configure")
        release = found["release"]
        assert (release["replicas"], release["fitting"], release["startSeconds"]) == ([2], 2, 2)


async def test_the_plan_of_a_set_with_a_rollout_says_how_long_its_release_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with new_cluster() as cluster:
        story, user = releases.Story(cluster), Story(cluster, capsys)
        await story.begin()
        edited = file(releases.group_set(releases.V2))
        text, _ = await user.run(plan.plan, edited, "text", False, False)
        assert "  The release takes about 98 s, besides 1 approval (a group starts in 2 s)." in text.splitlines()
        assert "Room: it fits." in text
        await story.client.delete(ROLLOUTS, "llm", NAMESPACE)
        await story.until(lambda: not story.rollout)
        text, _ = await user.run(plan.plan, edited, "text", False, False)
        assert "It takes about 4 s (a group starts in 2 s)." in text.splitlines()
