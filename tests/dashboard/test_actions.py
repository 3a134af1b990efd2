"""Actions: previewed without a change, done with the rights of the caller, with an event that names the user."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.dashboard.scene import STEPS, Scene, Visit, dashboard, model_set, scene, visit

from kohort.cli.actions.output_formats import captured
from kohort.cli.actions.resize import TemplateEditOptions, resize_template
from kohort.dashboard.action_page import read_request
from kohort.dashboard.server import DashboardSettings
from kohort.dashboard.view import BadParameter
from kohort.inspection.template_resize import AmountRequest
from kohort.kube.client import PatchType
from kohort.kube.resources import ANALYSIS_RUNS, EVENTS, LEADER_WORKER_SETS, PODS, RELEASE_ANALYSES, ROLLOUTS
from kohort.objects.json_types import Json
from kohort.rules.rollout_labels import ANALYSIS_NAME

LLM = "/dashboard/sets/default/llm"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, Visit]]:
    async with (
        scene(nodes=8) as found,
        dashboard(found, DashboardSettings(allow_actions=True)) as made,
        visit(made) as user,
    ):
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
        text = await user.text(f"{LLM}/actions/{verb}")
        assert "What is written" in text and "What follows" in text, verb
    assert stored(found) == before


async def test_a_preview_says_what_follows_in_the_release(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await released(found)
    following = (await user.json(f"{LLM}/actions/approve"))["forecast"]
    assert following[0] == "The release goes to step 2 of 3:"
    assert [one.strip() for one in following[1:]] == [
        "1 of 2 groups of the new version",
        "20% of the requests go to it",
        "then it waits 10 min; after that the next step follows",
    ]
    last = (await user.json(f"{LLM}/actions/approve?full=1"))["forecast"]
    assert last[0] == "The release leaves out step 2 and goes to step 3:"
    assert last[-1].strip() == "then the release ends"
    assert "until it is resumed" in (await user.json(f"{LLM}/actions/pause"))["forecast"][0]
    group = (await user.json(f"{LLM}/actions/restart?group=0"))["forecast"]
    assert group[:2] == [
        "Group 0 is recreated at once, with 2 pods: llm-0, llm-0-1.",
        "1 of 2 groups is ready meanwhile.",
    ]


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


async def held_by_analysis(found: Scene) -> None:
    """A release whose first step is held: its analysis sees no requests."""
    metrics = [{"name": "errorRate", "max": "2%", "critical": True}]
    times = {"warmup": "0s", "interval": "1s", "deadline": "3s"}
    spec = {"mode": "Gate", **times, "source": {"gateway": {}}, "metrics": metrics}
    await found.client.create(RELEASE_ANALYSES, {"metadata": {"name": "slo", "namespace": "default"}, "spec": spec})
    await found.released("llm", "default", [{**STEPS[1], "pause": {"duration": 1}}, STEPS[2]])
    await found.client.patch(ROLLOUTS, "llm", "default", {"metadata": {"annotations": {ANALYSIS_NAME: "slo"}}})
    await found.cluster.until(lambda: found.phase_of("llm", "default") == "Healthy")
    await found.change_image("llm", "default", "model:2")

    def held() -> bool:
        status = (found.cluster.find(ROLLOUTS, "llm", "default") or {}).get("status") or {}
        return any(one["type"] == "Analysis" and one["reason"] == "Held" for one in status.get("conditions") or ())

    await found.cluster.until(held, timeout=60)


async def test_a_step_that_its_analysis_holds_goes_on_when_a_user_overrides_it(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await held_by_analysis(found)
    await user.until(f"{LLM}/release", lambda page: bool(page["overridable"]))
    for page in ("", "/release"):
        assert "actions/approve?override=1" in await user.text(f"{LLM}{page}")
    refused = await user.json(f"{LLM}/actions/approve")
    assert "step 1 is held by its analysis" in refused["refused"]
    assert "kohort approve --override llm -n default" in refused["refused"]
    assert (await user.json(f"{LLM}/actions/approve?full=1"))["refused"] == refused["refused"]
    assert "actions/approve?full" not in await user.text(f"{LLM}/release")

    preview = await user.json(f"{LLM}/actions/approve?override=1")
    assert preview["command"] == "kohort approve llm -n default --override"
    assert preview["forecast"] == [
        "Step 1 of 2 counts as passed, whatever its analysis finds;",
        "  then it waits 1 s; after that the next step follows",
    ]
    (write,) = preview["writes"]
    assert (write["method"], write["path"].split("/")[-2:]) == ("PATCH", ["rollouts", "llm"])
    assert 'name="reason"' in await user.text(f"{LLM}/actions/approve?override=1")
    assert found.step_of("llm", "default") == 1

    await do(user, "approve", override="1", reason="known")
    await found.cluster.until(lambda: found.step_of("llm", "default") == 2, timeout=60)
    (run,) = [one for one in found.cluster.objects(ANALYSIS_RUNS) if one["spec"]["step"] == 1]
    assert run["status"]["overriddenBy"]


async def test_pause_resume_and_abort(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await released(found)

    def is_paused() -> bool:
        return bool((found.cluster.find(ROLLOUTS, "llm", "default") or {})["spec"]["strategy"].get("paused"))

    await do(user, "pause")
    assert is_paused()
    page = await user.until(f"{LLM}/release", lambda page: bool(page["release"]["paused"]))
    assert page["pauseEnds"] == ""
    assert "until the release is resumed" in await user.text(f"{LLM}/release")
    assert (await user.json(f"{LLM}/actions/approve"))["forecast"][-1].endswith("when it is resumed.")
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


async def test_a_way_back_recreates_only_groups_that_have_left(place: tuple[Scene, Visit]) -> None:
    found, user = place
    staying = {one["metadata"]["uid"] for one in found.cluster.objects(PODS) if "llm-0" in one["metadata"]["name"]}
    path = "/spec/leaderWorkerTemplate/workerTemplate/metadata/annotations"
    broken = {"op": "add", "path": path, "value": {"simulation.kohort.dev/never-ready": "true"}}
    await found.client.patch(LEADER_WORKER_SETS, "llm", "default", [broken], PatchType.JSON)
    await user.until(LLM, lambda page: page["groups"]["groups"][1]["revision"] == 2)
    page = await user.json(f"{LLM}/actions/undo")
    assert "1 group recreated (2 pods); never fewer than 1 group ready." in page["forecast"], page
    await do(user, "undo")
    await found.rolled("llm")
    assert len(staying) == 2 and staying < uids_of(found)


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
        refused = await user.json(f"{LLM}/actions/restart", status=404)
        assert "--allow-actions" in refused["message"]
        text = await user.text(LLM)
        assert "read only" in text
        csrf = re.search(r'name="csrf" value="([^"]+)"', text)
        assert csrf is not None
        async with user.session.post(f"{user.base}{LLM}/actions/restart", data={"csrf": csrf[1]}) as answer:
            assert answer.status == 404
        version = (found.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {})["metadata"]["generation"]
        assert version == 1


async def test_scale_is_previewed_and_done(place: tuple[Scene, Visit]) -> None:
    found, user = place
    form = await user.json(f"{LLM}/actions/scale")
    assert (form["verb"], form["set"]["wanted"]) == ("scale", 2)
    assert 'name="replicas"' in await user.text(f"{LLM}/actions/scale")
    page = await user.json(f"{LLM}/actions/scale?replicas=3")
    assert page["command"] == "kubectl scale leaderworkerset llm -n default --replicas 3"
    assert [one["body"] for one in page["writes"]] == [{"spec": {"replicas": 3}}]
    answer = await do(user, "scale", replicas="3")
    assert answer["message"] == "llm is scaled from 2 to 3 groups"
    await found.ready("llm")
    assert len(found.pods_of("llm")) == 6
    page = await user.json(f"{LLM}/actions/scale?replicas=3")
    assert page["refused"] == "LeaderWorkerSet llm has 3 groups already"


def cpu_of(found: Scene) -> set[str]:
    pods = [one for one in found.cluster.objects(PODS) if "deletionTimestamp" not in one["metadata"]]
    return {one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in pods}


def uids_of(found: Scene) -> set[str]:
    return {one["metadata"]["uid"] for one in found.cluster.objects(PODS)}


async def test_a_resize_is_previewed_as_its_dry_run_says_it_and_is_done_in_place(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.client.patch(
        LEADER_WORKER_SETS, "llm", "default", {"spec": {"rolloutStrategy": {"resourceUpdatePolicy": "InPlaceOnly"}}}
    )
    await user.until(f"{LLM}/resize", lambda page: bool(page["policy"] == "InPlaceOnly"))
    form = await user.json(f"{LLM}/actions/resize")
    assert (form["policy"], form["roles"], form["containers"]) == ("InPlaceOnly", ["all"], ["server"])
    page = await user.json(f"{LLM}/actions/resize?cpu=3")
    assert page["command"] == "kohort resize llm -n default --cpu 3"
    with captured() as lines:
        request, options = AmountRequest({"cpu": "3"}), TemplateEditOptions(dry_run=True)
        await resize_template(found.client, "default", "llm", request, options)
    assert page["forecast"] == lines
    assert [one["method"] for one in page["writes"]] == ["PATCH"], "dry runs of the forecast are no writes"
    before = uids_of(found)
    assert cpu_of(found) == {"2"}
    answer = await do(user, "resize", cpu="3")
    assert answer["message"].startswith("groups of llm get cpu 3 in place")
    await found.cluster.until(lambda: cpu_of(found) == {"3"}, timeout=60)
    await found.rolled("llm")
    assert uids_of(found) == before
    await found.cluster.until(lambda: any(one["reason"] == "DashboardResize" for one in found.cluster.objects(EVENTS)))
    events = [one for one in found.cluster.objects(EVENTS) if one["reason"] == "DashboardResize"]
    assert [one["message"] for one in events] == [
        "kubernetes-admin ran kohort resize llm -n default --cpu 3 on the dashboard"
    ]
    page = await user.json(f"{LLM}/actions/resize?cpu=3")
    assert (page["writes"], page["result"]) == ([], "the template of llm has cpu 3 already")
    assert "nothing to do" in await user.text(f"{LLM}/actions/resize?cpu=3")


async def test_a_resize_has_a_deadline(place: tuple[Scene, Visit]) -> None:
    found, user = place
    form = await user.json(f"{LLM}/actions/resize")
    assert form["deadlineSeconds"] > 0
    assert 'name="deadline"' in await user.text(f"{LLM}/actions/resize")
    page = await user.json(f"{LLM}/actions/resize?policy=InPlaceOnly&deadline=900")
    assert page["command"] == "kohort resize llm -n default --policy InPlaceOnly --deadline 900"
    await do(user, "resize", policy="InPlaceOnly", deadline="900")
    strategy = (found.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {})["spec"]["rolloutStrategy"]
    assert (strategy["resourceUpdatePolicy"], strategy["resourceUpdateDeadlineSeconds"]) == ("InPlaceOnly", 900)
    answer = await user.json(f"{LLM}/actions/resize?deadline=0", status=400)
    assert answer["message"].startswith("deadline: 0 is not allowed; allowed are 1 to ")


async def test_a_resize_that_would_recreate_groups_must_be_chosen(place: tuple[Scene, Visit]) -> None:
    found, user = place
    page = await user.json(f"{LLM}/actions/resize?cpu=3")
    assert "its resourceUpdatePolicy is Recreate" in page["refused"]
    await do(user, "resize", status=409, cpu="3")
    page = await user.json(f"{LLM}/actions/resize?cpu=3&policy=InPlaceOrRecreate")
    assert page["refused"] == "" and page["command"].endswith("--cpu 3 --policy InPlaceOrRecreate")
    page = await user.json(f"{LLM}/actions/resize?cpu=3&container=other&recreate=1")
    assert "other" in page["refused"]
    assert cpu_of(found) == {"2"}


async def test_a_resize_that_stopped_is_tried_again(place: tuple[Scene, Visit]) -> None:
    """More than any node has: the group gets its former resources back, and the resize waits for a decision."""
    found, user = place
    strategy = {"resourceUpdatePolicy": "InPlaceOnly", "resourceUpdateDeadlineSeconds": 5}
    await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"rolloutStrategy": strategy}})
    await user.until(f"{LLM}/resize", lambda page: bool(page["policy"] == "InPlaceOnly"))
    await do(user, "resize", cpu="500")
    await user.until(f"{LLM}/resize", lambda page: bool((page["progress"] or {}).get("stopped")))
    text = await user.text(f"{LLM}/resize")
    assert f'href="{LLM}/actions/retry"' in text
    page = await user.json(f"{LLM}/actions/retry")
    assert [one["path"].rpartition("/")[2] for one in page["writes"]] == ["llm-1"]
    answer = await do(user, "retry")
    assert answer["message"].startswith("the resize of group 1 of llm is tried again")
    page = await user.json(f"{LLM}/actions/undo")
    assert "recreate" not in " ".join(page["forecast"]), "no group has left its revision"


@pytest.mark.parametrize(
    ("verb", "given", "text"),
    [
        ("resize", {"cpu": "two"}, "cpu: 'two' is not an amount"),
        ("resize", {"policy": "Recreate"}, "policy: 'Recreate' is not allowed; allowed are InPlaceOrRecreate"),
        ("resize", {"cpu": "2", "policy": "InPlaceOnly", "recreate": "1"}, "policy, recreate: give one of them"),
        ("resize", {"cpu": "2", "pod": "1", "container": "a"}, "pod, container: give one of them"),
        ("scale", {"replicas": "-1"}, "replicas: '-1' is not a number"),
        ("delete", {}, "there is no action 'delete'; there are: approve, pause"),
        ("approve", {"step": "x"}, "step: 'x' is not a number"),
        ("approve", {"step": "1", "full": "1"}, "step, full: give one of them"),
        ("approve", {"step": "1", "override": "1"}, "override: is for the current step"),
        ("approve", {"reason": "known"}, "reason: is for override"),
        ("approve", {"override": "1", "reason": "a\nb"}, "reason: must be one line"),
    ],
)
def test_wrong_requests_are_named(verb: str, given: dict[str, str], text: str) -> None:
    with pytest.raises(BadParameter) as problem:
        read_request(verb, "default", "llm", given)
    assert str(problem.value).startswith(text)
