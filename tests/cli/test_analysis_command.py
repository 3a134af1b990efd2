"""`kohort analysis`, `approve --override`, and what `explain` says of a release that failed its analysis."""

import json
import re

import pytest
from click.testing import CliRunner
from tests.cli.terminal import Story
from tests.rollouts.analysis.served_metrics import judged_cluster, judged_rollout
from tests.rollouts.releases import NAMESPACE, V2

from kohort.cli.actions import analysis, edit, list_workloads, show
from kohort.cli.connection import NOT_YET, PAUSED, REFUSED
from kohort.cli.main import main
from kohort.kube.resources import ROLLOUT_HISTORIES, ROLLOUTS
from kohort.objects.json_types import JsonObject


async def test_a_failed_step_is_shown_explained_recorded_and_overridden(capsys: pytest.CaptureFixture[str]) -> None:
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        story.servers.slower[V2] = 3.0
        await story.analysis()
        await story.begin(plan=judged_rollout())
        text, code = await user.run(analysis.show_analysis, "llm", "text")
        assert (code, text) == (
            0,
            "No step of Rollout llm was judged yet; its ReleaseAnalysis is llm-slo\n",
        )
        assert (await user.run(analysis.override, "llm", ""))[1] == REFUSED
        await story.change(V2)
        await story.until(lambda: "failed its analysis" in story.message, timeout=1800)

        text, code = await user.run(analysis.show_analysis, "llm", "text")
        assert code == 0
        header, ttft, errors, *rest = text.splitlines()
        assert header.split()[:4] == ["STEP", "METRIC", "VERDICT", "NEW"]
        assert ttft.split()[:3] == ["1", "ttft", "Failed"]
        assert re.search(r"Failed +2\.\d+ s +\d+ ms ", ttft), "times have their unit"
        assert re.search(r"(Running|NoData|Passed) +0 % ", errors), "and shares are per cent"
        assert errors.split()[:3] == ["1", "errorRate", "(critical)"]
        assert "share of bad samples in step 1" in text
        assert "█" in text
        assert rest[-1].startswith("step 1: Failed (Enforce): ttft q0.95")

        (row,) = json.loads((await user.run(analysis.show_analysis, "llm", "json"))[0])
        assert (row["phase"], row["metrics"][0]["verdict"]) == ("Failed", "Failed")
        assert row["metrics"][0]["lower"] > 0
        assert [one["unit"] for one in row["metrics"]] == ["s", "%"]
        assert row["metrics"][0]["canary"] > 1.15 * row["metrics"][0]["stable"]

        text, code = await user.run(show.status, "llm", "text", True, 600.0)
        assert code == NOT_YET
        assert "Rollout llm: step 1 of 2, rolled back: all requests go to the stable version" in text
        assert "step 1 of Rollout llm has stopped" in user.complaint
        _, code = await user.run(edit.approve, "llm")
        assert code == REFUSED
        assert "step 1 was rolled back; begin it again: kohort retry llm -n default; or go on in" in user.complaint
        (release,) = json.loads((await user.run(list_workloads.releases, "llm", "json"))[0])
        assert (release["outcome"], release["images"]) == ("withdrawn", [V2])

        text, _ = await user.run(show.explain, "llm", "text")
        assert "[analysis] Rollout llm: step 1: ttft q0.95" in text
        assert "or begin the step again: kohort retry llm -n default" in text
        assert "kohort analysis llm -n default" in text
        assert "kohort approve --override llm -n default" in text

        await story.until(lambda: bool(_recorded(story.cluster.objects(ROLLOUT_HISTORIES, NAMESPACE))))
        (recorded,) = _recorded(story.cluster.objects(ROLLOUT_HISTORIES, NAMESPACE))
        assert (recorded["step"], recorded["phase"]) == (1, "Failed")
        assert "ttft q0.95" in recorded["message"]

        text, code = await user.run(analysis.override, "llm", "only the canary is cold")
        assert (code, text) == (0, "step 1 of Rollout llm goes on in spite of its analysis\n")
        await story.until(lambda: story.step == 2, timeout=600)
        assert story.run(1)["overriddenBy"].endswith("only the canary is cold")


@pytest.mark.parametrize("jump", [(None, True), (2, False)])
async def test_no_step_is_left_forward_before_its_verdict(
    capsys: pytest.CaptureFixture[str], jump: tuple[int | None, bool]
) -> None:
    """Back, and by an override, it is."""
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        await story.analysis(minSamples={"canary": 1000000, "stable": 1000000})
        steps = [{"replicas": 1, "traffic": "20%"}, {"replicas": 2, "traffic": "50%"}, {"replicas": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Running", timeout=600)
        _, code = await user.run(edit.approve, "llm", *jump)
        assert code == REFUSED
        assert "does not leave step 1 before its analysis has a verdict" in user.complaint
        assert "kohort approve --override llm" in user.complaint
        assert (await user.run(analysis.override, "llm", ""))[1] == 0
        await story.until(lambda: story.step == 2, timeout=600)
        assert (await user.run(edit.approve, "llm", 1))[1] == 0


@pytest.mark.parametrize("jump", [(None, True), (3, False)])
async def test_no_step_is_left_forward_before_its_analysis_has_begun(
    capsys: pytest.CaptureFixture[str], jump: tuple[int | None, bool]
) -> None:
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        await story.analysis()
        steps = [{"replicas": 1, "traffic": "20%"}, {"replicas": 2, "traffic": "50%"}, {"replicas": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.state == "StepUpgrade", timeout=600)
        _, code = await user.run(edit.approve, "llm", *jump)
        assert code == REFUSED
        assert "does not leave step 1 before its analysis has a verdict" in user.complaint
        assert "kohort approve --override llm" in user.complaint
        await story.jump(3)
        await story.until(lambda: bool(story.events("JumpRefused")))
        assert story.step == 1


async def test_a_step_that_is_overridden_before_its_analysis_has_begun_keeps_who_did_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        await story.analysis()
        steps = [{"replicas": 1, "traffic": "20%"}, {"replicas": 2, "traffic": "50%"}, {"replicas": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.state == "StepUpgrade", timeout=600)
        assert (await user.run(analysis.override, "llm", "known"))[1] == 0
        await story.until(lambda: (story.condition("Analysis") or {}).get("reason") == "Overridden")
        assert (await user.run(edit.approve, "llm", 3))[1] == 0
        await story.until(lambda: story.step == 3, timeout=600)
        await story.until(lambda: story.run(1).get("phase") == "Ended", timeout=600)
        assert story.run(1)["reason"] == "Overridden"
        assert story.run(1)["overriddenBy"].endswith("known")
        assert story.events("AnalysisOverridden")


async def test_a_dry_run_holds_no_jump(capsys: pytest.CaptureFixture[str]) -> None:
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        await story.analysis(mode="DryRun")
        steps = [{"replicas": 1, "traffic": "20%"}, {"replicas": 2, "traffic": "50%"}, {"replicas": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.state == "StepUpgrade", timeout=600)
        assert (await user.run(edit.approve, "llm", 3))[1] == 0
        await story.until(lambda: story.step == 3, timeout=600)


async def test_a_step_that_is_overridden_does_not_wait_for_approval(capsys: pytest.CaptureFixture[str]) -> None:
    """`status -w` would stop there, although the release goes on."""
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        story.servers.slower[V2] = 4.0
        await story.analysis(mode="Gate")
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": 2, "traffic": "50%", "pause": {}}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: "is held by its analysis" in story.message, timeout=1800)
        held = story.cluster.faults("operator").hold(ROLLOUTS)
        assert (await user.run(analysis.override, "llm", ""))[1] == 0
        await story.status(currentStepState="StepPaused")
        text, code = await user.run(show.status, "llm", "json", False, 1.0)
        assert code != PAUSED
        assert not json.loads(text)["release"]["waitsForApproval"]
        story.cluster.faults("operator").release(held)
        await story.until(lambda: story.step == 2, timeout=600)


async def test_what_is_missing_cannot_be_overridden(capsys: pytest.CaptureFixture[str]) -> None:
    async with judged_cluster() as story:
        user = Story(story.cluster, capsys)
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: "the release does not begin" in story.message)
        text, _ = await user.run(show.explain, "llm", "text")
        assert "ReleaseAnalysis llm-slo does not exist; create it" in text
        assert ("--override" in text, "kohort abort llm" in text) == (False, True)


def _recorded(histories: list[JsonObject]) -> list[JsonObject]:
    return [entry for one in histories for entry in one["spec"]["rollout"].get("data", {}).get("analysis", [])]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["approve", "llm", "--override", "--full"], "--override is for the current step"),
        (["approve", "llm", "--reason", "x"], "--reason is for --override"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], text: str) -> None:
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 2
    assert text in answer.output
