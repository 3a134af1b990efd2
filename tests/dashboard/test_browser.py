"""The dashboard in a real browser: every view, light and dark, wide and narrow, live."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.dashboard.browser import PHONE, SHOTS, WIDE, Window, needs_browser, window
from tests.dashboard.scene import STEPS, Scene, dashboard, model_set, patiently, scene
from tests.dashboard.test_html import PAYLOADS
from tests.machine_load import within

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard.running import RunningDashboard
from kohort.dashboard.running import running as running_dashboard
from kohort.dashboard.server import DashboardSettings
from kohort.groups.failure_recorder import config_map_name
from kohort.kube.client import PatchType
from kohort.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLLOUTS,
)
from kohort.kube.transport import Connection
from kohort.rules import group_labels

pytestmark = [pytest.mark.browser, needs_browser()]

MIXTRAL = "/dashboard/sets/inference/mixtral"
VIEWS = {
    "fleet": "/dashboard/",
    "set": "/dashboard/sets/inference/llama-70b",
    "subgroups": "/dashboard/sets/inference/sharded",
    "subgroups-without-leader": "/dashboard/sets/inference/pair",
    "explanation": "/dashboard/sets/inference/whisper",
    "history": f"{MIXTRAL}/history",
    "events": f"{MIXTRAL}/events",
    "logs": f"{MIXTRAL}/logs",
    "release": f"{MIXTRAL}/release",
    "resize": "/dashboard/sets/inference/llama-70b/resize",
    "failures": "/dashboard/sets/inference/llama-70b/failures",
    "nodes": "/dashboard/nodes",
    "drain": "/dashboard/nodes/sim-0/drain",
    "what-if": "/dashboard/what-if?set=inference/llama-70b",
    "action": f"{MIXTRAL}/actions/abort",
    "action-refused": "/dashboard/sets/inference/llama-70b/actions/approve",
    "resize-form": "/dashboard/sets/inference/llama-70b/actions/resize",
    "resize-preview": "/dashboard/sets/inference/llama-70b/actions/resize?cpu=4&policy=InPlaceOrRecreate",
    "scale-form": "/dashboard/sets/inference/llama-70b/actions/scale",
    "fleet-empty": "/dashboard/?name=no-such-set",
    "fleet-failing": "/dashboard/?state=Failing&sort=state",
    "history-compared": f"{MIXTRAL}/history?from=1&to=2",
    "logs-of-group": f"{MIXTRAL}/logs?group=0&container=server",
    "held": "/dashboard/sets/training/evaluation",
    "failures-kept": "/dashboard/sets/training/evaluation/failures",
    "resizing": "/dashboard/sets/inference/resizing",
    "resize-under-way": "/dashboard/sets/inference/resizing/resize",
    "drain-blocked": "/dashboard/nodes/{node of reranker}/drain",
    "fleet-of-namespace": "/dashboard/?namespace=training&label=app%3Dfinetune",
    "pause": f"{MIXTRAL}/actions/pause",
    "restart": "/dashboard/sets/inference/llama-70b/actions/restart?group=0",
    "scale-preview": "/dashboard/sets/inference/llama-70b/actions/scale?replicas=6",
    "approve-step": f"{MIXTRAL}/actions/approve?step=2",
    "deployment": "/dashboard/deployments/inference/gateway",
    "deployment-release": "/dashboard/deployments/inference/gateway/release",
    "deployment-history": "/dashboard/deployments/inference/gateway/history",
    "deployment-action": "/dashboard/deployments/inference/gateway/actions/approve",
}
STILL = (
    "logs",
    "what-if",
    "action",
    "deployment-action",
    "action-refused",
    "resize-form",
    "resize-preview",
    "scale-form",
    *("logs-of-group", "pause", "restart", "scale-preview", "approve-step"),
)
"""Views that do not follow the cluster, or in another way."""


LOOKS = {"light": (False, WIDE), "dark": (True, WIDE), "phone": (False, PHONE), "phone-dark": (True, PHONE)}
PICTURED = {
    *("fleet-light", "fleet-dark", "fleet-phone-dark", "set-light"),
    *("explanation-dark", "release-light", "nodes-light", "resize-preview-light"),
}
HEIGHTS = {"release": 930}
"""Of pictures that need more than the window: a release with its chart."""


async def fill(of: Scene) -> None:
    """Sets that are fine, that fail in several ways, one whose release waits for approval, and a Deployment whose
    release goes on after a pause."""
    await of.namespace("inference", "training")
    await of.create(
        model_set("llama-70b", "inference", replicas=4, size=4),
        model_set("sharded", "inference", replicas=2, size=9, gpus=1).subgroups(4),
        model_set("pair", "inference", replicas=1, size=5, gpus=1).subgroups(2, "LeaderExcluded"),
        model_set("embedder", "inference", replicas=3, size=1, gpus=1),
        model_set("mixtral", "inference", image="registry.example.com/mixtral:1.4.0"),
        model_set("whisper", "inference", waiting="ImagePullBackOff"),
        model_set("reranker", "inference", gpus=1),
        model_set("finetune", "training", replicas=2, size=4, gpus=16),
        model_set("evaluation", "training", replicas=1, gpus=1, exit_code="1").but(
            "spec.leaderWorkerTemplate.restartBudget", {"maxRestarts": 1, "backoffSeconds": 1}
        ),
        model_set("resizing", "inference", replicas=3, gpus=1, resize_latency="1h").but(
            "spec.rolloutStrategy.resourceUpdatePolicy", "InPlaceOnly"
        ),
    )
    for name in ("llama-70b", "embedder", "mixtral", "reranker", "resizing"):
        await of.ready(name, "inference")
    await of.released("mixtral", "inference", STEPS)
    await of.cluster.until(lambda: of.phase_of("mixtral", "inference") == "Healthy")
    await of.change_image("mixtral", "inference", "registry.example.com/mixtral:1.5.0")
    await of.until_step("mixtral", "inference", 1, "StepPaused")
    await of.released_workload(DEPLOYMENTS, "gateway", "inference", image="registry.example.com/gateway:2.0.1")
    await of.release_image(DEPLOYMENTS, "gateway", "registry.example.com/gateway:2.1.0", "inference")
    approved = {"status": {"canaryStatus": {"currentStepState": "StepReady"}}}
    await of.client.patch(ROLLOUTS, "gateway", "inference", approved, subresource="status")
    await of.until_step("gateway", "inference", 2, "StepPaused")
    await resize(of)
    for name in ("every-pod", "all-of-reranker"):
        labels = {group_labels.NAME: "reranker"}
        body = {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}}
        await of.client.create(POD_DISRUPTION_BUDGETS, body, "inference")
    await of.client.patch(NODES, "sim-15", "", {"spec": {"unschedulable": True}})
    failures = config_map_name("evaluation")
    await of.cluster.until(lambda: of.cluster.find(CONFIG_MAPS, failures, "training") is not None, timeout=60)
    shares = [0.014, 0.018, 0.012, 0.021, 0.017, 0.024, 0.019, 0.022, 0.018, 0.02]
    await of.judged("mixtral", "inference", shares, [0.011, 0.009, 0.012, 0.01, 0.008, 0.011, 0.01, 0.012, 0.009, 0.01])


async def resize(of: Scene) -> None:
    """Begins, and goes on for as long as the simulation says."""
    amounts = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/resources"
    change = [{"op": "replace", "path": f"{amounts}/{one}/cpu", "value": "3"} for one in ("requests", "limits")]
    await patiently(
        partial(of.client.patch, LEADER_WORKER_SETS, "resizing", "inference", change, PatchType.JSON),
    )
    await of.until_set("resizing", "inference", lambda found: bool((found.get("status") or {}).get("resize")))


def path_of(found: Scene, path: str) -> str:
    """Of a view; where a group is placed is known only then."""
    leader = found.cluster.find(PODS, "reranker-0", "inference") or {}
    return path.replace("{node of reranker}", (leader.get("spec") or {}).get("nodeName", ""))


@asynccontextmanager
async def filled() -> AsyncIterator[tuple[Scene, RunningDashboard]]:
    async with scene(nodes=16) as found:
        await fill(found)
        async with dashboard(found, DashboardSettings(allow_actions=True)) as made:
            yield found, made


@pytest.mark.timeout(900)
async def test_every_view_is_accessible_and_fits() -> None:
    """Wide and narrow, light and dark: no serious finding of axe-core, no console error, no request to another host,
    nothing that must be scrolled sideways."""
    async with filled() as (found, running), window(running) as browser:
        for name, path in VIEWS.items():
            await browser.open(path_of(found, path))
            await check_json(browser, path_of(found, path))
            if name not in STILL:
                await browser.live()
            if name.startswith("logs"):
                await browser.page.wait_for_selector("#log-lines .line")
            await check_looks(browser, name)


ERRORS = {
    "no-such-page": ("/dashboard/nothing", 404),
    "no-such-set": ("/dashboard/sets/inference/none/history", 404),
    "no-such-node": ("/dashboard/nodes/none/drain", 404),
    "bad-filter": ("/dashboard/?state=Broken", 400),
    "bad-number": (f"{MIXTRAL}/history?from=x", 400),
    "no-such-revision": (f"{MIXTRAL}/history?from=1&to=99", 400),
    "no-such-action": (f"{MIXTRAL}/actions/explode", 404),
}


async def plan(browser: Window, manifest: str, words: str) -> None:
    """Until the page says this. A plan asks the API server for a dry run, whose call of a webhook may take 5 seconds: a
    process that gets no processor for so long shows the failed call, and a user tries again."""
    page = browser.page
    await page.fill("#manifest", manifest)
    async with asyncio.timeout(120):
        while True:
            await page.click("button:has-text('Plan')")
            await page.wait_for_selector(f"#refused:has-text('failed calling webhook'), main :text('{words}')")
            if await page.locator(f"main :text('{words}')").count():
                return


async def check_json(browser: Window, path: str) -> None:
    """The same address answers with data to those who ask for it."""
    headers = {"Accept": "application/json"}
    answer = await browser.context.request.get(f"{browser.base}{path}", headers=headers)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "application/json"), path
    assert isinstance(await answer.json(), dict), path


async def check_looks(browser: Window, name: str) -> None:
    for look, (dark, size) in LOOKS.items():
        await browser.look(dark=dark, size=size)
        assert await browser.violations() == [], (name, look)
        assert await browser.overflow() == 0, (name, look)
        if f"{name}-{look}" in PICTURED or SHOTS:
            await browser.picture(f"{name}-{look}", HEIGHTS.get(name))


@pytest.mark.timeout(600)
async def test_errors_and_logins_are_accessible_and_fit() -> None:
    """Pages that users see when something is wrong."""
    async with filled() as (found, running):
        async with window(running) as browser:
            for name, (path, status) in ERRORS.items():
                await browser.open(path)
                assert browser.take_answers() == [f"{status} {path}"], name
                await check_looks(browser, name)
            await browser.open("/dashboard/what-if?set=inference/llama-70b")
            text = await browser.page.input_value("#manifest")
            changes = {
                "planned": (text.replace(":1.4.0", ":1.5.0"), "would be rolled"),
                "refused": ("kind: Nothing", "but: Nothing"),
            }
            for name, (changed, words) in changes.items():
                await browser.open("/dashboard/what-if?set=inference/llama-70b")
                await plan(browser, changed, words)
                await check_looks(browser, f"what-if-{name}")
            await browser.page.click("button:has-text('Log out')")
            await browser.page.wait_for_selector("h1:has-text('Log in')")
            assert browser.take_answers() == ["401 /dashboard/login"]
            await check_looks(browser, "logged-out")
        client = found.cluster.client
        async with (
            found.cluster.listening() as address,
            running_dashboard(
                *(client, ("127.0.0.1", 0), DashboardSettings(), CliCommands()),
                tokens_of=Connection(address.server, ca=address.authority.encode()),
            ) as with_tokens,
            window(with_tokens) as browser,
        ):
            await browser.open("/dashboard/sets/inference/mixtral")
            await check_looks(browser, "login")
            await browser.page.fill("#token", "wrong")
            await browser.page.click("button:has-text('Log in')")
            await browser.page.wait_for_selector("text=does not accept this token")
            assert browser.take_answers() == ["401 /dashboard/login"]
            await check_looks(browser, "login-refused")


async def test_two_browsers_see_a_change_within_a_second() -> None:
    async with scene(nodes=8) as found, dashboard(found) as running:
        await found.create(model_set("llm", replicas=2, gpus=1))
        await found.ready("llm")
        async with window(running) as first, window(running) as second:
            for browser, path in ((first, "/dashboard/"), (second, "/dashboard/sets/default/llm")):
                await browser.open(path)
                await browser.live()
            loop = asyncio.get_running_loop()
            start = loop.time()
            await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
            await asyncio.gather(
                first.page.locator(".count", has_text="/3").wait_for(timeout=30_000),
                second.page.locator("#groups .cell").nth(2).wait_for(timeout=30_000),
            )
            assert loop.time() - start < within(1.0)


async def test_an_action_is_previewed_confirmed_and_seen_elsewhere() -> None:
    """One browser approves a step, another sees it go on within a second."""
    async with filled() as (found, running), window(running) as first, window(running) as second:
        await second.open(f"{MIXTRAL}/release")
        await second.live()
        await first.open(f"{MIXTRAL}/release")
        await first.page.click("text=Approve…")
        await first.page.wait_for_selector("text=Nothing has changed yet")
        await first.page.click("button:has-text('Approve')")
        await first.page.wait_for_selector(".notice:has-text('step 1 of Rollout mixtral is approved')")
        await found.cluster.until(lambda: found.step_of("mixtral", "inference") > 1, timeout=30)
        start = asyncio.get_running_loop().time()
        await second.page.wait_for_selector(".step.current:has-text('Step 2')", timeout=30_000)
        assert asyncio.get_running_loop().time() - start < within(1.0)


async def test_a_manifest_is_planned() -> None:
    async with scene(nodes=8) as found, dashboard(found) as running:
        await found.create(model_set("llm", gpus=1, image="model:1"))
        await found.ready("llm")
        async with window(running) as browser:
            await browser.open("/dashboard/what-if?set=default/llm")
            text = await browser.page.input_value("#manifest")
            await plan(browser, text.replace("model:1", "model:2"), "would be rolled")
            assert await browser.violations() == []


async def test_what_a_user_has_opened_stays_open() -> None:
    async with scene(nodes=8) as found, dashboard(found) as running:
        await found.create(model_set("llm", replicas=2, gpus=1))
        await found.ready("llm")
        async with window(running) as browser:
            await browser.open("/dashboard/sets/default/llm")
            await browser.live()
            await browser.page.click("#group-1-pods summary")
            await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
            await browser.page.wait_for_selector("#group-2-pods")
            assert await browser.page.evaluate("document.getElementById('group-1-pods').open")


async def test_the_keyboard_keeps_its_place_when_the_page_changes() -> None:
    async with scene(nodes=8) as found, dashboard(found, DashboardSettings(allow_actions=True)) as running:
        await found.create(*(model_set(one, replicas=2, gpus=1) for one in ("alpha", "llm")))
        await found.ready("llm")
        async with window(running) as browser:
            page = browser.page
            await browser.open("/dashboard/sets/default/llm")
            await browser.live()
            for name, shown in (("Restart…", 3), ("Scale…", 4)):
                await page.focus(f".head-actions >> text={name}")
                await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": shown}})
                await page.wait_for_selector(f"#set-head dd:has-text('of {shown}')")
                assert await page.evaluate("document.activeElement.textContent") == name

            # What is typed stays; what has come meanwhile is shown when the fields are left.
            await browser.open("/dashboard/")
            await browser.live()
            await page.focus("#filter-name")
            await page.keyboard.type("al")
            await found.namespace("training")
            await found.create(model_set("tuned", "training", gpus=1))
            await page.wait_for_selector("a.name:text-is('tuned')")
            assert await page.evaluate("document.activeElement.id") == "filter-name"
            assert await page.locator("#filter-namespace option[value=training]").count() == 0
            for _ in ("labels", "order", "the button"):
                await page.keyboard.press("Tab")
            await page.wait_for_selector("#filter-namespace option[value=training]", state="attached")
            assert await page.input_value("#filter-name") == "al"
            assert await page.evaluate("document.activeElement.textContent") == "Filter"


async def test_a_link_on_another_site_opens_its_page() -> None:
    """Browsers do not send the cookie with it; the session must not seem to have ended."""
    async with scene(nodes=2) as found, dashboard(found) as running, window(running) as browser:
        await browser.open("/dashboard/")
        await browser.page.goto("data:text/html,a chat")
        await browser.page.evaluate(f"location.href = '{browser.base}/dashboard/nodes?page=1'")
        await browser.page.wait_for_selector("h1:has-text('Nodes')")
        assert browser.page.url == f"{browser.base}/dashboard/nodes?page=1"


async def test_filters_and_pages_work_by_keyboard() -> None:
    async with scene(nodes=8) as found, dashboard(found) as running:
        await found.create(*(model_set(name, gpus=1, replicas=1, size=1) for name in ("alpha", "beta")))
        await found.ready("alpha")
        await found.ready("beta")
        async with window(running) as browser:
            await browser.open("/dashboard/")
            await browser.page.focus("#filter-name")
            await browser.page.keyboard.type("alp")
            await browser.page.keyboard.press("Enter")
            await browser.page.wait_for_url("**name=alp**")
            assert await browser.page.locator("a.name").all_text_contents() == ["alpha"]
            assert "namespace=" not in browser.page.url  # an address to share names what is set
            await browser.page.go_back()
            assert await browser.page.locator("a.name").all_text_contents() == ["alpha", "beta"]
            await browser.live()
            await browser.page.go_forward()
            assert await browser.page.input_value("#filter-name") == "alp"
            await browser.page.keyboard.press("Tab")
            assert await browser.page.evaluate("document.activeElement.className") == "skip"


async def test_objects_cannot_bring_scripts() -> None:
    async with scene(nodes=2) as found, dashboard(found) as running:
        for number, text in enumerate(PAYLOADS):
            await found.create(model_set(f"llm-{number}", waiting=text, gpus=0).but("metadata.annotations.note", text))
        async with window(running) as browser:
            await browser.page.add_init_script("window.alert = () => { window.broken = true; }")
            for path in ("/dashboard/", *(f"/dashboard/sets/default/llm-{number}" for number in range(len(PAYLOADS)))):
                await browser.open(path)
                await browser.live()
                assert await browser.page.evaluate("window.broken") is None
                assert await browser.page.locator("main img, main script").count() == 0
