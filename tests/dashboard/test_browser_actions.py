"""Every action in a real browser, by mouse or keyboard: seen in the API, in an event, and by a second browser."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from tests.dashboard.browser import Window, needs_browser, window
from tests.dashboard.scene import STEPS, Scene, dashboard, model_set, scene

from kohort.dashboard.server import DashboardSettings
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, PODS, ROLLOUTS
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.browser, needs_browser(), pytest.mark.timeout(300)]
LLM = "/dashboard/sets/default/llm"
SECONDS = 1.0
"""After which a second browser has seen a change."""


class Two(NamedTuple):
    scene: Scene
    first: Window
    """Acts."""
    second: Window
    """Looks."""

    def found(self) -> JsonObject:
        return self.scene.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {}

    def rollout(self) -> JsonObject:
        return self.scene.cluster.find(ROLLOUTS, "llm", "default") or {}

    def pods(self) -> list[JsonObject]:
        return [one for one in self.scene.cluster.objects(PODS) if "deletionTimestamp" not in one["metadata"]]

    async def confirm(self, command: str) -> str:
        """On the preview: nothing serious for screen readers; a click does it. The notice, after the event was seen."""
        page = self.first.page
        await page.wait_for_selector("text=Nothing has changed yet")
        assert await page.text_content("#action .command code") == command
        assert await self.first.violations() == []
        await page.click("#action form button")
        return await self.noticed(command)

    async def noticed(self, command: str) -> str:
        notice: str = await self.first.page.text_content(".notice")
        words = f"kubernetes-admin ran {command} on the dashboard"
        await self.until(lambda: any(one["message"] == words for one in self.scene.cluster.objects(EVENTS)))
        return notice

    async def until(self, holds: Callable[[], bool]) -> None:
        await self.scene.cluster.until(holds, timeout=60)

    async def seen(self, selector: str) -> None:
        """The second browser shows it, within a second from now."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        await self.second.page.wait_for_selector(selector, timeout=10_000)
        assert loop.time() - start < SECONDS

    async def tab_to(self, text: str, element: str = "A", times: int = 80) -> None:
        """To the element with this text or id, by the keyboard alone; what has the focus is marked."""
        page = self.first.page
        for _ in range(times):
            await page.keyboard.press("Tab")
            found = await page.evaluate(
                "[(document.activeElement.textContent || document.activeElement.id).trim(), "
                "document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
            )
            if found[:2] == [text, element]:
                assert found[2] != "none", f"the focus on {text} cannot be seen"
                return
        raise AssertionError(f"{text} cannot be reached by the Tab key")


@asynccontextmanager
async def two(**strategy: str | int) -> AsyncIterator[Two]:
    async with scene(nodes=8) as found, dashboard(found, DashboardSettings(allow_actions=True)) as running:
        llm = model_set("llm", image="model:1", gpus=1)
        await found.create(llm.but("spec.rolloutStrategy", strategy) if strategy else llm)
        await found.ready("llm")
        async with window(running) as first, window(running) as second:
            yield Two(found, first, second)


async def begin_release(of: Two, image: str) -> None:
    await of.scene.change_image("llm", "default", image)
    await of.scene.until_step("llm", "default", 1, "StepPaused")


async def test_a_release_is_paused_resumed_approved_moved_finished_and_aborted() -> None:
    async with two() as of:
        found, page = of.scene, of.first.page
        await found.released("llm", "default", STEPS)
        await of.until(lambda: found.phase_of("llm", "default") == "Healthy")
        await begin_release(of, "model:2")
        await of.second.open(f"{LLM}/release")
        await of.second.live()

        await of.first.open(f"{LLM}/release")
        await page.click("text=Pause…")
        await of.confirm("kohort pause llm -n default")
        assert of.rollout()["spec"]["strategy"]["paused"] is True
        await of.seen("#rail .pill:has-text('paused')")
        await page.click("text=Resume…")
        await of.confirm("kohort resume llm -n default")
        assert not of.rollout()["spec"]["strategy"].get("paused")
        await of.seen("#rail .pill:has-text('waits for approval')")

        # By the keyboard alone.
        await of.tab_to("Approve…")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Nothing has changed yet")
        await of.tab_to("Approve", "BUTTON")
        await page.keyboard.press("Enter")
        assert await of.noticed("kohort approve llm -n default") == "step 1 of Rollout llm is approved"
        await of.until(lambda: found.step_of("llm", "default") == 2)
        await of.seen(".step.current:has-text('Step 2')")
        await of.second.page.wait_for_selector(".step.current:has-text('20% observed')", timeout=60_000)
        left = await of.second.page.text_content(".step.current .countdown", timeout=60_000)
        await of.second.page.wait_for_function(
            "before => document.querySelector('.step.current .countdown').textContent !== before", arg=left
        )

        await found.until_step("llm", "default", 2, "StepPaused")
        await of.first.open(f"{LLM}/release")
        await page.click("text=Go to step 1…")
        await of.confirm("kohort approve llm -n default --step 1")
        await of.until(lambda: found.step_of("llm", "default") == 1)
        await of.seen(".step.current:has-text('Step 1')")

        await found.until_step("llm", "default", 1, "StepPaused")
        await of.first.open(f"{LLM}/release")
        await page.click("text=Go to the last step…")
        await of.confirm("kohort approve llm -n default --full")
        await of.until(lambda: found.phase_of("llm", "default") == "Healthy")
        await of.seen("#rail .pill:has-text('nothing is released now')")

        await begin_release(of, "model:3")
        # The button of the explanation.
        await of.first.open(LLM)
        await page.click(".commands a.button:has-text('Approve…')")
        await of.confirm("kohort approve llm -n default")
        await found.until_step("llm", "default", 2, "StepPaused")
        await of.first.open(f"{LLM}/release")
        await page.click("text=Abort…")
        await page.wait_for_selector("text=the stable version: the release ends")
        await of.confirm("kohort abort llm -n default")
        container = of.found()["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
        assert container["image"] == "model:2"
        await of.until(lambda: found.phase_of("llm", "default") == "Healthy")
        await of.seen("#rail .pill:has-text('nothing is released now')")


def cpu_of_pods(of: Two) -> set[str]:
    return {one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in of.pods()}


def cpu_of_template(of: Two) -> str:
    template = of.found()["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    return str(template["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def test_groups_are_resized_by_keyboard_tried_again_and_taken_back() -> None:
    async with two(resourceUpdatePolicy="InPlaceOnly", resourceUpdateDeadlineSeconds=5) as of:
        page = of.first.page
        before = {one["metadata"]["uid"] for one in of.pods()}
        await of.second.open(LLM)
        await of.second.live()
        await of.first.open(LLM)
        await of.tab_to("Resize…")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#cpu")
        assert await of.first.violations() == []
        await of.tab_to("cpu", "INPUT")
        await page.keyboard.type("3")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Nothing has changed yet")
        await of.tab_to("Resize", "BUTTON")
        await page.keyboard.press("Enter")
        notice = await of.noticed("kohort resize llm -n default --cpu 3")
        assert notice.startswith("groups of llm get cpu 3 in place")
        assert page.url.endswith("/resize")
        await of.until(lambda: cpu_of_pods(of) == {"3"})
        await of.seen("#resources td .mono:text-is('3')")
        await of.scene.rolled("llm")
        assert {one["metadata"]["uid"] for one in of.pods()} == before

        # More than any node has: the resize stops, and waits for a decision.
        await of.second.open(f"{LLM}/resize")
        await of.second.live()
        await of.first.open(f"{LLM}/actions/resize")
        await page.fill("#cpu", "500")
        await page.click("#action form button")
        await of.confirm("kohort resize llm -n default --cpu 500")
        await page.click("text=Retry…", timeout=60_000)
        await of.confirm("kohort retry llm -n default")
        await page.wait_for_selector("text=Retry…", timeout=60_000)
        await page.click("text=Undo…")
        await of.confirm("kohort undo llm -n default")
        assert cpu_of_template(of) == "3"
        await of.seen("text=No resize is under way")
        assert {one["metadata"]["uid"] for one in of.pods()} == before


async def test_sets_are_scaled_restarted_and_returned_to_a_revision() -> None:
    async with two() as of:
        page = of.first.page
        await of.second.open(LLM)
        await of.second.live()
        await of.first.open(LLM)
        await page.click("text=Scale…")
        assert await of.first.violations() == []
        await page.fill("#replicas", "3")
        await page.click("#action form button")
        notice = await of.confirm("kubectl scale leaderworkerset llm -n default --replicas 3")
        assert notice == "llm is scaled from 2 to 3 groups"
        assert of.found()["spec"]["replicas"] == 3
        await of.seen("#group-2-pods")
        await of.scene.ready("llm")

        leader = next(one for one in of.pods() if one["metadata"]["name"] == "llm-1")["metadata"]["uid"]
        await of.first.open(LLM)
        await page.click("#group-1-pods summary")
        await page.click("text=Restart group 1…")
        assert await of.confirm("kohort restart llm -n default --group 1") == "group 1 of llm is recreated"
        await of.until(lambda: leader not in {one["metadata"]["uid"] for one in of.pods()})
        await of.scene.ready("llm")

        await of.scene.change_image("llm", "default", "model:2")
        await of.scene.rolled("llm")
        await of.first.open(f"{LLM}/history")
        await page.click("text=Return to it…")
        notice = await of.confirm("kohort undo llm -n default --to 1")
        assert "returns to revision 1" in notice
        await of.scene.rolled("llm")
        assert {one["spec"]["containers"][0]["image"] for one in of.pods()} == {"model:1"}

        before = {one["metadata"]["uid"] for one in of.pods()}
        await of.first.open(LLM)
        await page.click(".head-actions >> text=Restart…")
        await of.confirm("kohort restart llm -n default")
        await of.scene.rolled("llm")
        assert not before & {one["metadata"]["uid"] for one in of.pods()}
