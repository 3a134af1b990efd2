"""Releases that are judged by the metrics of their pods, on a cluster."""

import asyncio
import re

import msgspec
import pytest
from tests.rollouts.analysis.analyses import analysis_spec
from tests.rollouts.analysis.served_metrics import ERRORS, TTFT, JudgedStory, judged_cluster, judged_rollout
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3

from kohort.kube.errors import ApiError
from kohort.kube.resources import ANALYSIS_RUNS, NAMESPACES, RELEASE_ANALYSES, ROLLOUTS, SECRETS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.rollout_types import ReleaseProgress
from kohort.rollouts.step_analysis import override_document
from kohort.rules import rollout_labels


async def test_a_good_version_is_promoted_after_every_step_was_judged() -> None:
    async with judged_cluster() as story:
        await story.analysis()
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.healthy(V2, timeout=3600)
        assert [run["spec"]["step"] for run in story.runs] == [1, 2]
        assert {run["status"]["phase"] for run in story.runs} == {"Passed"}
        assert len(story.events("AnalysisPassed")) == 2
        condition = story.condition("Analysis")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("True", "Passed")


async def test_a_slow_version_is_rolled_back_by_itself_and_says_why() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 2.5
        await story.analysis()
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
        await story.until(lambda: story.weight() in (None, "0"), timeout=1.0)
        await story.until(lambda: not story.pods(story.canary["metadata"]["name"]), timeout=120)
        assert story.images() == {V1}
        for part in ("step(1/2) failed its analysis", "ttft q0.95", "approve --override"):
            assert part in story.message
        assert re.search(r": \d[^,]*s, stable \d[^,]*s \(.*\), \d+ and \d+ samples: failed, .* between ", story.message)
        condition = story.condition("Analysis")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "Failed")
        assert story.events("AnalysisFailed")
        assert story.events("Withdrawn")
        await story.change(V1)
        await story.healthy(V1)


async def test_a_newer_version_after_a_rollback_is_released_from_the_first_step() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 2.5
        await story.analysis()
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
        await story.change(V3)
        await story.healthy(V3, timeout=3600)


async def test_a_release_does_not_begin_without_its_analysis() -> None:
    async with judged_cluster() as story:
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: "the release does not begin" in story.message)
        assert "ReleaseAnalysis llm-slo does not exist" in story.message
        await asyncio.sleep(60)
        assert not story.canaries
        await story.analysis(mode="DryRun")
        await story.healthy(V2)


async def test_a_release_is_not_judged_by_an_analysis_of_another_namespace() -> None:
    async def names(story: JudgedStory, name: str) -> None:
        await story.edit({"metadata": {"annotations": {rollout_labels.ANALYSIS_NAME: name}}})
        await story.until(lambda: f"ReleaseAnalysis {name} does not exist" in story.message)

    async with judged_cluster() as story:
        await story.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        await story.client.create(RELEASE_ANALYSES, {"metadata": {"name": "slo"}, "spec": analysis_spec()}, "other")
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        for name in ("slo", "other/slo", "../other/slo", "../../other/releaseanalyses/slo"):
            await names(story, name)
        assert not story.canaries


async def test_a_release_does_not_begin_with_an_invalid_analysis() -> None:
    async with judged_cluster() as story:
        await story.analysis(steps={"from": 3})
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        text = "spec.steps.from: 3, but Rollout llm has 2 steps: nothing would be judged"
        await story.until(lambda: text in story.message)
        assert not story.canaries
        await story.change(V1)
        await story.healthy(V1)


async def test_a_dry_run_only_reports() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        await story.analysis(mode="DryRun", warmup="10s", interval="2s", deadline="5m")
        steps = [{"replicas": 1, "traffic": "20%", "pause": {"duration": 300}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed")
        assert story.state == "StepPaused"
        await story.healthy(V2)
        assert "DryRun: only reported" in story.events("AnalysisFailed")[0]


async def test_a_gate_holds_a_failed_step_and_an_override_lets_it_go_on() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        await story.analysis(mode="Gate")
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: "step(1/2) is held by its analysis" in story.message, timeout=1800)
        assert story.weight() == "20"
        await story.approve()
        await story.until(lambda: bool(story.events("ApprovalIgnored")))
        await asyncio.sleep(120)
        assert (story.step, story.state) == (1, "StepMetricsAnalysis")
        await story.edit(override_document(ReleaseProgress.from_status(story.progress), "alice", "known"))
        await story.until(lambda: story.step == 2, timeout=120)
        assert story.run(1)["overriddenBy"] == "alice: known"


async def test_a_failed_step_that_is_overridden_is_served_again() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        await story.analysis(steps={"from": 1})
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "50%", "pause": {}}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
        await story.until(lambda: not story.pods(story.canary["metadata"]["name"]), timeout=120)
        await story.edit(override_document(ReleaseProgress.from_status(story.progress), "alice", ""))
        await story.until(lambda: story.step == 2 and story.weight() == "50", timeout=600)


async def test_a_failed_step_can_be_begun_again_with_an_analysis_of_its_own() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        await story.analysis()
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
        await story.until(lambda: not story.pods(story.canary["metadata"]["name"]), timeout=120)
        story.servers.slower[V2] = 1.0
        await story.jump(1)
        await story.healthy(V2, timeout=3600)
        assert [run["status"]["phase"] for run in story.runs if run["spec"]["step"] == 1] == ["Failed", "Passed"]


async def test_a_version_that_is_released_again_is_judged_again() -> None:
    async with judged_cluster() as story:
        await story.analysis(mode="Gate")
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Passed", timeout=1800)
        await story.change(V1)
        await story.healthy(V1)
        story.servers.slower[V2] = 4.0
        await story.change(V2)
        await story.until(lambda: "step(1/2) is held by its analysis" in story.message, timeout=1800)
        assert [run["status"]["phase"] for run in story.runs] == ["Passed", "Failed"]


async def test_an_override_does_not_count_for_a_step_that_is_begun_again() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        await story.analysis(mode="Gate")
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": 2, "traffic": "50%", "pause": {}}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.until(lambda: "step(1/2) is held by its analysis" in story.message, timeout=1800)
        await story.edit(override_document(ReleaseProgress.from_status(story.progress), "alice", "known"))
        await story.until(lambda: story.step == 2)
        await story.jump(1)
        await story.until(lambda: "step(1/2) is held by its analysis" in story.message, timeout=1800)
        await story.change(V1)
        await story.healthy(V1)
        await story.change(V2)
        await story.until(lambda: "step(1/2) is held by its analysis" in story.message, timeout=1800)
        assert [run["status"].get("overriddenBy", "") for run in story.runs] == ["alice: known", "", ""]


async def test_a_critical_metric_rolls_back_a_step_that_waits_for_approval() -> None:
    async with judged_cluster() as story:
        await story.analysis(TTFT, ERRORS)
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.at(1, timeout=1800)
        await asyncio.sleep(600)
        assert story.state == "StepPaused"
        story.servers.errors[V2] = 0.6
        await story.until(lambda: story.run(1).get("reason") == "Critical", timeout=300)
        await story.until(lambda: story.weight() in (None, "0"), timeout=1.0)
        assert "errorRate" in story.message


async def test_a_critical_metric_rolls_back_a_release_that_its_user_paused() -> None:
    async with judged_cluster() as story:
        await story.analysis(TTFT, ERRORS)
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.at(1, timeout=1800)
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await asyncio.sleep(30)
        story.servers.errors[V2] = 0.6
        await story.until(lambda: story.run(1).get("reason") == "Critical", timeout=300)
        await story.until(lambda: story.weight() in (None, "0"), timeout=30.0)
        await story.until(lambda: not story.pods(story.canary["metadata"]["name"]), timeout=120)


async def test_a_source_that_answers_500_holds_the_step_until_it_is_back() -> None:
    async with judged_cluster() as story:
        await story.analysis()
        await story.begin(plan=judged_rollout())
        story.servers.broken = lambda _: True
        await story.change(V2)
        await story.until(lambda: "the source could not be read" in story.message, timeout=300)
        await asyncio.sleep(3600)
        assert (story.step, story.state) == (1, "StepMetricsAnalysis")
        assert story.run(1)["reason"] == "SourceError"
        story.servers.broken = lambda _: False
        await story.healthy(V2, timeout=3600)


async def test_the_last_ten_runs_are_kept_and_all_go_with_the_rollout() -> None:
    async with judged_cluster() as story:
        await story.analysis(mode="DryRun")
        steps = [{"replicas": 1, "traffic": "20%", "pause": {"duration": 5}} for _ in range(6)]
        await story.begin(plan=judged_rollout(steps=steps))
        for image in (V2, V3, V1):
            await story.change(image)
            await story.healthy(image)
        assert len(story.runs) == 10
        await story.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.runs)


async def test_the_analysis_says_whether_it_can_be_used() -> None:
    def ready() -> tuple[str, str, str]:
        found = story.cluster.find(RELEASE_ANALYSES, "llm-slo", NAMESPACE) or {}
        conditions = (found.get("status") or {}).get("conditions") or [{}]
        one = conditions[0]
        return one.get("status", ""), one.get("reason", ""), one.get("message", "")

    async with judged_cluster() as story:
        await story.analysis({**TTFT, "max": "2s"})
        await story.until(lambda: ready()[1] == "NotUsed")
        await story.begin(plan=judged_rollout())
        await story.until(lambda: ready()[0] == "True", timeout=200)
        assert "max 2 s of ttft is not a bucket boundary: it fails by 2.5 s, passes by 1 s" in ready()[2]
        await story.analysis({"name": "itl", "quantile": 0.9, "maxRatio": 1.1})
        await story.until(lambda: ready()[1] == "MetricMissing")
        assert "itl (vllm:inter_token_latency_seconds)" in ready()[2]
        story.servers.broken = lambda _: True
        await story.until(lambda: ready()[1] == "SourceError", timeout=200)
        with pytest.raises(ApiError, match=r"spec.metrics\[0\] \(nothing\): preset vllm has ttft"):
            await story.analysis({"name": "nothing", "max": 1})
        with pytest.raises(ApiError, match=r"spec\.steps\.from: 9, but Rollout llm has 2 steps"):
            await story.analysis(steps={"from": 9})
        with pytest.raises(ApiError, match=r"spec\.confidence"):
            await story.analysis(confidence=1)


async def test_events_are_posted_as_cloud_events() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 4.0
        notify = [{"url": "http://10.1.2.3/hook", "on": ["failed", "rolledBack", "promoted"]}]
        await story.analysis(notify=notify)
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.until(lambda: len(story.servers.posted) >= 2, timeout=1800)
        await story.change(V3)
        await story.healthy(V3, timeout=3600)
        posted = story.servers.posted
        types = [one["type"] for one in posted]
        assert types[:2] == ["dev.kohort.release.failed", "dev.kohort.release.rolledBack"]
        assert types[-1] == "dev.kohort.release.promoted"
        assert "ttft" in posted[0]["data"]["message"]
        assert posted[0]["data"]["analysis"].startswith("step 1: ttft")
        assert ": failed" in posted[0]["data"]["analysis"]
        assert posted[0]["specversion"] == "1.0"
        assert len({one["id"] for one in posted}) == len(posted)


async def test_each_receiver_is_told_of_its_occasions_with_its_own_token() -> None:
    async with judged_cluster() as story:
        secret = {"metadata": {"name": "hook"}, "stringData": {"token": "secret"}}
        await story.client.create(SECRETS, secret, NAMESPACE)
        every = {"url": "http://10.1.2.3/all", "on": ["failed", "rolledBack", "promoted", "waiting"]}
        await story.analysis(
            notify=[
                {**every, "secretRef": {"name": "hook", "key": "token"}},
                {"url": "http://10.1.2.3/end", "on": ["promoted"]},
            ]
        )
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(plan=judged_rollout(steps=steps))
        await story.change(V2)
        await story.at(1, timeout=3600)
        await story.approve()
        await story.healthy(V2, timeout=3600)
        await story.cluster.settle(30)
        told = [
            (one.url[-3:], msgspec.json.decode(one.body)["type"].rpartition(".")[2], one.headers.get("Authorization"))
            for one in story.servers.posts
        ]
        assert told[0] == ("all", "waiting", "Bearer secret")
        assert sorted(told[1:]) == [("all", "promoted", "Bearer secret"), ("end", "promoted", None)]
        assert {one.headers["Content-Type"] for one in story.servers.posts} == {"application/cloudevents+json"}


@pytest.mark.parametrize(("refused", "posted"), [(4, 1), (1000, 0)])
async def test_a_post_is_tried_five_times_and_no_release_waits_for_it(refused: int, posted: int) -> None:
    async with judged_cluster() as story:
        story.servers.refused_posts = refused
        await story.analysis(mode="DryRun", notify=[{"url": "http://10.1.2.3/hook", "on": ["promoted"]}])
        await story.begin(plan=judged_rollout())
        await story.change(V2)
        await story.healthy(V2)
        await story.cluster.settle(60)
        assert (len(story.servers.posted), story.servers.refused_posts) == (posted, refused - (5 - posted))


async def test_a_run_that_could_not_be_used_is_refused() -> None:
    cases: list[tuple[JsonObject, str]] = [
        ({"step": 1, "analysis": "slo"}, "spec.rollout"),
        ({"rollout": "llm", "step": 0, "analysis": "slo"}, "spec.step"),
        ({"rollout": "llm", "step": 1, "analysis": ""}, "spec.analysis"),
        ({"rollout": "llm", "step": 1, "analysis": "slo", "attempt": -1}, "spec.attempt"),
    ]
    async with judged_cluster() as story:
        await story.analysis()
        await story.begin(plan=judged_rollout())
        for spec, field in cases:
            body = {"apiVersion": ANALYSIS_RUNS.api_version, "kind": ANALYSIS_RUNS.kind, "spec": spec}
            with pytest.raises(ApiError, match=field):
                await story.client.create(ANALYSIS_RUNS, {**body, "metadata": {"name": "bad", "namespace": NAMESPACE}})


async def test_without_the_annotation_no_run_is_made() -> None:
    async with judged_cluster() as story:
        await story.analysis()
        plan = judged_rollout()
        del plan["metadata"]["annotations"]
        await story.begin(plan=plan)
        await story.change(V2)
        await story.healthy(V2)
        assert not story.cluster.objects(ANALYSIS_RUNS, NAMESPACE)
        assert story.condition("Analysis") is None
        assert story.servers.reads == 0
