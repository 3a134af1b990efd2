"""The pages of one set, as data and as HTML."""

import re
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.builders import lws, pod
from tests.dashboard.scene import STEPS, Scene, Visit, dashboard, model_set, scene, visit
from tests.dashboard.test_html import PAYLOADS

from kohort.cli.actions import show
from kohort.cli.actions.output_formats import captured
from kohort.dashboard.container_amounts import container_amounts
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import PatchType
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS
from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

SETS = "/dashboard/sets/default"
MOMENT = r"\d{4}-\d\d-\d\dT[\d:]+Z"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, Visit]]:
    async with scene(nodes=4) as found, dashboard(found) as made, visit(made) as user:
        yield found, user


async def test_a_set_has_its_groups_and_pods(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm", replicas=2, size=3, gpus=1))
    await found.ready("llm")
    page = await user.until(f"{SETS}/llm", lambda page: bool(page["set"]["done"]))
    assert (page["set"]["state"], page["set"]["ready"], page["set"]["failing"]) == ("Available", 2, False)
    pods = [one["name"] for group in page["groups"]["groups"] for one in group["pods"]]
    assert pods == ["llm-0", "llm-0-1", "llm-0-2", "llm-1", "llm-1-1", "llm-1-2"]
    assert page["causes"] == []
    text = await user.text(f"{SETS}/llm")
    assert all(one in text for one in (*pods, "Everything is as wanted", "no drift"))


async def test_a_set_that_fails_is_explained(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm", waiting="ImagePullBackOff"))
    await found.cluster.until(lambda: len(found.pods_of("llm")) == 4)
    await found.until_set("llm", "default", lambda one: bool(one.get("status", {}).get("observedGeneration")))
    page = await user.until(f"{SETS}/llm", lambda page: bool(page["set"]["failing"]))
    (cause,) = page["causes"]
    assert (cause["kind"], cause["found"]) == ("image", "cannot pull image registry.example.com/llm:1.4.0")
    await found.create(model_set("fine", replicas=1, size=1))
    fleet = await user.until("/dashboard/?state=Failing", lambda one: one["states"]["Available"] == 1)
    assert ([one["name"] for one in fleet["rows"]], fleet["failing"], fleet["total"]) == (["llm"], 1, 1)
    badge = await user.json(f"{SETS}/llm/status.svg")
    assert badge == {"label": "llm", "message": "0/2 progressing", "tone": "bad"}
    async with user.session.get(f"{user.base}{SETS}/llm/status.svg") as answer:
        assert answer.content_type == "image/svg+xml"
        assert "0/2 progressing" in await answer.text()


async def test_the_explanation_is_that_of_the_command(place: tuple[Scene, Visit]) -> None:
    """Also what it says about other objects of the namespace: budgets, kept failures, domains of other sets."""
    found, user = place
    guarded = model_set("guarded", replicas=1, size=1, gpus=1).but("spec.disruptionBudget", {"maxUnavailable": 1})
    failing = model_set("failing", replicas=1, size=1, gpus=1, exit_code="3")
    budget = {"maxRestarts": 1, "backoffSeconds": 1}
    await found.create(guarded, failing.but("spec.leaderWorkerTemplate.restartBudget", budget))
    await found.ready("guarded")
    body = {"metadata": {"name": "every-pod"}, "spec": {"maxUnavailable": 1, "selector": {}}}
    await found.client.create(POD_DISRUPTION_BUDGETS, body, "default")
    alone = model_set("alone", replicas=5, size=1, gpus=1)
    await found.create(alone.but("metadata.annotations", {group_labels.EXCLUSIVE: "example.com/rack"}))
    expected = {"guarded": "every-pod select it", "failing": f"it is held.* at {MOMENT}", "alone": "guarded"}
    for name, words in expected.items():

        def holds(page: Json, words: str = words) -> bool:
            return re.search(words, str(page["causes"])) is not None

        page = await user.until(f"{SETS}/{name}", holds)
        with captured() as lines:
            await show.explain(found.client, "default", name, "json")
        first = [re.sub(MOMENT, "", str(one[0])) for one in (page["causes"], msgspec.json.decode("\n".join(lines)))]
        assert first[0] == first[1]  # The container has ended once more in between.


async def test_a_node_that_falls_silent_is_the_cause_on_every_page(place: tuple[Scene, Visit]) -> None:
    """As `kohort explain` says it: the pod that is not ready has done nothing wrong."""
    found, user = place
    await found.create(model_set("llm", replicas=1, size=2, gpus=8, never_ready="true"))
    await user.until(f"{SETS}/llm", lambda page: [one["kind"] for one in page["causes"]] == ["probe"] * 2)
    node = (found.cluster.find(PODS, "llm-0-1", "default") or {})["spec"]["nodeName"]
    order = {"metadata": {"annotations": {"simulation.kohort.dev/not-ready": "the network is gone"}}}
    await found.client.patch(NODES, node, "", order)
    page = await user.until(
        f"{SETS}/llm", lambda page: any(one["kind"] == "node" and node in one["found"] for one in page["causes"])
    )
    assert page["set"]["failing"]
    (row,) = (await user.json("/dashboard/"))["rows"]
    assert (row["cause"]["kind"], row["cause"]["object"]) == ("node", "llm-0-1")


async def test_history_compares_revisions(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm", image="model:1"))
    await found.ready("llm")
    await found.change_image("llm", "default", "model:2")
    await found.rolled("llm", "default")
    page = await user.until(f"{SETS}/llm/history", lambda page: len(page["revisions"]) == 2)
    assert [one["revision"] for one in page["revisions"]] == [2, 1]
    assert (page["before"], page["after"]) == (1, 2)
    changed = [one.split() for one in page["difference"] if "image:" in one]
    assert changed == [["-", "-", "image:", "model:1"], ["+", "-", "image:", "model:2"]]
    assert (await user.json(f"{SETS}/llm/history?from=2&to=1"))["before"] == 2
    answer = await user.json(f"{SETS}/llm/history?from=9", status=400)
    assert answer["message"].startswith("LeaderWorkerSet llm has no revision 9; kept are: 1, 2")


async def test_events_of_other_sets_are_left_out(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm"), model_set("llm-two"))
    await found.ready("llm")
    await found.ready("llm-two")
    page = await user.json(f"{SETS}/llm/events")
    assert {"SuccessfulCreate", "Scheduled"} <= {one["reason"] for one in page["events"]}
    assert all("llm-two" not in one["object"] for one in page["events"])


async def test_a_release_is_a_rail_with_both_versions(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm", image="model:1"))
    await found.ready("llm")
    await user.json(f"{SETS}/llm/release", status=404)
    await found.released("llm", "default", STEPS)
    await found.cluster.until(lambda: found.phase_of("llm", "default") == "Healthy")
    await found.change_image("llm", "default", "model:2")
    await found.until_step("llm", "default", 1, "StepPaused")
    page = await user.until(f"{SETS}/llm/release", lambda page: page["new"] is not None and page["new"]["ready"] == 1)
    assert [one["place"] for one in page["steps"]] == ["current", "next", "next"]
    assert (page["steps"][0]["matches"], page["steps"][0]["waitsForApproval"]) == (["header x-tester=1"], True)
    assert [one["groups"] for one in page["steps"]] == [1, 1, 2]
    assert (page["stable"]["images"], page["new"]["images"]) == (["model:1"], ["model:2"])
    assert (page["stable"]["ready"], page["new"]["ready"]) == (2, 1)
    assert page["release"]["waitsForApproval"]
    assert any("model:2" in one for one in page["difference"])
    text = await user.text(f"{SETS}/llm/release")
    assert 'aria-current="step"' in text
    assert page["analyses"] == []


async def test_a_judged_step_has_a_chart(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm", image="model:1"))
    await found.ready("llm")
    await found.released("llm", "default", STEPS)
    await found.cluster.until(lambda: found.phase_of("llm", "default") == "Healthy")
    await found.change_image("llm", "default", "model:2")
    await found.until_step("llm", "default", 1, "StepPaused")
    await found.judged("llm", "default", [0.02, 0.04], [0.01, 0.01])
    page = await user.until(f"{SETS}/llm/release", lambda page: any(one["metrics"] for one in page["analyses"]))
    (analysis,) = page["analyses"]
    (metric,) = analysis["metrics"]
    assert (analysis["step"], analysis["phase"], metric["failAbove"]) == (1, "Passed", 0.03)
    assert [(one["canary"], one["stable"]) for one in metric["points"]] == [(0.02, 0.01), (0.04, 0.01)]
    text = await user.text(f"{SETS}/llm/release")
    drawn = re.findall(r'<polyline points="[^"]+" class="(\w+)"', text)
    assert sorted(drawn) == ["canary", "limit", "over", "stable"]


async def test_a_resize_is_shown_pod_by_pod(place: tuple[Scene, Visit]) -> None:
    found, user = place
    slow = model_set("llm", resize="deferred", resize_message="not now")
    await found.create(slow.but("spec.rolloutStrategy.resourceUpdatePolicy", "InPlaceOnly"))
    await found.ready("llm")
    page = await user.json(f"{SETS}/llm/resize")
    assert (page["policy"], page["progress"]) == ("InPlaceOnly", None)
    place_of_cpu = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/resources"
    amounts = {"cpu": "1", "memory": "16Gi", "nvidia.com/gpu": "2"}
    change: list[JsonObject] = [
        {"op": "replace", "path": place_of_cpu, "value": {"requests": amounts, "limits": amounts}}
    ]
    await found.client.patch(LEADER_WORKER_SETS, "llm", "default", change, PatchType.JSON)
    await found.until_set("llm", "default", lambda one: (one["status"].get("resize") or {}).get("state") == "Resizing")
    await found.cluster.until(lambda: any(_is_pending(one) for one in found.cluster.objects(PODS, "default")))
    page = await user.until(f"{SETS}/llm/resize", lambda page: "Pending" in _states(page))
    assert page["progress"]["state"] == "Resizing"
    assert "Resizing" in {group["phase"] for group in page["groups"]}
    text = await user.text(f"{SETS}/llm/resize")
    assert "not now" in text and "2 → <strong>1</strong>" in text and "waits for its turn" in text
    resources = (await user.json(f"{SETS}/llm"))["resources"]
    assert any("allocated" in amount["drift"] for line in resources for amount in line["amounts"])


def _states(page: JsonObject) -> set[str]:
    return {pod["state"] for group in page["groups"] for pod in group["pods"]}


def _is_pending(one: JsonObject) -> bool:
    conditions = (one.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodResizePending" and each["status"] == "True" for each in conditions)


async def test_names_and_annotations_stay_text(place: tuple[Scene, Visit]) -> None:
    """Whatever objects say, pages have no element that their templates do not have."""
    found, user = place
    for number, text in enumerate(PAYLOADS):
        made = model_set(f"llm-{number}", waiting=text).but("metadata.annotations.example", text)
        made = made.but("spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image", f"x{text}".replace(" ", ""))
        await found.create(made)
    await found.cluster.until(lambda: len(found.cluster.objects(PODS, "default")) == 4 * len(PAYLOADS))
    for number, text in enumerate(PAYLOADS):
        about = {"kind": "LeaderWorkerSet", "name": f"llm-{number}", "namespace": "default"}
        event = {"metadata": {"name": f"e{number}", "namespace": "default"}, "involvedObject": about}
        await found.client.create(EVENTS, {**event, "reason": text, "message": text, "type": "Warning"})
    for path in (
        "/dashboard/",
        *(f"{SETS}/llm-{number}{tab}" for number in range(5) for tab in ("", "/events", "/history")),
    ):
        text = await user.text(path)
        for forbidden in ("<script>", "<img", "<svg on", "onerror=alert(1)>", 'href="javascript'):
            assert forbidden not in text, (path, forbidden)


@pytest.mark.parametrize(
    "path", ["/dashboard/sets/default/none", "/dashboard/sets/none/none", "/dashboard/sets/default"]
)
async def test_what_does_not_exist_is_said(place: tuple[Scene, Visit], path: str) -> None:
    _, user = place
    await user.json(path, status=404)
    assert "Not found" in await user.text(path, status=404)


async def test_a_group_that_is_resized_is_compared_with_its_new_template(place: tuple[Scene, Visit]) -> None:
    found, user = place
    llm = model_set("llm", replicas=2, size=1, gpus=1, resize_latency="1h")
    await found.create(llm.but("spec.rolloutStrategy.resourceUpdatePolicy", "InPlaceOnly"))
    await found.ready("llm")
    amounts = "/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/resources"
    change = [{"op": "replace", "path": f"{amounts}/{one}/cpu", "value": "3"} for one in ("requests", "limits")]
    await found.client.patch(LEADER_WORKER_SETS, "llm", "default", change, PatchType.JSON)

    def cpu(page: Json) -> list[tuple[str, str, str]]:
        lines = [one for line in page["resources"] for one in line["amounts"] if one["side"] == "request"]
        return sorted((one["template"], one["desired"], one["actual"]) for one in lines if one["resource"] == "cpu")

    await user.until(f"{SETS}/llm", lambda page: cpu(page) == [("2", "2", "2"), ("3", "3", "2")])


def amounts_of(**status: JsonObject) -> list[list[str]]:
    """Drift of the cpu request of a pod that asks for 2."""
    template = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2000m"}}}]}}
    group_set = lws("llm").but("spec.leaderWorkerTemplate.workerTemplate", template).as_view(LeaderWorkerSet)
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: "0", group_labels.WORKER_INDEX: "0"}
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    made = pod("llm-0").labels(labels).but("spec.containers", [{"name": "a", "image": "x", "resources": resources}])
    made = made.but("status.containerStatuses", [{"name": "a", **status}])
    (line,) = container_amounts(Snapshot(group_set, pods=[made.as_view(Pod)]))
    return [list(one.drift) for one in line.amounts if one.side == "request"]


def test_drift_is_where_a_place_differs_from_the_one_before() -> None:
    two, three = {"cpu": "2"}, {"cpu": "3"}
    assert amounts_of() == [[]]
    assert amounts_of(allocatedResources=two, resources={"requests": two}) == [[]]
    assert amounts_of(allocatedResources=three, resources={"requests": three}) == [["allocated"]]
    assert amounts_of(allocatedResources=two, resources={"requests": three}) == [["actual"]]
