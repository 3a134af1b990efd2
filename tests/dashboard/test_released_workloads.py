"""Deployments and StatefulSets that a Rollout releases, beside sets of groups."""

import re
from collections.abc import AsyncIterator

import pytest
from tests.builders import deployment
from tests.dashboard.isolation import SECRET
from tests.dashboard.scene import SIMULATED, STEPS, Scene, Visit, dashboard, model_set, rollout_of, scene, visit
from tests.dashboard.test_token_access import READ, logged_in, place_of, reader

from kohort.dashboard.server import DashboardSettings
from kohort.kube.resources import DEPLOYMENTS, EVENTS, NODES, PODS, ROLLOUTS, STATEFUL_SETS, Resource
from kohort.objects.json_types import Json, JsonObject

WEB = "/dashboard/deployments/default/web"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, Visit]]:
    async with (
        scene(nodes=4) as found,
        dashboard(found, DashboardSettings(allow_actions=True)) as made,
        visit(made) as user,
    ):
        yield found, user


def names(page: Json) -> list[tuple[str, str]]:
    return [(one["kind"], one["name"]) for one in page["rows"]]


async def test_the_fleet_has_what_rollouts_name_and_nothing_else(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("web"))
    await found.client.create(DEPLOYMENTS, deployment("alone"))
    await found.released_workload(DEPLOYMENTS, "web")
    await found.released_workload(STATEFUL_SETS, "db")
    page = await user.until("/dashboard/", lambda page: len(page["rows"]) == 3)
    assert names(page) == [("StatefulSet", "db"), ("Deployment", "web"), ("LeaderWorkerSet", "web")]
    await user.until("/dashboard/", lambda page: page["states"]["Available"] == 3)
    assert page["kinds"] == ["LeaderWorkerSet", "Deployment", "StatefulSet"]
    assert names(await user.json("/dashboard/?kind=Deployment")) == [("Deployment", "web")]
    assert names(await user.json("/dashboard/?label=app=db")) == [("StatefulSet", "db")]
    assert names(await user.json("/dashboard/?name=web&kind=LeaderWorkerSet")) == [("LeaderWorkerSet", "web")]
    answer = await user.json("/dashboard/?kind=Pod", status=400)
    assert answer["message"].startswith("kind: 'Pod' is not shown here; allowed are LeaderWorkerSet, Deployment")
    text = await user.text("/dashboard/")
    assert 'id="deployment-default.web"' in text and 'id="set-default.web"' in text
    assert "alone" not in text
    assert "All workloads" in text and "3 workloads, page 1 of 1" in text
    await user.json("/dashboard/deployments/default/alone", status=404)
    await found.client.delete(ROLLOUTS, "web", "default")
    await user.until("/dashboard/", lambda page: ("Deployment", "web") not in names(page))
    await user.json(WEB, status=404)


async def test_a_fleet_of_sets_has_no_choice_of_kinds(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.create(model_set("llm"))
    await user.until("/dashboard/", lambda page: len(page["rows"]) == 1)
    text = await user.text("/dashboard/")
    assert "filter-kind" not in text and "All sets" in text and "workload" not in text


@pytest.mark.parametrize(
    ("of", "extra"),
    [
        pytest.param(DEPLOYMENTS, True, id="canary"),
        pytest.param(DEPLOYMENTS, False, id="partition"),
        pytest.param(STATEFUL_SETS, False, id="statefulset"),
    ],
)
async def test_a_release_has_its_steps_and_both_versions(place: tuple[Scene, Visit], of: Resource, extra: bool) -> None:
    found, user = place
    await found.released_workload(of, "web", extra=extra)
    await found.release_image(of, "web", "web:2")
    base = f"/dashboard/{of.plural}/default/web"
    page = await user.until(
        f"{base}/release",
        lambda page: page["new"] is not None and page["new"]["ready"] == 1 and page["release"]["step"],
    )
    assert (page["set"]["kind"], page["release"]["step"], page["release"]["waitsForApproval"]) == (of.kind, 1, True)
    assert [one["groups"] for one in page["steps"]] == [1, 2, 4]
    assert (page["stable"]["images"], page["new"]["images"]) == (["web:1"], ["web:2"])
    assert (len(page["new"]["pods"]), len(page["stable"]["pods"])) == (1, 4 if extra else 3)
    changed = [one.split() for one in page["difference"] if "image:" in one]
    assert changed == [["-", "-", "image:", "web:1"], ["+", "-", "image:", "web:2"]]
    text = await user.text(f"{base}/release")
    assert "1 of 4 pods" in text and "group" not in text.replace("no-group", "").split("<main")[1].lower()
    row = (await user.json("/dashboard/"))["rows"][0]
    assert (row["kind"], row["release"]["step"], row["cause"]["kind"]) == (of.kind, 1, "rollout")
    overview = await user.json(base)
    assert any("kohort approve" in str(one) for one in overview["causes"])
    assert f'href="{base}/actions/approve"' in await user.text(base)
    pods = {one["metadata"]["name"] for one in found.cluster.objects(PODS, "default")}
    assert set((await user.json(f"{base}/logs"))["pods"]) == pods
    events = await user.json(f"{base}/events")
    assert {one["kind"] for one in events["events"]} >= {of.kind, "Pod"}
    history = await user.json(f"{base}/history")
    assert [one["images"] for one in history["revisions"]][-1] == ["web:1"]
    assert history["revisions"][-1]["pods"] == (4 if extra else 3)
    badge = await user.json(f"{base}/status.svg")
    assert badge["label"] == "web" and badge["message"].endswith("step 1/3")
    for page_of_sets in ("resize", "failures"):
        await user.json(f"{base}/{page_of_sets}", status=404)


async def test_a_release_of_a_deployment_is_approved_and_given_up(place: tuple[Scene, Visit]) -> None:
    found, user = place
    await found.released_workload(DEPLOYMENTS, "web")
    await found.release_image(DEPLOYMENTS, "web", "web:2")
    await user.until(f"{WEB}/release", lambda page: bool((page["release"] or {}).get("waitsForApproval")))
    page = await user.json(f"{WEB}/actions/approve")
    assert (page["refused"], page["command"]) == ("", "kohort approve deployment/web -n default")
    assert found.step_of("web", "default") == 1
    await act(user, "approve")
    await found.until_step("web", "default", 2, "StepPaused")
    await user.until(f"{WEB}/release", lambda page: page["release"]["step"] == 2)
    preview = await user.json(f"{WEB}/actions/abort")
    assert preview["writes"][0]["path"].endswith("/deployments/web")
    await act(user, "abort")
    await found.cluster.until(lambda: found.phase_of("web", "default") == "Healthy", timeout=60)
    await user.until(f"{WEB}/release", lambda page: page["release"] is None and page["new"] is None)
    events = [one for one in found.cluster.objects(EVENTS) if one.get("reason", "").startswith("Dashboard")]
    assert {(one["involvedObject"]["kind"], one["reason"]) for one in events} == {
        ("Deployment", "DashboardApprove"),
        ("Deployment", "DashboardAbort"),
    }


async def test_a_node_that_falls_silent_is_the_cause_for_deployments_too(place: tuple[Scene, Visit]) -> None:
    """By the rule that sets have."""
    found, user = place
    mark = {f"{SIMULATED}never-ready": "true"}
    await found.client.create(DEPLOYMENTS, deployment("web").but("spec.template.metadata.annotations", mark))
    await found.client.create(ROLLOUTS, rollout_of("web", "default", STEPS, DEPLOYMENTS))
    await user.until("/dashboard/", lambda page: len(page["rows"]) == 1)
    page = await user.until(WEB, lambda page: any(one["kind"] == "probe" for one in page["causes"]))
    node = page["pods"]["pods"][0]["node"]
    order = {"metadata": {"annotations": {f"{SIMULATED}not-ready": "the network is gone"}}}
    await found.client.patch(NODES, node, "", order)
    page = await user.until(WEB, lambda page: any(one["kind"] == "node" for one in page["causes"]))
    cause = next(one for one in page["causes"] if one["kind"] == "node")
    assert node in cause["found"]
    assert "restartBudget" not in str(cause)


async def act(user: Visit, verb: str, status: int = 200) -> Json:
    page = await user.json(f"{WEB}/actions/{verb}")
    csrf = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/"))
    assert csrf is not None
    headers = {"Accept": "application/json"}
    body = {"csrf": csrf[1], "seen": page["seen"]}
    async with user.session.post(f"{user.base}{WEB}/actions/{verb}", data=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


@pytest.mark.parametrize("verb", ["scale", "resize"])
async def test_a_deployment_has_no_actions_of_groups(place: tuple[Scene, Visit], verb: str) -> None:
    found, user = place
    await found.released_workload(DEPLOYMENTS, "web")
    await user.until("/dashboard/", lambda page: bool(page["rows"]))
    await user.json(f"{WEB}/actions/{verb}?replicas=1&cpu=1", status=404)
    csrf = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/"))
    assert csrf is not None
    body = {"csrf": csrf[1], "replicas": "1", "cpu": "1"}
    async with user.session.post(f"{user.base}{WEB}/actions/{verb}", data=body) as answer:
        assert answer.status == 404


def rules(**resources: str) -> list[JsonObject]:
    groups = {"apps": "apps", "rollouts": "rollouts.kruise.io", "sets": "leaderworkerset.x-k8s.io", "pods": ""}
    return [
        {"apiGroups": [groups[name]], "resources": one.split(","), "verbs": ["list"]} for name, one in resources.items()
    ]


@pytest.mark.parametrize(
    ("allowed", "seen"),
    [
        (READ, ["open-model", "open-web"]),
        (rules(apps="deployments", rollouts="rollouts"), ["open-web"]),
        (rules(apps="deployments"), []),
        (rules(rollouts="rollouts"), []),
        (rules(apps="statefulsets", rollouts="rollouts"), []),
        (rules(sets="leaderworkersets"), ["open-model"]),
    ],
)
async def test_a_deployment_is_seen_with_the_rights_to_list_it_and_its_rollout(
    allowed: list[JsonObject], seen: list[str]
) -> None:
    async with place_of() as place:
        await place.scene.released_workload(DEPLOYMENTS, "open-web", "east")
        await place.scene.released_workload(DEPLOYMENTS, SECRET, "west")
        everything = await reader(place.scene, "east", READ, name="all")
        async with logged_in(place, everything) as user:
            await user.until("/dashboard/", lambda page: len(page["rows"]) == 2)
        token = await reader(place.scene, "east", allowed, name="one")
        async with logged_in(place, token) as user:
            page = await user.json("/dashboard/")
            assert [one["name"] for one in page["rows"]] == seen
            status = 200 if "open-web" in seen else 404
            await user.json("/dashboard/deployments/east/open-web", status=status)
            answer = await user.json(f"/dashboard/deployments/west/{SECRET}", status=404)
            absent = await user.json("/dashboard/deployments/west/none", status=404)
            assert answer["message"].replace(SECRET, "none") == absent["message"]
            if allowed is not READ and status == 200:
                assert "open-web-" not in await user.text("/dashboard/deployments/east/open-web")
