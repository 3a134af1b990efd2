"""Attacks by objects of the cluster, in a real browser: whatever a field says, it stays text."""

import re
from collections.abc import Iterable
from urllib.parse import quote

import pytest
from tests.dashboard.browser import Window, needs_browser, window
from tests.dashboard.hostile_cluster import ATTACK, HostileTransport, planted
from tests.dashboard.scene import Scene, dashboard, scene
from tests.dashboard.test_browser import VIEWS, fill

from kohort.dashboard.server import DashboardSettings
from kohort.groups.failure_evidence import KEY, ContainerFailure, GroupFailure, PodFailure, encoded
from kohort.groups.failure_recorder import config_map_name
from kohort.kube.client import Client
from kohort.kube.resources import CONFIG_MAPS, LEADER_WORKER_SETS

pytestmark = [pytest.mark.browser, needs_browser(), pytest.mark.timeout(300)]
REACHED = {
    *("image", "name", "node", "labels", "message", "reason", "username", "mode"),
    *("log", "log_note", "note", "termination", "event", "failure"),
}
"""Fields whose attack must be on some page: images, names and labels of nodes, messages of events, Rollouts and
analyses, lines of logs, kept evidence."""
NAMED = ("server", "error-rate", "x-tester")
"""Names of a container, a metric and a header, which must be on some page, too."""
INJECTED = "main img, main script, main iframe, main svg:not([class]), [onerror], [onload], [onclick], [onmouseover]"


async def keep_failure(of: Scene) -> None:
    """Evidence of a failed group, as the operator keeps it, of a container that writes attacks."""
    stored = of.cluster.find(LEADER_WORKER_SETS, "llama-70b", "inference") or {}
    owner = {"apiVersion": stored["apiVersion"], "kind": stored["kind"], "name": "llama-70b", "controller": True}
    container = ContainerFailure(
        *(planted("main", "name"), 1),
        reason=planted("Error", "reason"),
        message=planted("end", "termination"),
        log=planted("line", "log"),
        log_note=planted("cut", "log_note"),
    )
    pod = PodFailure(
        "llama-70b-0", planted("sim", "node"), (container,), (planted("e", "event"),), planted("n", "note")
    )
    failure = GroupFailure(0, "2026-01-01T00:00:00Z", "failed", "uid", pods=(pod,))
    without_pods = GroupFailure(1, "2026-01-01T00:00:00Z", planted("failed", "failure"), "another uid")
    metadata = {"name": config_map_name("llama-70b"), "ownerReferences": [{**owner, "uid": stored["metadata"]["uid"]}]}
    data = {KEY: encoded([failure, without_pods])}
    await of.client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}, "inference")


def addresses() -> Iterable[str]:
    attack = quote(ATTACK)
    yield from (path for name, path in VIEWS.items() if not name.startswith("drain"))
    yield f"/dashboard/nodes/{quote(planted('sim-0', 'node'), safe='')}/drain"
    yield f"/dashboard/?name={attack}&namespace={attack}"


def fields(text: str) -> set[str]:
    """Whose attack is in this text."""
    return set(re.findall(re.escape(ATTACK) + r"@([a-z_]+);", text))


async def check(browser: Window, path: str) -> str:
    """All that the page shows as text."""
    page = browser.page
    assert await page.evaluate("window.broken") is None, path
    assert await page.locator(INJECTED).evaluate_all("all => all.map(one => one.outerHTML)") == [], path
    titles = "[...document.querySelectorAll('[title]')].map(one => one.title).join()"
    shown: str = await page.evaluate(f"document.body.textContent + {titles}")
    return shown


async def test_no_field_of_any_object_brings_a_script_or_an_element() -> None:
    async with scene(nodes=16) as found:
        await fill(found)
        await keep_failure(found)
        client = Client(HostileTransport(found.cluster.transport()), field_manager="test", user_agent="test")
        async with (
            dashboard(found, DashboardSettings(allow_actions=True), client) as running,
            window(running) as browser,
        ):
            await browser.page.add_init_script("window.alert = () => { window.broken = true; }")
            shown = ""
            for path in addresses():
                await browser.open(path)
                if await browser.page.locator("#log-lines").count():
                    await browser.page.wait_for_selector("#log-lines .line")
                shown += await check(browser, path)
            assert fields(shown) >= REACHED
            assert all(planted(one, "name") in shown for one in NAMED)
            await browser.open("/dashboard/sets/inference/reranker")
            await browser.live()
            await found.client.patch(LEADER_WORKER_SETS, "reranker", "inference", {"spec": {"replicas": 3}})
            await browser.page.wait_for_selector("#group-2-pods")
            assert "node" in fields(await check(browser, "live update"))
            await browser.open("/dashboard/what-if")
            await browser.page.fill("#manifest", f"kind: {ATTACK}\nmetadata: {{name: x}}")
            await browser.page.click("button:has-text('Plan')")
            await browser.page.wait_for_selector("#refused")
            await check(browser, "what-if")
