"""Actions: previewed without a change, done with the rights of the caller, with an event that names the user."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.dashboard.scene import STEPS, Scene, Visit, dashboard, model_set, scene, visit

from kohort.dashboard.action_page import read_request
from kohort.dashboard.server import Settings
from kohort.dashboard.view import BadRequest
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, PODS, ROLLOUTS
from kohort.objects.json_types import Json

LLM = "/dashboard/sets/default/llm"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, Visit]]:
    async with scene(nodes=8) as found, dashboard(found, Settings(allow_actions=True)) as made, visit(made) as user:
        await found.create(model_set("llm", image="model:1"))
        await found.ready("llm")
        yield found, user


async def released(found: Scene) -> None:
    await found.released("llm", "default", STEPS)
    await found.cluster.until(lambda: found.phase_of("llm", "default") == "Healthy")
    await found.change_image("llm", "default", "model:2")
    await found.until_step("llm", "default", 1, "StepPaused")


async def do(user: Visit, verb: str, status: int = 200, **given: str) -> Json:
    """Preview and confirm, as the form does."""
    query = "&".join(f"{key}={value}" for key, value in given.items())
    page = await user.json(f"{LLM}/actions/{verb}?{query}")
    text = await user.text("/dashboard/")
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf is not None
    body = {"csrf": csrf[1], "seen": page["seen"], **page["parameters"]}
    address = f"{user.base}{LLM}/actions/{verb}"
    async with user.session.post(address, data=body, headers={"Accept": "application/json"}) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


def stored(found: Scene) -> Json:
    """What users and actions write, and the pods."""
    group_set, rollout = (found.cluster.find(kind, "llm", "default") or {} for kind in (LEADER_WORKER_SETS, ROLLOUTS))
    step = [rollout["status"][one] for one in ("currentStepIndex", "currentStepState")]
    pods = sorted(
        one["metadata"]["uid"] for one in found.cluster.objects(PODS) if "deletionTimestamp" not in one["metadata"]
    )
    return group_set["spec"], rollout["spec"], step, pods


async def test_a_preview_changes_nothing(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await released(found)
    before = stored(found)
    for verb in (
        "approve",
        "approve?full=1",
        "approve?step=2",
        "pause",
        "abort",
        "restart",
        "restart?group=0",
        "undo?to=1",
    ):
        page = await user.json(f"{LLM}/actions/{verb}")
        assert (page["refused"], bool(page["writes"])) == ("", True), verb
        assert page["command"].startswith(f"kohort {verb.partition('?')[0]} llm -n default")
        assert "What is written" in await user.text(f"{LLM}/actions/{verb}")
    assert stored(found) == before


async def test_approve_goes_on_and_names_the_user(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await released(found)
    answer = await do(user, "approve")
    assert answer == {
        "command": "kohort approve llm -n default",
        "message": "step 1 of Rollout llm is approved",
    }
    await found.until_step("llm", "default", 2, "StepPaused")
    await found.cluster.until(lambda: any(one["reason"] == "DashboardApprove" for one in found.cluster.objects(EVENTS)))
    (event,) = [one for one in found.cluster.objects(EVENTS) if one["reason"] == "DashboardApprove"]
    assert event["message"] == "kubernetes-admin ran kohort approve llm -n default on the dashboard"
    assert event["involvedObject"]["name"] == "llm"
    events = await user.json(f"{LLM}/events")
    assert "DashboardApprove" in {one["reason"] for one in events["events"]}


async def test_pause_resume_and_abort(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await released(found)

    def is_paused() -> bool:
        return bool((found.cluster.find(ROLLOUTS, "llm", "default") or {})["spec"]["strategy"].get("paused"))

    await do(user, "pause")
    assert is_paused()
    await do(user, "resume")
    assert not is_paused()
    page = await user.json(f"{LLM}/actions/abort")
    assert page["forecast"][0] == "The template returns to revision 1, the stable version: the release ends."
    await do(user, "abort")
    await found.cluster.until(lambda: found.phase_of("llm", "default") == "Healthy", timeout=60)


async def test_restart_undo_and_retry(place: tuple[Scene, Visit]) -> None:
    found, user = place
    page = await user.json(f"{LLM}/actions/retry")
    assert page["refused"].startswith("LeaderWorkerSet llm has no release that was given up")
    assert "not possible now" in await user.text(f"{LLM}/actions/retry")
    await do(user, "retry", status=409)
    before = found.pods_of("llm")
    answer = await do(user, "restart", group="1")
    assert answer["message"] == "group 1 of llm is recreated"
    await found.change_image("llm", "default", "model:2")
    await found.rolled("llm")
    assert found.pods_of("llm") == before
    page = await user.json(f"{LLM}/actions/undo?to=1")
    assert any("would be rolled" in line for line in page["forecast"])
    answer = await do(user, "undo", to="1")
    assert "returns to revision 1" in answer["message"]


async def test_an_action_on_something_else_than_was_previewed_is_refused(place: tuple[Scene, Visit]) -> None:
    found, user = place
    page = await user.json(f"{LLM}/actions/restart")
    await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
    await user.until(LLM, lambda page: bool(page["set"]["wanted"] == 3))
    text = await user.text("/dashboard/")
    csrf = re.search(r'name="csrf" value="([^"]+)"', text)
    assert csrf is not None
    body = {"csrf": csrf[1], "seen": page["seen"]}
    async with user.session.post(f"{user.base}{LLM}/actions/restart", data=body) as answer:
        assert answer.status == 409
        assert "has changed since the preview" in await answer.text()


async def test_nothing_is_done_without_the_option() -> None:
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:
        await found.create(model_set("llm"))
        await found.ready("llm")
        await user.json(f"{LLM}/actions/restart", status=404)
        text = await user.text(LLM)
        assert "read only" in text
        csrf = re.search(r'name="csrf" value="([^"]+)"', text)
        assert csrf is not None
        async with user.session.post(f"{user.base}{LLM}/actions/restart", data={"csrf": csrf[1]}) as answer:
            assert answer.status == 404
        version = (found.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {})["metadata"]["generation"]
        assert version == 1


@pytest.mark.parametrize(
    ("verb", "given", "text"),
    [
        ("delete", {}, "there is no action 'delete'; there are: approve, pause"),
        ("approve", {"step": "x"}, "step: 'x' is not a number"),
        ("approve", {"step": "1", "full": "1"}, "step, full: give one of them"),
    ],
)
def test_wrong_requests_are_named(verb: str, given: dict[str, str], text: str) -> None:
    with pytest.raises(BadRequest) as problem:
        read_request(verb, "default", "llm", given)
    assert str(problem.value).startswith(text)
