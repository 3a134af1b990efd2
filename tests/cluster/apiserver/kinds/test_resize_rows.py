"""Rows T58 to T68, T73, B10, B11 and G of the checklist (pod resize specification 8): which changes the resize
subresource allows, what it refuses and at which field, and what it leaves alone."""

from collections.abc import Mapping

import pytest
from tests.cluster.apiserver.caller import Answer, Api
from tests.node.resizing import block

from kohort.objects.json_types import Json, JsonObject

PODS = "/api/v1/namespaces/d/pods"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
GUARANTEED = "100m/100Mi:100m/100Mi"
BURSTABLE = "100m/100Mi:200m/200Mi"


def spec(sizes: Mapping[str, str | JsonObject], **more: Json) -> JsonObject:
    """Sizes by container, `pod` for the pod itself; `side` is a sidecar, `init` a regular init container."""
    made: JsonObject = {"containers": [], "initContainers": []}
    for name, size in sizes.items():
        resources = block(size) if isinstance(size, str) else size
        if name == "pod":
            made["resources"] = resources
            continue
        document: JsonObject = {"name": name, "image": "i", "resources": resources, **more.get(name, {})}
        if name == "side":
            document["restartPolicy"] = "Always"
        made["initContainers" if name in ("side", "init") else "containers"].append(document)
    found = {key: value for key, value in made.items() if value}
    return {**found, **{key: value for key, value in more.items() if key not in sizes}}


async def created(api: Api, sizes: Mapping[str, str | JsonObject], **more: Json) -> Answer:
    answer = await api.post(PODS, {"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": spec(sizes, **more)})
    assert answer.code == 201, answer.raw
    return answer


async def resized(api: Api, sizes: Mapping[str, str | JsonObject]) -> Answer:
    change = spec(sizes)
    for each in (*change.get("containers", ()), *change.get("initContainers", ())):
        del each["image"]
        each.pop("restartPolicy", None)
    return await api.patch(f"{PODS}/p/resize", {"spec": change}, STRATEGIC)


def fields(answer: Answer) -> set[str]:
    return {cause["field"] for cause in answer.json["details"]["causes"]}


GPU = {"requests": {"cpu": "100m", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
DISK = {"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}
MORE_DISK = {"requests": {"ephemeral-storage": "2Gi"}}
CONTAINER = "spec.containers[0].resources"
REFUSED = [
    ("T58", {"c": ""}, {"c": "-/100Mi"}, {"spec"}),
    ("T59", {"c": ""}, {"c": "100m"}, {"spec"}),
    ("T60", {"c": GUARANTEED}, {"c": {"limits": {"cpu": None, "memory": None}}}, {f"{CONTAINER}.limits", "spec"}),
    (
        "T61",
        {"c": BURSTABLE},
        {"c": {"requests": {"cpu": "150m"}, "limits": {"cpu": None, "memory": None}}},
        {f"{CONTAINER}.limits"},
    ),
    ("T62", {"c": "100m/100Mi"}, {"c": {"requests": {"memory": None}}}, {f"{CONTAINER}.requests"}),
    ("T63", {"c": "100m/100Mi"}, {"c": {"requests": {"cpu": None}}}, {f"{CONTAINER}.requests"}),
    ("T66", {"c": BURSTABLE}, {"c": "200m/200Mi:200m/200Mi"}, {"spec"}),
    ("T67", {"c": DISK}, {"c": MORE_DISK}, {"spec"}),
    ("G22", {"c": "100m", "pod": "200m"}, {"pod": {"requests": {"ephemeral-storage": "1Gi"}}}, None),
    ("G24-container", {"c": DISK}, {"c": MORE_DISK}, {"spec"}),
    ("G24-sidecar", {"c": "100m", "side": DISK}, {"side": MORE_DISK}, {"spec.initContainers[0]"}),
    ("G26-G-to-B", {"c": GUARANTEED}, {"c": "100m/100Mi:200m/200Mi"}, {"spec"}),
    ("G26-B-to-G", {"c": BURSTABLE}, {"c": "200m/200Mi:200m/200Mi"}, {"spec"}),
    ("G26-BE-to-B", {"c": ""}, {"c": "100m"}, {"spec"}),
    ("G28-container", {"c": BURSTABLE}, {"c": {"limits": {"memory": None}}}, {f"{CONTAINER}.limits"}),
    (
        "G28-sidecar",
        {"c": "100m", "side": BURSTABLE},
        {"side": {"limits": {"memory": None}}},
        {"spec.initContainers[0].resources.limits"},
    ),
    (
        "G28-init",
        {"c": "100m", "init": BURSTABLE},
        {"init": {"limits": {"memory": None}}},
        {"spec.initContainers[0].resources.limits"},
    ),
    ("G34", {"c": "100m", "c2": ""}, {"c2": {"limits": {"example.com/gpu": "1"}}}, {"spec"}),
    ("G18", {"c": BURSTABLE, "pod": "200m/200Mi:400m/400Mi"}, {"c": "100m/100Mi:500m/200Mi"}, None),
    ("G16-more", {"c": "100m", "pod": "200m"}, {"c": "300m"}, {"spec.resources.requests[cpu]"}),
    ("G6", {"c": "100m", "pod": "200m/200Mi"}, {"pod": {"requests": None}}, None),
]


@pytest.mark.parametrize(("before", "change", "expected"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
async def test_refused_and_nothing_changes_t68(
    admitting: Api, before: JsonObject, change: JsonObject, expected: set[str] | None
) -> None:
    stored = (await created(admitting, before)).json
    answer = await resized(admitting, change)
    assert answer.code == 422, answer.raw
    assert expected is None or fields(answer) == expected
    kept = (await admitting.get(f"{PODS}/p")).json
    assert (kept["spec"], kept["status"]) == (stored["spec"], stored["status"])
    assert kept["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


ACCEPTED = [
    ("G7", {"c": "-:200m/256Mi", "pod": "200m/256Mi:200m/256Mi"}, {"pod": "300m/300Mi:300m/300Mi"}),
    ("G16-less", {"c": "100m", "pod": "200m"}, {"c": "150m"}),
    ("G16-equal", {"c": "100m", "pod": "200m"}, {"c": "200m"}),
    ("G17-sum-above", {"c": BURSTABLE, "c2": BURSTABLE, "pod": "200m/200Mi:300m/300Mi"}, {"c": "90m/90Mi:250m/250Mi"}),
    ("G19", {"c": GPU, "pod": "200m"}, {"c": "150m"}),
    ("G20-no-block", {"c": "100m"}, {"pod": "200m"}),
    ("G20-no-requests", {"c": "50m", "pod": "-:400m"}, {"pod": "200m:400m"}),
    ("G20-no-limits", {"c": "50m", "pod": "200m"}, {"pod": "200m:400m"}),
    ("G21-container-request", {"c": "50m", "pod": "200m:400m"}, {"c": "60m"}),
    ("G21-container-limit", {"c": "50m:60m", "pod": "200m:400m"}, {"c": "50m:70m"}),
    ("G21-pod-request", {"c": "50m", "pod": "200m/64Mi:400m/128Mi"}, {"pod": "250m/100Mi"}),
    ("G21-pod-limit", {"c": "50m", "pod": "200m/64Mi:400m/128Mi"}, {"pod": "-:500m/256Mi"}),
    ("G23-cpu-limit", {"c": BURSTABLE}, {"c": "-:300m"}),
    ("G23-memory-up", {"c": BURSTABLE}, {"c": "-:-/300Mi"}),
    ("G23-memory-down", {"c": BURSTABLE}, {"c": "-:-/150Mi"}),
    ("G23-cpu-request", {"c": BURSTABLE}, {"c": "150m"}),
    ("G23-memory-request", {"c": BURSTABLE}, {"c": "-/150Mi"}),
    ("G25-guaranteed", {"c": GUARANTEED}, {"c": "200m/200Mi:200m/200Mi"}),
    ("G25-add-limits", {"c": "100m"}, {"c": "-:200m"}),
    ("G25-add-requests", {"c": "100m"}, {"c": "-/64Mi"}),
    ("G29-init", {"c": "100m", "init": "100m"}, {"init": "200m"}),
    ("G30-not-running", {"c": "100m"}, {"c": "200m"}),
    ("G31-sidecar-up", {"c": "100m", "side": BURSTABLE}, {"side": "150m/150Mi:300m/300Mi"}),
    ("G31-sidecar-down", {"c": "100m", "side": BURSTABLE}, {"side": "50m/50Mi:150m/150Mi"}),
    ("G39-unbound", {"c": "100m"}, {"c": "4000"}),
]


@pytest.mark.parametrize(("before", "change"), [pytest.param(*row[1:], id=row[0]) for row in ACCEPTED])
async def test_accepted_and_one_generation_more(admitting: Api, before: JsonObject, change: JsonObject) -> None:
    await created(admitting, before)
    answer = await resized(admitting, change)
    assert answer.code == 200, answer.raw
    assert answer.meta["generation"] == 2


@pytest.mark.parametrize(
    ("before", "change", "requests", "limits"),
    [
        pytest.param({"c": "100m/128Mi:200m/256Mi"}, {"pod": "150m/256Mi"}, "150m/256Mi", "200m/256Mi", id="G4"),
        pytest.param(
            {"c": "100m/128Mi:200m/256Mi", "c2": "100m/128Mi"}, {"pod": "200m/256Mi"}, "200m/256Mi", "", id="G8-none"
        ),
        pytest.param(
            {"c": "100m/128Mi:200m/256Mi", "c2": "100m/128Mi:200m/256Mi"},
            {"pod": "200m/256Mi"},
            "200m/256Mi",
            "400m/512Mi",
            id="G8-both",
        ),
        pytest.param(
            {"c": "100m/128Mi:200m/256Mi", "c2": "100m/128Mi:200m/-"},
            {"pod": "200m/256Mi"},
            "200m/256Mi",
            "400m",
            id="G8-cpu",
        ),
    ],
)
async def test_what_a_new_block_does_not_say_follows_from_the_containers(
    admitting: Api, before: JsonObject, change: JsonObject, requests: str, limits: str
) -> None:
    await created(admitting, before)
    answer = await resized(admitting, change)
    assert answer.code == 200, answer.raw
    found = answer.json["spec"]["resources"]
    assert found == block(f"{requests}:{limits}")


async def test_g5_a_block_that_is_sent_anew_is_completed_anew(admitting: Api) -> None:
    await created(admitting, {"c": "100m/128Mi:200m/256Mi", "pod": "-/200Mi"})
    found = (await admitting.get(f"{PODS}/p")).json
    assert found["spec"]["resources"] == block("100m/200Mi:200m/256Mi")
    found["spec"]["resources"] = block("100m")
    answer = await admitting.put(f"{PODS}/p/resize", found)
    assert answer.code == 200, answer.raw
    assert answer.json["spec"]["resources"] == block("100m/128Mi:200m/256Mi")


async def test_n20_what_follows_from_the_containers_is_not_changed_by_an_annotation(admitting: Api) -> None:
    made = (await created(admitting, {"c": "100m/128Mi:200m/256Mi", "pod": "-/200Mi"})).json
    noted = await admitting.patch(f"{PODS}/p", {"metadata": {"annotations": {"a": "b"}}})
    assert noted.json["spec"]["resources"] == made["spec"]["resources"] == block("100m/200Mi:200m/256Mi")


async def test_g9_g13_what_is_no_resource_is_left_as_it_was(admitting: Api) -> None:
    await created(
        admitting, {"c": BURSTABLE}, volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
    )
    found = (await admitting.get(f"{PODS}/p")).json
    found["metadata"]["labels"] = {"a": "2"}
    found["spec"]["containers"][0] |= {"image": "other", "resources": block("150m/100Mi:200m/200Mi")}
    found["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = "2Mi"
    answer = await admitting.put(f"{PODS}/p/resize", found)
    assert answer.code == 200, answer.raw
    (container,) = answer.json["spec"]["containers"]
    assert (container["image"], answer.meta["labels"]) == ("i", {"a": "1"})
    assert answer.json["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "1Mi"
    assert container["resources"]["requests"]["cpu"] == "150m"


async def sent_with(api: Api, containers: list[JsonObject]) -> Answer:
    return await api.patch(f"{PODS}/p/resize", {"spec": {"containers": containers}}, MERGE)


async def test_t64_t65_g10_g32_containers_stay_who_and_where_they_are(admitting: Api) -> None:
    made = (await created(admitting, {"c": BURSTABLE, "c2": BURSTABLE})).json
    one, two = made["spec"]["containers"]
    names = {"spec.containers[0].name", "spec.containers[1].name"}
    assert fields(await sent_with(admitting, [two, one])) == names
    assert fields(await sent_with(admitting, [{**one, "name": "x"}, two])) == {"spec.containers[0].name"}
    assert fields(await sent_with(admitting, [one])) == {"spec.containers"}
    assert fields(await sent_with(admitting, [one, two, {**one, "name": "c3"}])) == {"spec.containers"}
    assert (await admitting.get(f"{PODS}/p")).json["spec"] == made["spec"]


async def test_g12_g33_the_policy_of_a_resize_is_not_resized(admitting: Api) -> None:
    policy = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}
    await created(admitting, {"c": BURSTABLE, "side": BURSTABLE}, c=policy, side=policy)
    changed = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    for where in ("containers", "initContainers"):
        name = "c" if where == "containers" else "side"
        change = {"spec": {where: [{"name": name, "resizePolicy": changed}]}}
        assert (await admitting.patch(f"{PODS}/p/resize", change, STRATEGIC)).code == 422


@pytest.mark.parametrize(
    ("policies", "more", "problem"),
    [
        pytest.param([("cpu", "NotRequired"), ("memory", "RestartContainer")], {}, "", id="G14-valid"),
        pytest.param([("cpu", "NotRequired"), ("cpu", "NotRequired")], {}, "Duplicate value", id="G14-twice"),
        pytest.param([("", "NotRequired")], {}, "Required value", id="G14-empty"),
        pytest.param([("disk", "NotRequired")], {}, "Unsupported value", id="G14-resource"),
        pytest.param([("cpu", "PreferNoRestart")], {}, "Unsupported value", id="G14-word-of-the-proposal"),
        pytest.param([("cpu", "RestartContainer")], {"restartPolicy": "Never"}, "Invalid value", id="G14-never"),
    ],
)
async def test_policies(admitting: Api, policies: list[tuple[str, str]], more: JsonObject, problem: str) -> None:
    rules = [{"resourceName": name, "restartPolicy": word} for name, word in policies]
    body = {"metadata": {"name": "p"}, "spec": spec({"c": BURSTABLE}, c={"resizePolicy": rules}, **more)}
    answer = await admitting.post(PODS, body)
    assert (answer.code == 201) == (problem == "") and problem in answer.raw.decode()


async def test_g14_g29_a_regular_init_container_does_not_restart_for_a_resize(admitting: Api) -> None:
    rules = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    body = {"metadata": {"name": "p"}, "spec": spec({"c": "100m", "init": "100m"}, init=rules)}
    answer = await admitting.post(PODS, body)
    assert fields(answer) == {"spec.initContainers[0].resizePolicy[0].restartPolicy"}


async def test_g15_g27_another_system_and_claims(admitting: Api) -> None:
    windows = {"metadata": {"name": "w"}, "spec": spec({"c": "", "pod": "100m"}, os={"name": "windows"})}
    assert fields(await admitting.post(PODS, windows)) == {"spec.resources"}
    claims = {"metadata": {"name": "p"}, "spec": spec({"c": "", "pod": {"claims": [{"name": "x"}]}})}
    assert "spec.resources.claims" in fields(await admitting.post(PODS, claims))


async def test_i7_a_pod_has_no_storage_of_its_own(admitting: Api) -> None:
    level = {"requests": {"ephemeral-storage": "1Gi"}}
    refused = await admitting.post(PODS, {"metadata": {"name": "q"}, "spec": spec({"c": "", "pod": level})})
    assert "spec.resources.requests[ephemeral-storage]" in fields(refused)
    await created(admitting, {"c": DISK, "pod": "200m/200Mi"})


async def test_g36_claims_of_a_container_stay(admitting: Api) -> None:
    await created(admitting, {"c": BURSTABLE})
    answer = await resized(admitting, {"c": {"claims": [{"name": "x"}]}})
    assert answer.code == 422, "1.36 lets this pass"


async def test_t73_the_whole_pod_may_be_sent_and_both_doors_show_the_same(admitting: Api) -> None:
    await created(admitting, {"c": BURSTABLE})
    found = (await admitting.get(f"{PODS}/p/resize")).json
    assert found == (await admitting.get(f"{PODS}/p")).json
    found["spec"]["containers"][0]["resources"] = block("150m/100Mi:200m/200Mi")
    answer = await admitting.put(f"{PODS}/p/resize", found)
    assert (answer.code, answer.meta["generation"]) == (200, 2)
    found["metadata"]["resourceVersion"] = "1"
    assert (await admitting.put(f"{PODS}/p/resize", found)).code == 409


async def test_g40_the_pods_own_figures_decide_whether_its_node_is_large_enough(admitting: Api) -> None:
    status = {"allocatable": {"cpu": "1"}, "declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]}
    await admitting.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
    await created(admitting, {"c": "100m", "pod": "200m"}, nodeName="n")
    assert (await resized(admitting, {"pod": "900m"})).code == 200
    refused = await resized(admitting, {"pod": "1100m"})
    assert [cause["reason"] for cause in refused.json["details"]["causes"]] == ["NodeCapacity"]


RANGE = {"type": "Container", "max": {"cpu": "500m", "memory": "500Mi"}, "min": {"cpu": "50m", "memory": "50Mi"}}


@pytest.mark.parametrize(
    ("size", "words"),
    [
        pytest.param("600m/300Mi", ["maximum cpu"], id="B10-cpu-above"),
        pytest.param("300m/600Mi", ["maximum memory"], id="B10-memory-above"),
        pytest.param("600m/600Mi", ["maximum cpu", "maximum memory"], id="B10-both-above"),
        pytest.param("40m/300Mi", ["minimum cpu"], id="B10-cpu-below"),
        pytest.param("300m/40Mi", ["minimum memory"], id="B10-memory-below"),
        pytest.param("40m/40Mi", ["minimum cpu", "minimum memory"], id="B10-both-below"),
        pytest.param("400m/300Mi", [], id="B11-cpu-up"),
        pytest.param("300m/400Mi", [], id="B11-memory-up"),
        pytest.param("400m/400Mi", [], id="B11-both-up"),
        pytest.param("200m/200Mi", [], id="B11-both-down"),
    ],
)
async def test_resizes_stay_within_the_range(admitting: Api, size: str, words: list[str]) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": [RANGE]}}
    assert (await admitting.post("/api/v1/namespaces/d/limitranges", body)).code == 201
    await created(admitting, {"c": "300m/300Mi:300m/300Mi"})
    answer = await resized(admitting, {"c": f"{size}:{size}"})
    assert answer.code == (403 if words else 200), answer.raw
    assert all(each in answer.message for each in words)
