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
        ] + [line for line in text.splitlines() if line.startswith("  ! ")]
        steps = [{"replicas": "100%", "pause": {}}]
        text, code = await user.run(plan.plan, file(releases.rollout(steps=steps)), "json", False, True)
        (found,) = json.loads(text)
        assert (code, found["kind"], found["action"]) == (DIFFERENT, "Rollout", "configure")
