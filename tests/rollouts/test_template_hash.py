"""Versions of Deployments have the names that Kruise Rollouts gives them. `tools/templatehash` has recorded those."""

import copy
import json
from pathlib import Path

import pytest
from tests.rollouts.deployments import STEPS, Story, story
from tests.rollouts.releases import V2, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts.template_hash import template_hash
from kohort.rollouts.workloads.deployment_hold import earlier_revision_of

RECORDED: list[JsonObject] = json.loads((Path(__file__).parent / "recorded" / "template_hashes.json").read_text())
EARLIER: list[str] = ["84bwf24742", "7cz6czxbd2", "7w5w69bzcz"]


@pytest.mark.parametrize("recorded", RECORDED, ids=["small", "defaulted", "rich"])
def test_the_hash_is_that_of_the_released_manager(recorded: JsonObject) -> None:
    assert template_hash(recorded["template"]) == recorded["hash"]


def test_what_an_earlier_version_recorded_is_known_again() -> None:
    assert [earlier_revision_of(one["template"]) for one in RECORDED] == EARLIER


def test_spelling_does_not_count_and_fields_of_newer_kubernetes_do() -> None:
    template = RECORDED[2]["template"]
    respelt, newer, other = (copy.deepcopy(template) for _ in range(3))
    respelt["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1.5"
    respelt["spec"]["hostPID"] = False
    assert template_hash(respelt) == template_hash(template)
    newer["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    other["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    assert len({template_hash(one) for one in (template, newer, other)}) == 3


@pytest.mark.parametrize("blue_green", [True, False], ids=["blue-green", "canary"])
async def test_the_status_of_a_release_names_the_version_by_its_hash(blue_green: bool) -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=blue_green, steps=STEPS))
        await told.change(V2)
        await told.at(1)
        assert named(told, blue_green) == template_hash(told.stable["spec"]["template"])


def named(told: Story, blue_green: bool) -> str:
    status = told.rollout["status"]
    revision: str = (
        status["blueGreenStatus"]["updatedRevision"] if blue_green else status["canaryStatus"]["canaryRevision"]
    )
    return revision
